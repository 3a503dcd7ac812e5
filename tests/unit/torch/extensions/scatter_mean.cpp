// Operators for the key CUDA and their gradients; what is called from Python directly.
#include <torch/extension.h>
#include <torch/library.h>
#include <vector>
at::Tensor scatter_mean_cuda(const at::Tensor& src, const at::Tensor& index, int64_t size);
at::Tensor scatter_mean_grad_cuda(const at::Tensor& grad, const at::Tensor& index, int64_t size);
std::vector<at::Tensor> two_streams(at::Tensor x, int64_t pieces);
std::string device_name(c10::optional<at::Device> device);
at::Tensor on_named(int64_t n, const std::string& name);

at::Tensor scatter_mean(const at::Tensor& src, const at::Tensor& index, int64_t size) {
  static auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("stranger::scatter_mean", "").typed<decltype(scatter_mean)>();
  return op.call(src, index, size);
}
struct ScatterMean : torch::autograd::Function<ScatterMean> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& src, const at::Tensor& index,
                            int64_t size) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({index});
    ctx->saved_data["size"] = size;
    return scatter_mean(src, index, size);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list grads) {
    auto index = ctx->get_saved_variables()[0];
    TORCH_INTERNAL_ASSERT(index.is_cuda());
    return {scatter_mean_grad_cuda(grads[0].contiguous(), index, ctx->saved_data["size"].toInt()), at::Tensor(),
            at::Tensor()};
  }
};
at::Tensor scatter_mean_autograd(const at::Tensor& src, const at::Tensor& index, int64_t size) {
  return ScatterMean::apply(src, index, size);
}

TORCH_LIBRARY(stranger, m) { m.def("scatter_mean(Tensor src, Tensor index, int size) -> Tensor"); }
TORCH_LIBRARY_IMPL(stranger, CUDA, m) { m.impl("scatter_mean", TORCH_FN(scatter_mean_cuda)); }
TORCH_LIBRARY_IMPL(stranger, AutogradCUDA, m) { m.impl("scatter_mean", TORCH_FN(scatter_mean_autograd)); }
TORCH_LIBRARY_IMPL(stranger, Meta, m) {
  m.impl("scatter_mean", [](const at::Tensor& src, const at::Tensor& index, int64_t size) {
    return src.new_empty({size, src.size(1)});
  });
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("two_streams", &two_streams, "x in pieces, on streams of the pool", py::arg("x"), py::arg("pieces") = 2,
        py::call_guard<py::gil_scoped_release>());
  m.def("device_name", &device_name, py::arg("device") = py::none());
  m.def("on_named", &on_named);
}
