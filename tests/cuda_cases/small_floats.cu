// slow; half, bfloat16 and fp8: every code converts there and back, rounding is to nearest even, arithmetic rounds once.
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "check.h"

__global__ void convert(const float* in, unsigned short* h, unsigned short* b, unsigned char* e4, unsigned char* e5, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  h[i] = __half_as_ushort(__float2half(in[i]));
  b[i] = __bfloat16_as_ushort(__float2bfloat16(in[i]));
  e4[i] = __nv_fp8_e4m3(in[i]).__x;
  e5[i] = __nv_fp8_e5m2(in[i]).__x;
}
__global__ void arithmetic(const __half* x, const __half* y, __half* sum, __half* product, __half* fused, __half* root) {
  int i = threadIdx.x;
  sum[i] = x[i] + y[i];
  product[i] = __hmul(x[i], y[i]);
  fused[i] = __hfma(x[i], y[i], x[i]);
  root[i] = hsqrt(__habs(x[i]));
}
__global__ void pairs(__half2* p, __half* total) {
  p[threadIdx.x] = __hmul2(p[threadIdx.x], __float2half2_rn(2.0f));
  atomicAdd(total, __low2half(p[threadIdx.x]));
}

static float float_of(unsigned char code, int exponent_bits) {
  int mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int e = (code & 127) >> mantissa_bits, m = code & ((1 << mantissa_bits) - 1);
  float v = e ? std::ldexp(1.0f + m / (float)(1 << mantissa_bits), e - bias) : std::ldexp((float)m / (1 << mantissa_bits), 1 - bias);
  return code & 128 ? -v : v;
}

// Host code converts halves by our own arithmetic: every code, and floats and doubles of every size a half can have.
static void check_host_conversions() {
  auto bits = [](_Float16 v) { return __builtin_bit_cast(unsigned short, v); };
  for (unsigned code = 0; code < 65536; ++code) {
    _Float16 half = __builtin_bit_cast(_Float16, (unsigned short)code);
    float wide = (float)half, ours = (float)__builtin_bit_cast(__half, half);
    EXPECT(wide == ours || (wide != wide && ours != ours), "code %04x", code);
  }
  unsigned long long state = 88172645463325252ull;
  for (int i = 0; i < 200000; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    unsigned word = ((unsigned)state & 0x80000000u) | (0x33000000u + ((unsigned)state & 0x7fffffffu) % 0x15000000u);
    float f = __builtin_bit_cast(float, word);
    double d = (double)f * (1 + (double)(state >> 40) * 0x1p-50);
    EXPECT(bits(__half(f).raw) == bits((_Float16)f), "float %a", f);
    EXPECT(bits(__half(d).raw) == bits((_Float16)d), "double %a", d);
  }
}

int main() {
  check_host_conversions();
  // Every finite fp8 code, and points a quarter of a step beside it, which must round back to it.
  std::vector<float> in;
  std::vector<int> e4_codes, e5_codes;
  for (int code = 0; code < 256; ++code)
    if ((code & 127) != 127) in.push_back(float_of(code, 4)), e4_codes.push_back(code);
  size_t first_e5 = in.size();
  for (int code = 0; code < 256; ++code)
    if ((code & 127) < 124) in.push_back(float_of(code, 5)), e5_codes.push_back(code);
  int n = in.size();
  float* device_in = to_device(in);
  unsigned short *h, *b;
  unsigned char *e4, *e5;
  CUDA(cudaMalloc(&h, n * 2));
  CUDA(cudaMalloc(&b, n * 2));
  CUDA(cudaMalloc(&e4, n));
  CUDA(cudaMalloc(&e5, n));
  convert<<<(n + 63) / 64, 64>>>(device_in, h, b, e4, e5, n);
  auto hh = to_host(h, n), hb = to_host(b, n);
  auto h4 = to_host(e4, n), h5 = to_host(e5, n);
  for (size_t i = 0; i < e4_codes.size(); ++i) EXPECT(h4[i] == e4_codes[i], "e4m3 %g: %02x, not %02x", in[i], h4[i], e4_codes[i]);
  for (size_t i = 0; i < e5_codes.size(); ++i) EXPECT(h5[first_e5 + i] == e5_codes[i], "e5m2 %g: %02x", in[first_e5 + i], h5[first_e5 + i]);
  for (int i = 0; i < n; ++i) {
    _Float16 half = (_Float16)in[i];
    EXPECT(hh[i] == __builtin_bit_cast(unsigned short, half), "half %g: %04x", in[i], hh[i]);
    EXPECT(hb[i] == __builtin_bit_cast(unsigned, in[i]) >> 16, "bfloat16 %g: %04x", in[i], hb[i]);  // 3 mantissa bits: exact
  }
  EXPECT(__nv_fp8_e4m3(1000.0f).__x == 0x7e && __nv_fp8_e4m3(-1e9f).__x == 0xfe, "saturation");
  EXPECT(__nv_fp8_e4m3(1.0625f).__x == 0x38 && __nv_fp8_e4m3(1.1875f).__x == 0x3a, "ties go to even");
  EXPECT((float)__nv_fp8_e5m2(__half(3.0f)) == 3.0f, "half to fp8");
  __half2 pair = __halves2half2(__float2half(1.0f), __float2half(2.0f));
  __nv_bfloat162 other = __halves2bfloat162(__float2bfloat16(1.0f), __float2bfloat16(2.0f));
  EXPECT(__low2float(pair) == 1 && __high2float(pair) == 2 && __low2float(other) == 1 && __high2float(other) == 2, "pairs");
  EXPECT(__nv_fp8x4_e4m3(__nv_bfloat162(1.0f, 2.0f), __nv_bfloat162(1.0f, 2.0f)).__x == 0x40384038, "two pairs to fp8");

  // A tie goes to even; a double just above a tie goes up, though as a float it is the tie.
  double above_tie = 1.0 + 1.0 / 256 + 1e-12;
  EXPECT((float)__nv_bfloat16((float)above_tie) == 1.0f, "tie to even");
  EXPECT((float)__nv_bfloat16(above_tie) == 1.0078125f, "double rounded once");
  EXPECT((float)__nv_bfloat16(1.01171875f) == 1.015625f, "tie to even, upwards");
  EXPECT(std::isnan((float)__nv_bfloat16(NAN)) && std::isinf((float)__nv_bfloat16(3.4e38f)), "not finite");
  EXPECT((float)__float2half_rz(-1.0001f) == -1.0f && (float)__float2half_ru(1.0001f) == 1.0009765625f, "directed");
  EXPECT((float)__float2half_rd(1e-9f) == 0.0f && (float)__float2half_ru(1e-9f) == 5.9604645e-8f, "directed near zero");
  EXPECT((float)__hmax_nan(__half(1.0f), __half(NAN)) != 1.0f && __hbge2(__half2(2.0f, 2.0f), __half2(1.0f, 2.0f)), "compare");

  std::vector<__half> x(64), y(64);
  for (int i = 0; i < 64; ++i) x[i] = __half(i * 0.37f - 9.0f), y[i] = __half(2.1f - i * 0.11f);
  __half *dx = to_device(x), *dy = to_device(y), *results[4];
  for (auto& r : results) CUDA(cudaMalloc(&r, 128));
  arithmetic<<<1, 64>>>(dx, dy, results[0], results[1], results[2], results[3]);
  std::vector<__half> got[4];
  for (int k = 0; k < 4; ++k) got[k] = to_host(results[k], 64);
  for (int i = 0; i < 64; ++i) {
    double a = (float)x[i], c = (float)y[i];
    EXPECT((float)got[0][i] == (float)(_Float16)(a + c), "sum %d", i);
    EXPECT((float)got[1][i] == (float)(_Float16)(a * c), "product %d", i);
    EXPECT((float)got[2][i] == (float)(_Float16)(a * c + a), "fused %d", i);
    EXPECT((float)got[3][i] == (float)(_Float16)std::sqrt(std::fabs((float)x[i])), "root %d", i);
  }
  std::vector<__half2> p(8, __half2(__half(1.5f), __half(-2.0f)));
  std::vector<__half> zero(1, __half(0.0f));
  __half2* dp = to_device(p);
  __half* total = to_device(zero);
  pairs<<<1, 8>>>(dp, total);
  auto hp = to_host(dp, 8);
  EXPECT((float)hp[3].x == 3.0f && (float)hp[3].y == -4.0f, "pair %f %f", (float)hp[3].x, (float)hp[3].y);
  EXPECT((float)to_host(total, 1)[0] == 24.0f, "total %f", (float)to_host(total, 1)[0]);
  return wrong != 0;
}
