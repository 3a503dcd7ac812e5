// slow; Textures: objects over arrays, pitched and linear memory, the references of CUDA 11; point and linear filters,
// addressing modes, normalised reads, 3D, and surfaces.
#include <cmath>

#include "check.h"

texture<float, 1> line_reference;
texture<uchar4, 2, cudaReadModeNormalizedFloat> color_reference;

static __device__ __host__ float clampf(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

__global__ void sample2d(cudaTextureObject_t t, float* out, int n, float scale, float shift) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex2D<float>(t, i * scale + shift, 1.5f * scale);
}
__global__ void sample3d(cudaTextureObject_t t, int* out) {
  out[threadIdx.x] = tex3D<int>(t, threadIdx.x % 4 + 0.5f, threadIdx.x / 4 % 3 + 0.5f, threadIdx.x / 12 + 0.5f);
}
__global__ void references(float* line, float4* colors) {
  int t = threadIdx.x;
  line[t] = tex1Dfetch(line_reference, 31 - t);
  colors[t] = tex2D(color_reference, t % 8, t / 8);
}
__global__ void surface_copy(cudaSurfaceObject_t s, int width) {
  int x = threadIdx.x, y = blockIdx.x;
  int value = surf2Dread<int>(s, x * sizeof(int), y);
  surf2Dwrite(value + 1000, s, x * sizeof(int), y);
  surf2Dwrite(5, s, (width + x) * sizeof(int), y, cudaBoundaryModeZero);
}

static cudaTextureObject_t make_texture(cudaArray_t array, cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc how = {};
  how.addressMode[0] = how.addressMode[1] = how.addressMode[2] = mode;
  how.filterMode = filter;
  how.normalizedCoords = normalized;
  cudaTextureObject_t object = 0;
  CUDA(cudaCreateTextureObject(&object, &resource, &how, nullptr));
  return object;
}

static void check_2d() {
  const int width = 16, height = 4, n = 64;
  std::vector<float> image(width * height);
  for (int i = 0; i < width * height; ++i) image[i] = i * i % 31;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CUDA(cudaMallocArray(&array, &format, width, height));
  CUDA(cudaMemcpy2DToArray(array, 0, 0, image.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  float* out;
  CUDA(cudaMalloc(&out, n * sizeof(float)));
  struct { cudaTextureAddressMode mode; bool normalized; } ways[] = {
      {cudaAddressModeClamp, false}, {cudaAddressModeBorder, false}, {cudaAddressModeWrap, true}, {cudaAddressModeMirror, true}};
  for (auto way : ways)
    for (auto filter : {cudaFilterModePoint, cudaFilterModeLinear}) {
      float scale = way.normalized ? 1.0f / width : 1.0f, step = 0.75f;
      cudaTextureObject_t t = make_texture(array, way.mode, filter, way.normalized);
      sample2d<<<1, n>>>(t, out, n, way.normalized ? step / width : step, way.normalized ? -10.0f / width : -10.0f);
      auto got = to_host(out, n);
      auto texel = [&](int x, int y) -> float {
        auto place = [&](int i, int size) {
          if (i >= 0 && i < size) return i;
          if (way.mode == cudaAddressModeWrap) return (i % size + size) % size;
          if (way.mode == cudaAddressModeMirror) {
            int m = (i % (2 * size) + 2 * size) % (2 * size);
            return m < size ? m : 2 * size - 1 - m;
          }
          return way.mode == cudaAddressModeBorder ? -1 : i < 0 ? 0 : size - 1;
        };
        int px = place(x, width), py = place(y, height);
        return px < 0 || py < 0 ? 0 : image[py * width + px];
      };
      for (int i = 0; i < n; ++i) {
        float x = i * step - 10, y = way.normalized ? 1.5f * step / width * height : 1.5f * step;
        float expected;
        if (filter == cudaFilterModePoint) {
          float edge = std::fabs(x - std::round(x));
          if (way.normalized && edge < 1e-3f) continue;  // scaling there and back may round to either side
          expected = texel((int)std::floor(x), (int)std::floor(y));
        } else {
          float fx = x - 0.5f, fy = y - 0.5f, wx = fx - std::floor(fx), wy = fy - std::floor(fy);
          int ix = (int)std::floor(fx), iy = (int)std::floor(fy);
          expected = (1 - wx) * (1 - wy) * texel(ix, iy) + wx * (1 - wy) * texel(ix + 1, iy) + (1 - wx) * wy * texel(ix, iy + 1) +
                     wx * wy * texel(ix + 1, iy + 1);
        }
        // The weights have 8 bits: an error of 31 / 256 is the hardware's own.
        float allowed = filter == cudaFilterModePoint ? 0.0f : 0.2f;
        EXPECT(std::fabs(got[i] - expected) <= allowed, "mode %d filter %d at %f: %f, not %f", way.mode, filter, x, got[i], expected);
      }
      CUDA(cudaDestroyTextureObject(t));
    }
}

static void check_3d() {
  std::vector<int> volume(4 * 3 * 2);
  for (int i = 0; i < 24; ++i) volume[i] = 100 - i;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  cudaArray_t array;
  cudaExtent extent = make_cudaExtent(4, 3, 2);
  CUDA(cudaMalloc3DArray(&array, &format, extent));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(volume.data(), 4 * sizeof(int), 4, 3);
  copy.dstArray = array;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  CUDA(cudaMemcpy3D(&copy));
  int* out;
  CUDA(cudaMalloc(&out, 24 * sizeof(int)));
  sample3d<<<1, 24>>>(make_texture(array, cudaAddressModeClamp, cudaFilterModePoint, false), out);
  auto got = to_host(out, 24);
  for (int i = 0; i < 24; ++i) EXPECT(got[i] == 100 - i, "%d: %d", i, got[i]);
}

static void check_references() {
  std::vector<float> line(32);
  std::vector<uchar4> colors(32);
  for (int i = 0; i < 32; ++i) line[i] = i * 1.5f, colors[i] = make_uchar4(i, 2 * i, 255, 0);
  float* device_line = to_device(line);
  size_t offset = 1;
  CUDA(cudaBindTexture(&offset, line_reference, device_line, 32 * sizeof(float)));
  EXPECT(offset == 0, "offset %zu", offset);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  cudaArray_t array;
  CUDA(cudaMallocArray(&array, &format, 8, 4));
  CUDA(cudaMemcpyToArray(array, 0, 0, colors.data(), 32 * sizeof(uchar4), cudaMemcpyHostToDevice));
  color_reference.addressMode[0] = cudaAddressModeClamp;
  color_reference.filterMode = cudaFilterModePoint;
  CUDA(cudaBindTextureToArray(color_reference, array, format));
  float* out_line;
  float4* out_colors;
  CUDA(cudaMalloc(&out_line, 32 * sizeof(float)));
  CUDA(cudaMalloc(&out_colors, 32 * sizeof(float4)));
  references<<<1, 32>>>(out_line, out_colors);
  auto l = to_host(out_line, 32);
  auto c = to_host(out_colors, 32);
  for (int i = 0; i < 32; ++i) {
    EXPECT(l[i] == (31 - i) * 1.5f, "line %d: %f", i, l[i]);
    EXPECT(std::fabs(c[i].x - i / 255.0f) < 1e-6f && std::fabs(c[i].y - 2 * i / 255.0f) < 1e-6f && c[i].z == 1 && c[i].w == 0,
           "color %d: %f %f %f %f", i, c[i].x, c[i].y, c[i].z, c[i].w);
  }
  CUDA(cudaUnbindTexture(line_reference));
}

static void check_surface() {
  std::vector<int> image(8 * 4), back(8 * 4);
  for (int i = 0; i < 32; ++i) image[i] = i;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  cudaArray_t array;
  CUDA(cudaMallocArray(&array, &format, 8, 4, cudaArraySurfaceLoadStore));
  CUDA(cudaMemcpy2DToArray(array, 0, 0, image.data(), 32, 32, 4, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  CUDA(cudaCreateSurfaceObject(&surface, &resource));
  surface_copy<<<4, 8>>>(surface, 8);
  CUDA(cudaMemcpy2DFromArray(back.data(), 32, array, 0, 0, 32, 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; ++i) EXPECT(back[i] == i + 1000, "surface %d: %d", i, back[i]);
  CUDA(cudaDestroySurfaceObject(surface));
}

int main() {
  check_2d();
  check_3d();
  check_references();
  check_surface();
  EXPECT(clampf(2, 0, 1) == 1, "clampf");
  return wrong != 0;
}
