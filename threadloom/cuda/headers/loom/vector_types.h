/* char1 .. double4 and dim3, with CUDA's alignments; C compatible. */
#pragma once

#define LOOM_VECTOR_TYPES(T, name, align2, align4)              \
  typedef struct name##1 { T x; } name##1;                      \
  typedef struct __align__(align2) name##2 { T x, y; } name##2; \
  typedef struct name##3 { T x, y, z; } name##3;                \
  typedef struct __align__(align4) name##4 { T x, y, z, w; } name##4;

LOOM_VECTOR_TYPES(signed char, char, 2, 4)
LOOM_VECTOR_TYPES(unsigned char, uchar, 2, 4)
LOOM_VECTOR_TYPES(short, short, 4, 8)
LOOM_VECTOR_TYPES(unsigned short, ushort, 4, 8)
LOOM_VECTOR_TYPES(int, int, 8, 16)
LOOM_VECTOR_TYPES(unsigned int, uint, 8, 16)
LOOM_VECTOR_TYPES(long, long, 16, 16)
LOOM_VECTOR_TYPES(unsigned long, ulong, 16, 16)
LOOM_VECTOR_TYPES(long long, longlong, 16, 16)
LOOM_VECTOR_TYPES(unsigned long long, ulonglong, 16, 16)
LOOM_VECTOR_TYPES(float, float, 8, 16)
LOOM_VECTOR_TYPES(double, double, 16, 16)
#undef LOOM_VECTOR_TYPES

#if defined(__cplusplus)
struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ constexpr operator uint3() const { return uint3{x, y, z}; }
};

#define LOOM_MAKE_VECTORS(T, name)                                                        \
  LOOM_HOST_DEVICE name##1 make_##name##1(T x) { return name##1{x}; }                     \
  LOOM_HOST_DEVICE name##2 make_##name##2(T x, T y) { return name##2{x, y}; }             \
  LOOM_HOST_DEVICE name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }     \
  LOOM_HOST_DEVICE name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
LOOM_MAKE_VECTORS(signed char, char)
LOOM_MAKE_VECTORS(unsigned char, uchar)
LOOM_MAKE_VECTORS(short, short)
LOOM_MAKE_VECTORS(unsigned short, ushort)
LOOM_MAKE_VECTORS(int, int)
LOOM_MAKE_VECTORS(unsigned int, uint)
LOOM_MAKE_VECTORS(long, long)
LOOM_MAKE_VECTORS(unsigned long, ulong)
LOOM_MAKE_VECTORS(long long, longlong)
LOOM_MAKE_VECTORS(unsigned long long, ulonglong)
LOOM_MAKE_VECTORS(float, float)
LOOM_MAKE_VECTORS(double, double)
#undef LOOM_MAKE_VECTORS
#else
typedef struct dim3 { unsigned x, y, z; } dim3;
#endif
