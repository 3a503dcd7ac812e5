/* Texture fetches and surface accesses in device code, for texture objects and for the texture references of CUDA 11. */
#pragma once

/* ---- a texel type as scalars */
template <class T> struct __loom_texel { typedef T scalar; enum { count = 1 }; };
#define LOOM_TEXEL(name, T)                                                                       \
  template <> struct __loom_texel<name##1> { typedef T scalar; enum { count = 1 }; };             \
  template <> struct __loom_texel<name##2> { typedef T scalar; enum { count = 2 }; };             \
  template <> struct __loom_texel<name##4> { typedef T scalar; enum { count = 4 }; };
LOOM_TEXEL(char, signed char)
LOOM_TEXEL(uchar, unsigned char)
LOOM_TEXEL(short, short)
LOOM_TEXEL(ushort, unsigned short)
LOOM_TEXEL(int, int)
LOOM_TEXEL(uint, unsigned)
LOOM_TEXEL(float, float)
#undef LOOM_TEXEL
template <class T> struct __loom_one;
template <> struct __loom_one<float> { typedef float1 type; };
template <> struct __loom_one<int> { typedef int1 type; };
template <> struct __loom_one<unsigned> { typedef uint1 type; };
template <class T, cudaTextureReadMode mode> struct __loom_fetched { typedef T type; };
template <int count> struct __loom_floats;
template <> struct __loom_floats<1> { typedef float type; };
template <> struct __loom_floats<2> { typedef float2 type; };
template <> struct __loom_floats<4> { typedef float4 type; };
template <class T> struct __loom_fetched<T, cudaReadModeNormalizedFloat> { typedef typename __loom_floats<__loom_texel<T>::count>::type type; };

/* ---- addressing: the texel that stands for position i of n, or -1 outside (border) */
LOOM_DEVICE long __loom_address(long i, long n, int mode) {
  if ((unsigned long)i < (unsigned long)n) return i;
  switch (mode) {
    case cudaAddressModeWrap: i %= n; return i < 0 ? i + n : i;
    case cudaAddressModeMirror: i %= 2 * n; i = i < 0 ? i + 2 * n : i; return i < n ? i : 2 * n - 1 - i;
    case cudaAddressModeBorder: return -1;
    default: return i < 0 ? 0 : n - 1;
  }
}

/* One channel of a texel as float: a float itself, or an integer scaled to [0, 1] or [-1, 1]. */
LOOM_DEVICE float __loom_channel_value(const char* texel, const cudaChannelFormatDesc& format, int channel) {
  if (format.f == cudaChannelFormatKindFloat) {
    if (format.x == 32) return ((const float*)texel)[channel];
    return (float)((const _Float16*)texel)[channel];
  }
  bool is_signed = format.f == cudaChannelFormatKindSigned;
  if (format.x == 8) {
    float value = is_signed ? ((const signed char*)texel)[channel] / 127.0f : ((const unsigned char*)texel)[channel] / 255.0f;
    return value < -1.0f ? -1.0f : value;
  }
  float value = is_signed ? ((const short*)texel)[channel] / 32767.0f : ((const unsigned short*)texel)[channel] / 65535.0f;
  return value < -1.0f ? -1.0f : value;
}

template <class T> LOOM_DEVICE T __loom_texel_at(const __loom_image& image, const cudaTextureDesc& how, long x, long y, long z) {
  typedef typename __loom_texel<T>::scalar scalar;
  T result;
  scalar* channels = (scalar*)&result;
  if (x < 0 || y < 0 || z < 0) {
    for (int c = 0; c < __loom_texel<T>::count; ++c) channels[c] = (scalar)how.borderColor[c];
    return result;
  }
  const char* texel = image.data + (size_t)z * image.slice_bytes + (size_t)y * image.row_bytes + (size_t)x * image.texel_bytes;
  if constexpr (__is_same(scalar, float)) {
    for (int c = 0; c < __loom_texel<T>::count; ++c) channels[c] = __loom_channel_value(texel, image.format, c);
  } else {
    __builtin_memcpy(&result, texel, sizeof result);
  }
  return result;
}

/* The hardware's weights have 8 fractional bits. */
LOOM_DEVICE float __loom_weight(float x) { return __builtin_rintf((x - __builtin_floorf(x)) * 256.0f) / 256.0f; }

template <class T, int dimensions>
LOOM_DEVICE T __loom_sample(const __loom_image& image, const cudaTextureDesc& how, float x, float y, float z) {
  long n[3] = {(long)image.width, (long)(image.height ? image.height : 1), (long)(image.depth ? image.depth : 1)};
  float at[3] = {x, y, z};
  for (int d = 0; d < dimensions; ++d)
    if (how.normalizedCoords) at[d] *= (float)n[d];
  int mode[3];
  /* Wrap and mirror need normalised coordinates; without them the hardware clamps. */
  for (int d = 0; d < 3; ++d)
    mode[d] = !how.normalizedCoords && how.addressMode[d] != cudaAddressModeBorder ? (int)cudaAddressModeClamp : (int)how.addressMode[d];
  typedef typename __loom_texel<T>::scalar scalar;
  if constexpr (__is_same(scalar, float)) {
    if (how.filterMode == cudaFilterModeLinear) {
      long base[3] = {0, 0, 0};
      float weight[3] = {0, 0, 0};
      for (int d = 0; d < dimensions; ++d) {
        at[d] -= 0.5f;
        base[d] = (long)__builtin_floorf(at[d]);
        weight[d] = __loom_weight(at[d]);
      }
      T result;
      float* sums = (float*)&result;
      for (int c = 0; c < __loom_texel<T>::count; ++c) sums[c] = 0.0f;
      for (int corner = 0; corner < 1 << dimensions; ++corner) {
        float share = 1.0f;
        long place[3] = {0, 0, 0};
        for (int d = 0; d < dimensions; ++d) {
          int upper = corner >> d & 1;
          share *= upper ? weight[d] : 1.0f - weight[d];
          place[d] = __loom_address(base[d] + upper, n[d], mode[d]);
        }
        T texel = __loom_texel_at<T>(image, how, place[0], place[1], place[2]);
        for (int c = 0; c < __loom_texel<T>::count; ++c) sums[c] += share * ((const float*)&texel)[c];
      }
      return result;
    }
  }
  long place[3] = {0, 0, 0};
  for (int d = 0; d < dimensions; ++d) place[d] = __loom_address((long)__builtin_floorf(at[d]), n[d], mode[d]);
  return __loom_texel_at<T>(image, how, place[0], place[1], place[2]);
}

/* ---- texture objects */
LOOM_DEVICE const __loom_sampler& __loom_sampler_of(cudaTextureObject_t object) { return *(const __loom_sampler*)object; }
template <class T> LOOM_DEVICE T tex1Dfetch(cudaTextureObject_t object, int x) {
  const __loom_sampler& s = __loom_sampler_of(object);
  return __loom_texel_at<T>(s.image, s.how, __loom_address(x, (long)s.image.width, cudaAddressModeBorder), 0, 0);
}
template <class T> LOOM_DEVICE T tex1D(cudaTextureObject_t object, float x) {
  const __loom_sampler& s = __loom_sampler_of(object);
  return __loom_sample<T, 1>(s.image, s.how, x, 0, 0);
}
template <class T> LOOM_DEVICE T tex2D(cudaTextureObject_t object, float x, float y) {
  const __loom_sampler& s = __loom_sampler_of(object);
  return __loom_sample<T, 2>(s.image, s.how, x, y, 0);
}
template <class T> LOOM_DEVICE T tex3D(cudaTextureObject_t object, float x, float y, float z) {
  const __loom_sampler& s = __loom_sampler_of(object);
  return __loom_sample<T, 3>(s.image, s.how, x, y, z);
}
template <class T> LOOM_DEVICE T tex1DLod(cudaTextureObject_t object, float x, float) { return tex1D<T>(object, x); }
template <class T> LOOM_DEVICE T tex2DLod(cudaTextureObject_t object, float x, float y, float) { return tex2D<T>(object, x, y); }
template <class T> LOOM_DEVICE T tex3DLod(cudaTextureObject_t object, float x, float y, float z, float) { return tex3D<T>(object, x, y, z); }
template <class T> LOOM_DEVICE T tex1DGrad(cudaTextureObject_t object, float x, float, float) { return tex1D<T>(object, x); }
template <class T> LOOM_DEVICE T tex2DGrad(cudaTextureObject_t object, float x, float y, float2, float2) { return tex2D<T>(object, x, y); }
template <class T> LOOM_DEVICE T tex3DGrad(cudaTextureObject_t object, float x, float y, float z, float4, float4) { return tex3D<T>(object, x, y, z); }
/* One channel of the four texels that a filtered fetch would weigh, from the lower left on, against the clock. */
template <class T> LOOM_DEVICE T tex2Dgather(cudaTextureObject_t object, float x, float y, int channel = 0) {
  static_assert(__loom_texel<T>::count == 4, "a gather gives four values");
  typedef typename __loom_texel<T>::scalar scalar;
  const __loom_sampler& s = __loom_sampler_of(object);
  const int across[4] = {0, 1, 1, 0}, down[4] = {1, 1, 0, 0};
  cudaTextureDesc how = s.how;
  how.filterMode = cudaFilterModePoint;
  T result;
  for (int i = 0; i < 4; ++i) {
    float dx = (float)across[i] - 0.5f, dy = (float)down[i] - 0.5f;
    if (how.normalizedCoords) dx /= (float)s.image.width, dy /= (float)s.image.height;
    int channels = 1 + (s.image.format.y > 0) + (s.image.format.z > 0) + (s.image.format.w > 0);
    __loom_image one = s.image;
    one.data += channel < channels ? (size_t)channel * (size_t)(s.image.format.x / 8) : 0;
    ((scalar*)&result)[i] = __loom_sample<typename __loom_one<scalar>::type, 2>(one, how, x + dx, y + dy, 0).x;
  }
  return result;
}
LOOM_DEVICE __loom_image __loom_layer(const __loom_image& image, int layer) {
  __loom_image one = image;
  long last = image.depth ? (long)image.depth - 1 : 0;
  one.data += (size_t)(layer < 0 ? 0 : layer > last ? last : layer) * image.slice_bytes;
  return one;
}
template <class T> LOOM_DEVICE T tex1DLayered(cudaTextureObject_t object, float x, int layer) {
  const __loom_sampler& s = __loom_sampler_of(object);
  return __loom_sample<T, 1>(__loom_layer(s.image, layer), s.how, x, 0, 0);
}
template <class T> LOOM_DEVICE T tex2DLayered(cudaTextureObject_t object, float x, float y, int layer) {
  const __loom_sampler& s = __loom_sampler_of(object);
  return __loom_sample<T, 2>(__loom_layer(s.image, layer), s.how, x, y, 0);
}
#define LOOM_OUT_FETCH(name, parameters, arguments)                                                            \
  template <class T> LOOM_DEVICE void name parameters { *out = name<T> arguments; }
LOOM_OUT_FETCH(tex1Dfetch, (T* out, cudaTextureObject_t object, int x), (object, x))
LOOM_OUT_FETCH(tex1D, (T* out, cudaTextureObject_t object, float x), (object, x))
LOOM_OUT_FETCH(tex2D, (T* out, cudaTextureObject_t object, float x, float y), (object, x, y))
LOOM_OUT_FETCH(tex3D, (T* out, cudaTextureObject_t object, float x, float y, float z), (object, x, y, z))
#undef LOOM_OUT_FETCH
/* A cube's face and position on it, as the hardware chooses them: the axis of largest magnitude. */
LOOM_DEVICE int __loom_cube_face(float x, float y, float z, float* u, float* v) {
  float ax = __builtin_fabsf(x), ay = __builtin_fabsf(y), az = __builtin_fabsf(z), s, t, m;
  int face;
  if (ax >= ay && ax >= az) face = x >= 0 ? 0 : 1, m = ax, s = x >= 0 ? -z : z, t = -y;
  else if (ay >= az) face = y >= 0 ? 2 : 3, m = ay, s = x, t = y >= 0 ? z : -z;
  else face = z >= 0 ? 4 : 5, m = az, s = z >= 0 ? x : -x, t = -y;
  *u = (s / m + 1.0f) * 0.5f;
  *v = (t / m + 1.0f) * 0.5f;
  return face;
}
template <class T> LOOM_DEVICE T texCubemap(cudaTextureObject_t object, float x, float y, float z) {
  const __loom_sampler& s = __loom_sampler_of(object);
  float u, v;
  int face = __loom_cube_face(x, y, z, &u, &v);
  cudaTextureDesc how = s.how;
  how.normalizedCoords = 1;
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  return __loom_sample<T, 2>(__loom_layer(s.image, face), how, u, v, 0);
}

/* ---- texture references */
LOOM_DEVICE cudaTextureDesc __loom_how(const textureReference& t) {
  cudaTextureDesc how = {};
  for (int d = 0; d < 3; ++d) how.addressMode[d] = t.addressMode[d];
  how.filterMode = t.filterMode;
  how.normalizedCoords = t.normalized;
  return how;
}
#define LOOM_REFERENCE(dimensions) \
  template <class T, cudaTextureReadMode mode> LOOM_DEVICE typename __loom_fetched<T, mode>::type
LOOM_REFERENCE(1) tex1Dfetch(const texture<T, 1, mode>& t, int x) {
  typedef typename __loom_fetched<T, mode>::type R;
  /* The common case by itself: element type, inside; nothing but a load remains after optimisation. */
  if constexpr (mode == cudaReadModeElementType) return ((const T*)t.image.data)[x];
  return __loom_texel_at<R>(t.image, __loom_how(t), __loom_address(x, (long)t.image.width, cudaAddressModeBorder), 0, 0);
}
LOOM_REFERENCE(1) tex1D(const texture<T, 1, mode>& t, float x) {
  return __loom_sample<typename __loom_fetched<T, mode>::type, 1>(t.image, __loom_how(t), x, 0, 0);
}
LOOM_REFERENCE(2) tex2D(const texture<T, 2, mode>& t, float x, float y) {
  return __loom_sample<typename __loom_fetched<T, mode>::type, 2>(t.image, __loom_how(t), x, y, 0);
}
LOOM_REFERENCE(3) tex3D(const texture<T, 3, mode>& t, float x, float y, float z) {
  return __loom_sample<typename __loom_fetched<T, mode>::type, 3>(t.image, __loom_how(t), x, y, z);
}
LOOM_REFERENCE(2) tex2DLayered(const texture<T, cudaTextureType2DLayered, mode>& t, float x, float y, int layer) {
  return __loom_sample<typename __loom_fetched<T, mode>::type, 2>(__loom_layer(t.image, layer), __loom_how(t), x, y, 0);
}
#undef LOOM_REFERENCE

/* ---- surfaces: x counts bytes; outside, a read gives zero or the nearest element, a write does nothing */
LOOM_DEVICE char* __loom_surface_place(const __loom_image& image, long x, long y, long z, size_t bytes, cudaSurfaceBoundaryMode mode) {
  long width = (long)image.row_bytes, height = image.height ? (long)image.height : 1, depth = image.depth ? (long)image.depth : 1;
  bool inside = x >= 0 && x + (long)bytes <= width && y >= 0 && y < height && z >= 0 && z < depth;
  if (!inside) {
    if (mode == cudaBoundaryModeTrap) __loom_trap();
    if (mode == cudaBoundaryModeZero) return nullptr;
    x = x < 0 ? 0 : x + (long)bytes > width ? width - (long)bytes : x;
    y = y < 0 ? 0 : y >= height ? height - 1 : y;
    z = z < 0 ? 0 : z >= depth ? depth - 1 : z;
  }
  return image.data + (size_t)z * image.slice_bytes + (size_t)y * image.row_bytes + (size_t)x;
}
LOOM_DEVICE const __loom_image& __loom_surface(cudaSurfaceObject_t object) { return ((const __loom_sampler*)object)->image; }
template <class T, int dimensions> LOOM_DEVICE const __loom_image& __loom_surface(const surface<T, dimensions>& s) { return s.image; }
template <class T> LOOM_DEVICE T __loom_surface_read(const __loom_image& image, long x, long y, long z, cudaSurfaceBoundaryMode mode) {
  T value = {};
  if (const char* place = __loom_surface_place(image, x, y, z, sizeof(T), mode)) __builtin_memcpy(&value, place, sizeof value);
  return value;
}
template <class T> LOOM_DEVICE void __loom_surface_write(const __loom_image& image, T value, long x, long y, long z, cudaSurfaceBoundaryMode mode) {
  if (mode == cudaBoundaryModeClamp) mode = cudaBoundaryModeZero;
  if (char* place = __loom_surface_place(image, x, y, z, sizeof(T), mode)) __builtin_memcpy(place, &value, sizeof value);
}
#define LOOM_SURFACE(name, parameters, x, y, z)                                                                                    \
  template <class T, class S> LOOM_DEVICE T name##read(S s, LOOM_UNPACK parameters, cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) { return __loom_surface_read<T>(__loom_surface(s), x, y, z, mode); } \
  template <class T, class S> LOOM_DEVICE void name##read(T* out, S s, LOOM_UNPACK parameters, cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) { *out = __loom_surface_read<T>(__loom_surface(s), x, y, z, mode); } \
  template <class T, class S> LOOM_DEVICE void name##write(T value, S s, LOOM_UNPACK parameters, cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) { __loom_surface_write(__loom_surface(s), value, x, y, z, mode); }
#define LOOM_UNPACK(...) __VA_ARGS__
LOOM_SURFACE(surf1D, (int x), x, 0, 0)
LOOM_SURFACE(surf2D, (int x, int y), x, y, 0)
LOOM_SURFACE(surf3D, (int x, int y, int z), x, y, z)
LOOM_SURFACE(surf1DLayered, (int x, int layer), x, 0, layer)
LOOM_SURFACE(surf2DLayered, (int x, int y, int layer), x, y, layer)
LOOM_SURFACE(surfCubemap, (int x, int y, int face), x, y, face)
#undef LOOM_SURFACE
#undef LOOM_UNPACK
