// Fields of 3 and 6 bytes: what lies in the rest of their words is not touched, neighbours in packed arrays neither.
#include <cstdio>

struct S { unsigned a : 24; unsigned char c; };
struct Q { long a : 48; unsigned short c; };
struct __attribute__((packed)) P { long a : 48; };
__global__ void one(S* x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i].a = x[i].a * 3 + i; }
__global__ void two(Q* x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i].a = x[i].a * 3 - i; }
__global__ void pack(P* x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i].a = x[i].a * 3 - i; }
__global__ void part(long* x) {
  __shared__ long tile[128];
  int i = threadIdx.x;
  tile[i] = 0x0102030405060708l + i;
  __syncthreads();
  ((P*)(tile + i))->a = i;
  __syncthreads();
  x[i] = tile[127 - i];
}
__global__ void sums(Q* x, long* out) {
  int i = threadIdx.x;
  x[i].c = 77;
  x[i].a = i * 5;
  __syncthreads();
  out[i] = x[i].a + x[i].c;
}

int main() {
  const int n = 1024;
  S* s;
  Q* q;
  P* p;
  long *l, *o;
  cudaMallocManaged(&s, n * sizeof(S));
  cudaMallocManaged(&q, n * sizeof(Q));
  cudaMallocManaged(&p, n * sizeof(P));
  cudaMallocManaged(&l, 128 * sizeof(long));
  cudaMallocManaged(&o, 128 * sizeof(long));
  for (int i = 0; i < n; i++) {
    s[i] = {i * 1000u, (unsigned char)(i * 7)};
    q[i] = {i * 1234567l, (unsigned short)(i * 3)};
    p[i] = {i * 7654321l};
  }
  one<<<n / 128, 128>>>(s);
  two<<<n / 128, 128>>>(q);
  pack<<<n / 128, 128>>>(p);
  part<<<1, 128>>>(l);
  cudaDeviceSynchronize();
  int bad = 0;
  for (int i = 0; i < n; i++) {
    if (s[i].a != (((unsigned)i * 3000 + i) & 0xffffff) || s[i].c != (unsigned char)(i * 7)) bad |= 1;
    if (q[i].a != i * 1234567l * 3 - i || q[i].c != (unsigned short)(i * 3)) bad |= 2;
    if (p[i].a != i * 7654321l * 3 - i) bad |= 4;
    if (i < 128 && l[i] != ((0x0102l << 48) | (127 - i))) bad |= 8;
  }
  sums<<<1, 128>>>(q, o);
  cudaDeviceSynchronize();
  for (int i = 0; i < 128; i++)
    if (o[i] != i * 5 + 77) bad |= 16;
  printf("%s, wrong: %d\n", bad ? "WRONG" : "right", bad);
  return bad != 0;
}
