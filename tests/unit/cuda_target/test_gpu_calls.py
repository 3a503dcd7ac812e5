"""The way of a call to the GPU, with a driver that records: which device, which stream, which addresses."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_target.fake_driver import CONTEXTS, OnGpu, Status
from threadloom.errors import CompileError, InternalError
from threadloom.targets.cuda import faults, launch

pytest.importorskip("cuda.bindings.nvrtc")


@tl.kernel
def scaled(x: tl.Tensor["M", "N", tl.f32], by: tl.f32) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m, n] = x[m, n] * by


@tl.kernel
def summed(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        tl.atomic_add(out[n], tl.sum(x[m, n], m))


@tl.kernel
def row_sums(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        total = tl.zeros(m)
        for n in tl.stream("N"):
            total += tl.sum(x[m, n], n)
        out[m] = total


def arrays(rows: int = 64, columns: int = 128) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((rows, columns), dtype=np.float32), np.zeros((rows, columns), np.float32)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 64 bytes."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    made = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def call(gpu, x: np.ndarray, out: np.ndarray, by: float = 2.0, **where):
    return scaled(OnGpu(x, **where), by, out=OnGpu(out, **where))


def compiled(kernel) -> list[launch.CudaKernel]:
    return list(launch._known_of(kernel.tile()).compiled.values())


def test_calls_of_one_form_share_a_kernel(gpu):
    x, out = map(aligned, arrays())
    call(gpu, x, out)
    call(gpu, out, x)
    first, second = gpu.launches
    kernel = compiled(scaled)[0]
    assert first.blocks == second.blocks == min(132, kernel.tiles({"M": 64, "N": 128}))
    assert first.threads == kernel.source.threads and first.shared_bytes == kernel.source.shared_bytes
    assert len(launch._known_of(scaled.tile()).prepared) == 1


def test_parameters_hold_addresses_extents_and_scalars(gpu):
    x, out = map(aligned, arrays())
    call(gpu, x, out, by=3.5)
    source = compiled(scaled)[0].source
    for a, b, by in ((x, out, 3.5), (out, x, 0.25), (x, out, 3.5)):
        scaled(OnGpu(a), by, out=OnGpu(b))
        words = gpu.launches[-1].words
        pointers = {"x": a.ctypes.data, "out": b.ctypes.data}
        for at, (_, spec) in enumerate(source.maps):
            assert words[at] == pointers[spec.tensor]
        for at, name in enumerate(source.direct):
            assert words[len(source.maps) + 3 * at] == pointers[name]
            assert words[len(source.maps) + 3 * at + 1] == 128  # the stride of rows, in elements
        numbers = words[len(source.maps) + 3 * len(source.direct) :]
        assert [n & 0xFFFFFFFF for n in numbers[:-1]] == [{"M": 64, "N": 128}[d] for d in source.dims]
        assert np.uint32(numbers[-1] & 0xFFFFFFFF).view(np.float32) == np.float32(by)


def test_runs_on_the_tensors_device_and_leaves_the_current_one(gpu):
    x, out = map(aligned, arrays())
    call(gpu, x, out, ordinal=1)
    call(gpu, x, out, ordinal=0)
    assert [entry.context for entry in gpu.launches] == [CONTEXTS[1], CONTEXTS[0]]
    assert gpu.current == CONTEXTS[0]


def test_a_thread_without_a_context_gets_the_devices(gpu):
    x, out = map(aligned, arrays())
    call(gpu, x, out)
    gpu.current = 0
    worker = threading.Thread(target=call, args=(gpu, x, out))
    worker.start()
    worker.join()
    assert gpu.launches[-1].context == CONTEXTS[0] and gpu.current == 0


def test_streams(gpu):
    x, out = map(aligned, arrays())
    call(gpu, x, out)
    assert gpu.launches[-1].stream == 1  # the legacy default one, where the array names none
    call(gpu, x, out, stream=77)
    assert gpu.launches[-1].stream == 77 and not gpu.ordered
    scaled(OnGpu(x, stream=77), 2.0, out=OnGpu(out, stream=88))
    assert gpu.launches[-1].stream == 77
    assert gpu.ordered == [("record", 88), ("wait", 77), ("record", 77), ("wait", 88)]


def test_nothing_is_launched_for_no_elements(gpu):
    x = np.zeros((0, 128), np.float32)
    call(gpu, x, np.zeros((0, 128), np.float32))
    assert not gpu.launches


def test_targets_of_atomics_begin_at_zero(gpu):
    x, _ = arrays()
    out = aligned(np.full(128, 7, np.float32))
    summed(OnGpu(aligned(x)), out=OnGpu(out, stream=None))
    assert not out.any() and gpu.filled == [(out.ctypes.data, out.nbytes, 1)]


def test_another_alignment_is_another_kernel(gpu):
    x, out = map(aligned, arrays())
    call(gpu, x, out)
    before = len(compiled(scaled))
    wide = aligned(np.zeros((64, 130), np.float32))
    call(gpu, wide[:, 1:129], out)
    assert len(compiled(scaled)) == before + 1 and len(gpu.launches) == 2


# ---------------------------------------------------------------- errors


def failure(function, *args, **kwargs) -> CompileError:
    with pytest.raises(CompileError) as caught:
        function(*args, **kwargs)
    return caught.value


def test_two_gpus(gpu):
    x, out = arrays()
    error = failure(scaled, OnGpu(x, 0), 2.0, out=OnGpu(out, 1))
    assert error.slug == "two-devices" and "x on cuda:0; out on cuda:1" in error.what and not gpu.launches


def test_cpu_and_gpu(gpu):
    x, out = arrays()
    error = failure(scaled, OnGpu(x), 2.0, out=out)
    assert error.slug == "two-devices" and "x on cuda:0; out on cpu" in error.what


def test_interpreter_with_arrays_on_a_gpu(gpu):
    x, out = arrays()
    error = failure(scaled.interpret, OnGpu(x), 2.0, out=OnGpu(out))
    assert error.slug == "host-only" and "cuda:0" in error.what and ".cpu()" in error.try_


def test_an_older_gpu(gpu):
    gpu.capability, gpu.name = (7, 5), "Tesla T4"
    x, out = arrays()
    error = failure(call, gpu, x, out)
    assert error.slug == "no-emitter" and "GPU 0 is sm_75" in error.what and "sm_90a" in error.why


def test_plans_for_a_device_without_a_generator():
    kernel = scaled.tile()
    given = {t.name: launch.DeviceTensor(256, (64, 128), (128, 1)) for t in kernel.tensors}
    error = failure(launch.kernel_for, kernel, {"M": 64, "N": 128}, given, "mi300x")
    assert error.slug == "no-emitter" and "mi300x is gfx942" in error.what


def test_models_by_name_and_memory(gpu):
    assert launch.model_of(0).name == "h200"
    for name, memory, model in (("NVIDIA H100 80GB HBM3", 80, "h100"), ("NVIDIA GH200 144G", 144, "h200")):
        gpu.name, gpu._cuDeviceTotalMem = name, lambda device, memory=memory: (memory << 30,)
        launch.model_of.cache_clear()
        launch.driver.name_and_memory.cache_clear()
        assert launch.model_of(0).name == model


def test_an_output_given_twice_as_memory(gpu):
    x, _ = arrays()
    error = failure(scaled, OnGpu(x), 2.0, out=OnGpu(x))
    assert error.slug == "arguments" and "shares memory" in error.what
    both = aligned(np.zeros((128, 128), np.float32))
    assert failure(scaled, OnGpu(both[:64]), 2.0, out=OnGpu(both[32:96])).slug == "arguments"
    scaled(OnGpu(both[::2]), 2.0, out=OnGpu(both[1::2]))  # interleaved rows share nothing
    assert len(gpu.launches) == 1


def test_a_read_only_output(gpu):
    x, out = arrays()
    assert "read-only" in failure(scaled, OnGpu(x), 2.0, out=OnGpu(out, read_only=True)).what


def test_a_scalar_on_the_gpu_is_not_read(gpu):
    x, out = arrays()
    by = OnGpu(np.float32(2))
    by.item, by.ndim = lambda: pytest.fail("read"), 0
    error = failure(scaled, OnGpu(x), by, out=OnGpu(out))
    assert error.slug == "arguments" and "by.item()" in error.what


def test_out_of_memory(gpu):
    x, out = map(aligned, arrays())
    gpu.fail["cuModuleLoadData"] = Status.CUDA_ERROR_OUT_OF_MEMORY
    assert failure(call, gpu, x, out).slug == "gpu-memory"


def test_a_failed_launch_names_the_kernel(gpu):
    x, out = map(aligned, arrays())
    gpu.fail["cuLaunchKernelEx"] = Status.CUDA_ERROR_NO_BINARY_FOR_GPU
    error = failure(call, gpu, x, out)
    assert error.slug == "gpu-too-old" and "launching scaled" in error.what
    gpu.fail["cuLaunchKernelEx"] = Status.CUDA_ERROR_NOT_FOUND
    with pytest.raises(InternalError, match="CUDA_ERROR_NOT_FOUND while launching scaled with"):
        call(gpu, x, out)


def test_a_gpu_that_is_not_there(gpu):
    gpu.devices = 1
    x, out = arrays()
    error = failure(call, gpu, x, out, ordinal=3)
    assert error.slug == "no-gpu" and "no GPU 3" in error.what


@pytest.mark.slow
def test_transposed_tensors_are_copied_in_bulk_only_from_multiples_of_16_bytes():
    """A row of 1 would begin anywhere in a tensor whose other dimension is the contiguous one."""
    kernel, dims = row_sums.tile(), {"M": 128, "N": 256}
    given = {"x": launch.DeviceTensor(256, (128, 256), (1, 128)), "out": launch.DeviceTensor(256, (128,), (1,))}
    made = launch.kernel_for(kernel, dims, given)
    rows = next(t.extent for t in made.program.partition.tiles if t.axis == "m")
    assert rows % 4 == 0 or "map_x" not in {name for name, _ in made.source.maps}
    straight = dict(given, x=launch.DeviceTensor(256, (128, 256), (256, 1)))
    assert "map_x" in {name for name, _ in launch.kernel_for(kernel, dims, straight).source.maps}


def test_an_empty_compiler_log_is_not_written_into_an_object_that_python_shares():
    """NVRTC writes a 0 into the buffer; into the one b" " of the process it made later source lose its spaces."""
    from types import SimpleNamespace

    from threadloom.targets.cuda import nvrtc

    given = []
    fake = SimpleNamespace(nvrtcGetProgramLogSize=lambda p: (0, 1), nvrtcGetProgramLog=lambda p, b: given.append(b))
    assert nvrtc._log(fake, None) == ""
    assert len(given[0]) > 1 and bytes([32]) == b"\x20" and ord(compile("' '", "", "eval").co_consts[0]) == 32


def test_code_that_nvrtc_kept_from_before_is_assembled_again(monkeypatch):
    """Its cache gives code without the words of the assembler: a plan that spills would pass for one that does not."""
    from threadloom.targets.cuda import nvrtc

    options = []

    def compiled(source: str, arch: str, name: str, defines: tuple, more: tuple = ()) -> nvrtc.Cubin:
        options.append(more)
        known = "--no-cache" not in more
        return nvrtc.Cubin(b"", "sm_90a", 0 if known else 168, 0 if known else 80, 0, 0, "")

    monkeypatch.setattr(nvrtc, "_compile", compiled)
    assert nvrtc.compile_source("kernel", "sm_90a").spill_bytes == 80
    assert options == [(), ("--no-cache",)]


def test_parameters_called_like_loop_variables_are_no_warning():
    from threadloom.targets.cuda import nvrtc

    body = "{ for (int k = 0; k < n; k++) k_sum += k; k_sum += k[0]; } k[1] = k_sum;"
    made = nvrtc.compile_source(f'extern "C" __global__ void one(int *k, int n) {{ int k_sum = 0; {body} }}', "sm_90a")
    assert "warning" not in made.log


def test_nvrtc_knows_how_to_do_without_its_cache():
    from threadloom.targets.cuda import nvrtc

    made = nvrtc._compile('extern "C" __global__ void one() {}', "sm_90a", "one.cu", (), ("--no-cache",))
    assert made.registers


def test_spills_of_a_plan_that_was_measured_are_no_fault():
    from types import SimpleNamespace

    source, cubin = SimpleNamespace(shared_bytes=0), SimpleNamespace(serialised=False, spill_bytes=16, stack_bytes=0)
    made = SimpleNamespace(source=source, cubin=cubin, combine=None)
    assert faults.fault_of(made) == "16 bytes are spilled" and faults.fault_of(made, spills=False) == ""
    cubin.serialised = True
    assert faults.fault_of(made, spills=False)
