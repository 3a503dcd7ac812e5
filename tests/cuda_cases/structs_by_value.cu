// slow; Structures passed by value: a thread computes what the host computes. flags: -fmad=false
#include "check.h"

#include <cstring>

struct Pair { int count; float weight; };
struct Mixed { float x; short a, b; };
struct Three { unsigned char r, g, b; };
struct Odd { short id; char tag; };
struct Nested { float2 low; float2 high; };
struct Rows { int cell[3]; };
struct Wide { double at; long long key; int flag; float rate; float tail[3]; };
union Either { float f; unsigned u; };
struct Choice { Either e; int which; };
struct alignas(16) Packed { float v[4]; };
template <class T> struct Complex { T re, im; };

#define BOTH __host__ __device__ __noinline__

template <class T> BOTH Complex<T> times(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
BOTH float3 cross(float3 a, float3 b) {
  return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
BOTH float4 turn(float4 v, float2 by) { return make_float4(v.x * by.x, v.y * by.y, v.w, v.z); }
BOTH int4 rotate(int4 v, uchar4 by, int3 add) {
  return make_int4(v.y + by.x, v.z - by.y + add.x, v.w * by.z, v.x ^ (by.w + add.z));
}
BOTH Pair merge(Pair a, Pair b) { return {a.count + b.count, a.weight > b.weight ? a.weight : b.weight}; }
BOTH Mixed mix(Mixed m) { return {m.x + m.a, short(m.b + 1), short(m.a - 3)}; }
BOTH Three blend(Three a, Three b) { return {(unsigned char)((a.r + b.r) / 2), (unsigned char)(a.g ^ b.g), b.b}; }
BOTH Odd next(Odd o) { return {short(o.id * 3), char(o.tag + 1)}; }
BOTH Nested swapped(Nested n) { return {n.high, make_float2(n.low.y, n.low.x)}; }
BOTH Rows shifted(Rows r) { return {{r.cell[1], r.cell[2], r.cell[0] + 1}}; }
BOTH Wide widen(Wide w, float by) { w.at *= by; w.key ^= w.flag; w.tail[1] += w.rate; w.flag++; return w; }
BOTH Choice flip(Choice c) { if (c.which & 1) c.e.u ^= 0x80000000u; else c.e.f += 1.0f; c.which++; return c; }
BOTH Packed scaled(Packed p, double by) { for (float& x : p.v) x = float(x * by); return p; }
BOTH double2 half(double2 d) { return make_double2(d.y * 0.5, d.x); }
BOTH ushort4 lower(ushort4 s) { return make_ushort4(s.w, s.x, s.y | 1, s.z); }
BOTH longlong2 both(longlong2 l) { return make_longlong2(l.y - l.x, l.x); }

struct State {
  float3 f3; float4 f4; int4 i4; Pair pair; Mixed mixed; Three three; Odd odd; Nested nested; Rows rows; Wide wide;
  Choice choice; Packed packed; double2 d2; ushort4 u4; longlong2 l2; Complex<float> cf; Complex<double> cd;
};

BOTH void advance(State& s, int step) {
  s.f3 = cross(s.f3, make_float3(step, 1.0f, -2.0f));
  s.f4 = turn(s.f4, make_float2(step & 3, 0.5f));
  s.i4 = rotate(s.i4, make_uchar4(step, step + 1, 3, 7), make_int3(step, 2, 5));
  s.pair = step & 1 ? merge(s.pair, {step, step * 0.25f}) : merge({1, 2.0f}, s.pair);
  s.mixed = mix(s.mixed);
  s.three = blend(s.three, {(unsigned char)step, 9, (unsigned char)(step * 5)});
  s.odd = next(s.odd);
  s.nested = swapped(s.nested);
  s.rows = shifted(s.rows);
  s.wide = widen(s.wide, 1.5f);
  s.choice = flip(s.choice);
  s.packed = scaled(s.packed, 0.75);
  s.d2 = half(s.d2);
  s.u4 = lower(s.u4);
  s.l2 = both(s.l2);
  s.cf = times(s.cf, {0.5f, 1.0f});
  s.cd = times(s.cd, {0.5, -1.0});
}

BOTH State start(int i) {
  State s;
  memset(&s, 0, sizeof s);
  s.f3 = make_float3(i, i + 1, 2);
  s.f4 = make_float4(i, 2, 3, 4);
  s.i4 = make_int4(i, -i, 7, 11);
  s.pair = {i, i * 0.5f};
  s.mixed = {i * 1.5f, short(i), short(-i)};
  s.three = {(unsigned char)i, 200, 13};
  s.odd = {short(i), 'a'};
  s.nested = {make_float2(i, 1), make_float2(2, 3)};
  s.rows = {{i, i * 2, i * 3}};
  s.wide = {i * 0.1, i * 77777777777LL, i, 0.25f, {1, 2, 3}};
  s.choice.e.f = i;
  s.choice.which = i;
  s.packed = {{float(i), 1, 2, 3}};
  s.d2 = make_double2(i, 3);
  s.u4 = make_ushort4(i, 2, 4, 65535);
  s.l2 = make_longlong2(i, 5000000000LL);
  s.cf = {float(i), 1};
  s.cd = {1, double(i)};
  return s;
}

__global__ void run(State* states, int n, int steps, float4 offset, Three tint, Pair last) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  State s = states[i];
  for (int step = 0; step < steps; step++) advance(s, step);
  s.f4 = make_float4(s.f4.x + offset.w, s.f4.y, s.f4.z, s.f4.w);
  s.three = blend(s.three, tint);
  s.pair = merge(s.pair, last);
  states[i] = s;
}

int main() {
  const int n = 100, steps = 5;
  static State expected[n], given[n];
  for (int i = 0; i < n; i++) expected[i] = given[i] = start(i);
  for (State& s : expected) {
    for (int step = 0; step < steps; step++) advance(s, step);
    s.f4.x += 4.0f;
    s.three = blend(s.three, {1, 2, 3});
    s.pair = merge(s.pair, {1000, 0.125f});
  }
  State* d;
  cudaMalloc(&d, sizeof given);
  cudaMemcpy(d, given, sizeof given, cudaMemcpyHostToDevice);
  run<<<4, 32>>>(d, n, steps, make_float4(1, 2, 3, 4), Three{1, 2, 3}, Pair{1000, 0.125f});
  cudaMemcpy(given, d, sizeof given, cudaMemcpyDeviceToHost);
#define SAME(field) EXPECT(memcmp(&given[i].field, &expected[i].field, sizeof given[i].field) == 0, "%s of %d", #field, i)
  for (int i = 0; i < n; i++) {
    SAME(f3); SAME(f4); SAME(i4); SAME(pair); SAME(mixed); SAME(three); SAME(odd.id); SAME(odd.tag); SAME(nested);
    SAME(rows); SAME(wide.at); SAME(wide.key); SAME(wide.flag); SAME(wide.rate); SAME(wide.tail); SAME(choice);
    SAME(packed); SAME(d2); SAME(u4); SAME(l2); SAME(cf); SAME(cd);
  }
  return wrong != 0;
}
