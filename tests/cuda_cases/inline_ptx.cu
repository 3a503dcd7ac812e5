// slow; Inline PTX that programs write by hand: special registers, bit fields, wide products, float functions, memory, hints.
#include "check.h"

__global__ void kernel(unsigned* u, unsigned long long* l, float* f, const unsigned* in) {
  unsigned t = threadIdx.x, x = in[t], r;
  asm("mov.u32 %0, %%laneid;" : "=r"(r));
  u[t] = r;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r));
  u[64 + t] = r;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(t), "r"(5));
  u[128 + t] = r;
  int s;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(s) : "r"(x), "r"(t % 28), "r"(6));
  u[192 + t] = s;
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(t), "r"(x), "r"(8), "r"(12));
  u[256 + t] = r;
  asm("{ .reg .u32 doubled; shl.b32 doubled, %1, 1; add.u32 %0, doubled, %2; }" : "=r"(r) : "r"(x), "r"(t));
  u[320 + t] = r;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(x), "r"(t), "r"(0xffu));
  u[384 + t] = r;
  unsigned bytes;
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(bytes) : "r"(x), "r"(0x80402010u), "r"(7u));
  unsigned wanted = 7;
  for (int place = 0; place < 32; place += 8) wanted += abs((int)(x >> place & 255) - (int)(0x80402010u >> place & 255));
  if (bytes != wanted) x = ~x;  // then everything below is wrong
  unsigned short low;
  asm("mov.u16 %0, %1;" : "=h"(low) : "h"((unsigned short)x));
  r = (x & 0xffff0000u) | low;
  asm("shr.u32 %0, %0, %1;" : "+r"(r) : "r"(t));
  u[448 + t] = r;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(l[t]) : "r"(x), "r"(x));
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"((float)t / 8));
  asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(y) : "f"(2.0f), "f"(3.0f));
  f[t] = y;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(in));
  asm volatile("st.global.f32 [%0+256], %1;" ::"l"(f + t), "f"(y * 2) : "memory");
  asm volatile("bar.sync 0;");
  asm volatile("membar.gl;");
}

/* Pairs and fours; shifts whose count is clamped, with a third operand. */
__global__ void wide(unsigned* out, const unsigned* in) {
  unsigned t = threadIdx.x, a, b, c, d, shifted, wrapped;
  asm volatile("ld.cg.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(in + 4 * t));
  asm("vshr.u32.u32.u32.clamp.add %0, %1, %2, %3;" : "=r"(shifted) : "r"(a), "r"(8 * t), "r"(b));
  asm("vshr.u32.u32.u32.wrap.min %0, %1, %2, %3;" : "=r"(wrapped) : "r"(a), "r"(8 * t), "r"(b));
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(out + 4 * t), "r"(c + d), "r"(shifted) : "memory");
  asm volatile("st.global.v2.u32 [%0+8], {%1, %2};" ::"l"(out + 4 * t), "r"(wrapped), "r"(7u) : "memory");
}
static void check_wide(const unsigned* device_in, const std::vector<unsigned>& in) {
  unsigned* out;
  CUDA(cudaMalloc(&out, 64 * sizeof *out));
  wide<<<1, 16>>>(out, device_in);
  auto got = to_host(out, 64);
  for (unsigned t = 0; t < 16; ++t) {
    const unsigned* x = &in[4 * t];
    unsigned shifted = 8 * t > 31 ? 0 : x[0] >> 8 * t, wrapped = x[0] >> (8 * t & 31);
    EXPECT(got[4 * t] == x[2] + x[3] && got[4 * t + 1] == shifted + x[1], "pair %u", t);
    EXPECT(got[4 * t + 2] == (wrapped < x[1] ? wrapped : x[1]) && got[4 * t + 3] == 7, "wrapped %u", t);
  }
}

int main() {
  std::vector<unsigned> in(64);
  for (int t = 0; t < 64; ++t) in[t] = 2654435761u * (t + 1);
  unsigned *device_in = to_device(in), *u;
  unsigned long long* l;
  float* f;
  CUDA(cudaMalloc(&u, 512 * sizeof *u));
  CUDA(cudaMalloc(&l, 64 * sizeof *l));
  CUDA(cudaMalloc(&f, 128 * sizeof *f));
  kernel<<<1, 64>>>(u, l, f, device_in);
  check_wide(device_in, in);
  auto hu = to_host(u, 512);
  auto hl = to_host(l, 64);
  auto hf = to_host(f, 128);
  for (unsigned t = 0; t < 64; ++t) {
    unsigned x = in[t];
    EXPECT(hu[t] == t % 32, "laneid %u", hu[t]);
    EXPECT(hu[64 + t] == (1u << t % 32) - 1, "lanemask_lt %x", hu[64 + t]);
    EXPECT(hu[128 + t] == (t < 32 ? x >> t & 31u : 0), "bfe.u32 %u: %x", t, hu[128 + t]);
    int field = (int)(x >> t % 28 & 63u);
    int width = t % 28 > 26 ? 32 - t % 28 : 6;
    EXPECT((int)hu[192 + t] == field << (32 - width) >> (32 - width), "bfe.s32 %u: %x", t, hu[192 + t]);
    EXPECT(hu[256 + t] == ((x & ~0xfff00u) | t << 8), "bfi %u: %x", t, hu[256 + t]);
    EXPECT(hu[320 + t] == 2 * x + t, "registers %u: %x", t, hu[320 + t]);
    EXPECT(hu[384 + t] == (x ^ t ^ 0xffu), "lop3 %u: %x", t, hu[384 + t]);
    EXPECT(hu[448 + t] == (t < 32 ? x >> t : 0), "shr %u: %x", t, hu[448 + t]);
    EXPECT(hl[t] == (unsigned long long)x * x, "mul.wide %u", t);
    float y = 6 + __builtin_exp2f(t / 8.0f);
    EXPECT(__builtin_fabsf(hf[t] - y) < 1e-5f * y && __builtin_fabsf(hf[64 + t] - 2 * y) < 1e-5f * y, "float %u: %f", t, hf[t]);
  }
  return wrong != 0;
}
