// sm80.cuh's instructions in plain CUDA C++: what a warp does together is done with shuffles, asynchronous copies wait in
// a queue of their thread until it waits for them (the latest time the architecture allows). For running generated
// kernels on the CPU; `emulation.py` puts this behind what common.cuh and sm80.cuh define without inline PTX.

LOOM_DEVICE u8* shared_at(u32 address) {
  extern __shared__ u8 loom_shared[];
  return loom_shared + address;
}
LOOM_DEVICE u32 smem_address(const void*) { return 0; }

LOOM_DEVICE void group_sync(i32, i32) { __syncthreads(); }  // all threads of the block

LOOM_DEVICE float from_f16(u16 x) { return __half2float(__ushort_as_half(x)); }
LOOM_DEVICE float from_bf16(u16 x) { return __uint_as_float((u32)x << 16); }
LOOM_DEVICE u16 to_f16(float x) { return __half_as_ushort(__float2half_rn(x)); }
LOOM_DEVICE u16 to_bf16(float x) {
  const u32 bits = __float_as_uint(x);
  return x != x ? (u16)0x7fff : (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
LOOM_DEVICE u32 pack_f16(float low, float high) { return to_f16(low) | (u32)to_f16(high) << 16; }
LOOM_DEVICE u32 pack_bf16(float low, float high) { return to_bf16(low) | (u32)to_bf16(high) << 16; }
LOOM_DEVICE float round_tf32(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000) & ~0x1fffu); }

template <int BYTES, typename T> LOOM_DEVICE void read_shared(T* piece, u32 address) {
  const T* from = (const T*)shared_at(address);
  for (int i = 0; i < BYTES / (int)sizeof(T); i++) piece[i] = from[i];
}
template <int BYTES, typename T> LOOM_DEVICE void write_shared(u32 address, const T* piece) {
  T* to = (T*)shared_at(address);
  for (int i = 0; i < BYTES / (int)sizeof(T); i++) to[i] = piece[i];
}
LOOM_DEVICE u32 element_b8(u32 address) { return *shared_at(address); }
LOOM_DEVICE u32 element_b16(u32 address) { return *(const u16*)shared_at(address); }
LOOM_DEVICE u32 element_b32(u32 address) { return *(const u32*)shared_at(address); }
LOOM_DEVICE double element_f64(u32 address) { return *(const double*)shared_at(address); }

// ---------------------------------------------------------------- asynchronous copies

struct Copy {
  u32 to, valid, bytes, group;
  const u8* from;
};
#define LOOM_QUEUE 512
struct CopyQueue {
  Copy copies[LOOM_QUEUE];
  u32 first, end, group;
};
__device__ CopyQueue loom_queues[LOOM_BLOCKS * 256];

LOOM_DEVICE CopyQueue* own_queue() { return &loom_queues[blockIdx.x * 256 + threadIdx.x]; }

template <int BYTES> LOOM_DEVICE void copy_async(u32 to, const void* from, u32 valid) {
  CopyQueue* q = own_queue();
  Copy* c = &q->copies[q->end++ % LOOM_QUEUE];
  c->to = to;
  c->valid = valid;
  c->bytes = BYTES;
  c->group = q->group;
  c->from = (const u8*)from;
  if (q->end - q->first > LOOM_QUEUE || to % BYTES || (valid && (u64)from % BYTES)) __trap();
}
LOOM_DEVICE void copy_commit() { own_queue()->group++; }
template <int PENDING> LOOM_DEVICE void copy_wait() {
  CopyQueue* q = own_queue();
  while (q->first != q->end) {
    const Copy* c = &q->copies[q->first % LOOM_QUEUE];
    if ((i32)(q->group - c->group) <= PENDING) break;
    for (u32 i = 0; i < c->bytes; i++) shared_at(c->to)[i] = i < c->valid ? c->from[i] : (u8)0;
    q->first++;
  }
}

// ---------------------------------------------------------------- matrix fragments

#define LOOM_ALL 0xffffffffu
template <int COUNT, bool TURNED> LOOM_DEVICE void load_any(u32* r, u32 address) {
  const u32 lane = threadIdx.x & 31;
  for (int j = 0; j < COUNT; j++) {
    if (TURNED) {
      const u32 one = __shfl_sync(LOOM_ALL, address, 8 * j + 2 * (lane & 3));
      const u32 two = __shfl_sync(LOOM_ALL, address, 8 * j + 2 * (lane & 3) + 1);
      r[j] = *(const u16*)shared_at(one + (lane >> 2) * 2) | (u32) * (const u16*)shared_at(two + (lane >> 2) * 2) << 16;
    } else {
      r[j] = *(const u32*)shared_at(__shfl_sync(LOOM_ALL, address, 8 * j + (lane >> 2)) + (lane & 3) * 4);
    }
  }
}
LOOM_DEVICE void load_matrices(u32* r, u32 address) { load_any<4, false>(r, address); }
LOOM_DEVICE void load_matrices_turned(u32* r, u32 address) { load_any<4, true>(r, address); }
LOOM_DEVICE void load_two_matrices(u32* r, u32 address) { load_any<2, false>(r, address); }
LOOM_DEVICE void load_two_matrices_turned(u32* r, u32 address) { load_any<2, true>(r, address); }

// ---------------------------------------------------------------- products

// ELEMENT(word, e): element e of a register. 32 / BITS elements in each; a row's depth lies over four lanes.
#define LOOM_EMULATED(name, BITS, D, A_ELEMENT, B_ELEMENT)                                          \
  LOOM_DEVICE void name(D* d, const u32* a, const u32* b) {                                         \
    const u32 lane = threadIdx.x & 31;                                                              \
    D sums[4] = {d[0], d[1], d[2], d[3]};                                                           \
    for (int half = 0; half < 2; half++)                                                            \
      for (int quad = 0; quad < 4; quad++) {                                                        \
        const u32 x0 = __shfl_sync(LOOM_ALL, a[2 * half], (lane & ~3u) + quad);                     \
        const u32 x1 = __shfl_sync(LOOM_ALL, a[2 * half + 1], (lane & ~3u) + quad);                 \
        const u32 y0 = __shfl_sync(LOOM_ALL, b[half], (lane & 3) * 8 + quad);                       \
        const u32 y1 = __shfl_sync(LOOM_ALL, b[half], (lane & 3) * 8 + 4 + quad);                   \
        for (int e = 0; e < 32 / BITS; e++) {                                                       \
          sums[0] += A_ELEMENT(x0, e) * B_ELEMENT(y0, e);                                           \
          sums[1] += A_ELEMENT(x0, e) * B_ELEMENT(y1, e);                                           \
          sums[2] += A_ELEMENT(x1, e) * B_ELEMENT(y0, e);                                           \
          sums[3] += A_ELEMENT(x1, e) * B_ELEMENT(y1, e);                                           \
        }                                                                                           \
      }                                                                                             \
    for (int i = 0; i < 4; i++) d[i] = sums[i];                                                     \
  }
#define LOOM_F16(w, e) from_f16((u16)((w) >> 16 * (e)))
#define LOOM_BF16(w, e) from_bf16((u16)((w) >> 16 * (e)))
#define LOOM_TF32(w, e) __uint_as_float(w)
#define LOOM_I8(w, e) ((i32)(i8)((w) >> 8 * (e)))
#define LOOM_U8(w, e) ((i32)(u8)((w) >> 8 * (e)))
LOOM_EMULATED(mma_f16, 16, float, LOOM_F16, LOOM_F16)
LOOM_EMULATED(mma_bf16, 16, float, LOOM_BF16, LOOM_BF16)
LOOM_EMULATED(mma_tf32, 32, float, LOOM_TF32, LOOM_TF32)
LOOM_EMULATED(mma_i8_i8, 8, i32, LOOM_I8, LOOM_I8)
LOOM_EMULATED(mma_i8_u8, 8, i32, LOOM_I8, LOOM_U8)
LOOM_EMULATED(mma_u8_i8, 8, i32, LOOM_U8, LOOM_I8)
LOOM_EMULATED(mma_u8_u8, 8, i32, LOOM_U8, LOOM_U8)

LOOM_DEVICE void mma_f64(double* d, const double* a, const double* b) {
  const u32 lane = threadIdx.x & 31;
  for (int h = 0; h < 2; h++)
    for (int c = 0; c < 2; c++) {
      double sum = d[2 * h + c];
      for (int quad = 0; quad < 4; quad++)
        sum += __shfl_sync(LOOM_ALL, a[h], (lane & ~3u) + quad) * __shfl_sync(LOOM_ALL, b[0], (lane & 3) * 8 + 4 * c + quad);
      d[2 * h + c] = sum;
    }
}
