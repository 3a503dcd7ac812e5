// half and bfloat16 by lane: comparisons as masks, with numbers that are none; whole numbers rounded towards a side and saturated;
// and asynchronous copies by the primitives.
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include "check.h"

__global__ void masks(const __half2* a, const __half2* b, unsigned* out) {
  __half2 x = a[threadIdx.x], y = b[threadIdx.x];
  unsigned* mine = out + 6 * threadIdx.x;
  mine[0] = __heq2_mask(x, y), mine[1] = __hne2_mask(x, y), mine[2] = __hgt2_mask(x, y);
  mine[3] = __hneu2_mask(x, y), mine[4] = __hleu2_mask(x, y), mine[5] = __hbgeu2(x, y) + 2 * (x < y);
}
static void check_masks() {
  const float values[4] = {1, 2, NAN, 0};
  std::vector<__half2> a, b;
  for (float x : values)
    for (float y : values) a.push_back(__half2(x, y)), b.push_back(__half2(y, 1.0f));
  unsigned* out = to_device(std::vector<unsigned>(96));
  masks<<<1, 16>>>(to_device(a), to_device(b), out);
  auto got = to_host(out, 96);
  for (int i = 0; i < 16; ++i) {
    unsigned wanted[6] = {0, 0, 0, 0, 0, 3};
    for (int lane = 0; lane < 2; ++lane) {
      float x = lane ? __high2float(a[i]) : __low2float(a[i]), y = lane ? __high2float(b[i]) : __low2float(b[i]);
      bool holds[5] = {x == y, x < y || x > y, x > y, x != y, !(x > y)};
      for (int k = 0; k < 5; ++k) wanted[k] |= holds[k] ? 0xffffu << 16 * lane : 0;
      if (x < y) wanted[5] &= ~1u;
      if (!(x < y)) wanted[5] &= ~2u;
    }
    for (int k = 0; k < 6; ++k) EXPECT(got[6 * i + k] == wanted[k], "mask %d of %d: %x", k, i, got[6 * i + k]);
  }
}

__global__ void whole(float* out, int large, long long larger) {
  out[0] = __half2short_rz(__half(40000.0f)), out[1] = __half2ushort_rn(__half(-3.0f)), out[2] = __half2char_rz(__half(300.0f));
  out[3] = __half2uchar_rz(CUDART_NAN_FP16), out[4] = __half2ll_rd(__half(-1.5f)), out[5] = __half2uint_ru(__half(2.25f));
  out[6] = __bfloat162float(__int2bfloat16_rn(large));      // 2^24 + 2^16 + 1, by float rounded twice
  out[7] = __bfloat162float(__ll2bfloat16_ru(larger));      // 2^62 + 1
  out[8] = __bfloat162float(__ll2bfloat16_rz(-larger)), out[9] = __half2float(__int2half_rd(70000));
  __half h = 1.5f;
  out[10] = __half2float(h++) + 10 * __half2float(h);
  __half2 product = __hcmadd(__half2(1.0f, 2.0f), __half2(3.0f, 4.0f), __half2(0.5f, 0.25f));
  out[11] = __low2float(product), out[12] = __high2float(h2div(product, __half2(2.0f, 2.0f)));
}

__global__ void turned(const float4* in, float4* out) {
  __shared__ float4 tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], in + threadIdx.x, sizeof(float4), threadIdx.x == 0 ? 8 : 0);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

int main() {
  check_masks();
  float* out = to_device(std::vector<float>(13));
  whole<<<1, 1>>>(out, 0x1010001, (1ll << 62) + 1);
  const float wanted[13] = {32767, 0, 127, 0, -2, 3, 0x1.02p24f, 0x1.02p62f, -0x1p62f, 65504, 26.5f, -4.5f, 5.125f};
  auto got = to_host(out, 13);
  for (int i = 0; i < 13; ++i) EXPECT(got[i] == wanted[i], "%d: %g", i, got[i]);
  std::vector<float4> in(32);
  for (int i = 0; i < 32; ++i) in[i] = make_float4(i + 1, 2, 3, 4);
  float4* copied = to_device(in);
  turned<<<1, 32>>>(to_device(in), copied);
  auto back = to_host(copied, 32);
  for (int i = 0; i < 32; ++i) EXPECT(back[i].x == 32 - i && back[i].w == (i == 31 ? 0 : 4), "copied %d", i);
  return wrong != 0;
}
