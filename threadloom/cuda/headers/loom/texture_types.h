/* Texture and surface types, and the binding calls; an image is plain row-major memory that kernels read directly. */
#pragma once

typedef enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat } cudaTextureReadMode;
typedef enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear } cudaTextureFilterMode;
typedef enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder } cudaTextureAddressMode;
typedef enum cudaResourceType { cudaResourceTypeArray, cudaResourceTypeMipmappedArray, cudaResourceTypeLinear, cudaResourceTypePitch2D } cudaResourceType;
typedef enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap } cudaSurfaceBoundaryMode;
typedef enum cudaSurfaceFormatMode { cudaFormatModeForced, cudaFormatModeAuto } cudaSurfaceFormatMode;
typedef enum cudaResourceViewFormat { cudaResViewFormatNone } cudaResourceViewFormat;

typedef struct cudaResourceDesc {
  cudaResourceType resType;
  union {
    struct { cudaArray_t array; } array;
    struct { cudaMipmappedArray_t mipmap; } mipmap;
    struct { void* devPtr; cudaChannelFormatDesc desc; size_t sizeInBytes; } linear;
    struct { void* devPtr; cudaChannelFormatDesc desc; size_t width, height, pitchInBytes; } pitch2D;
  } res;
} cudaResourceDesc;
typedef struct cudaTextureDesc {
  cudaTextureAddressMode addressMode[3];
  cudaTextureFilterMode filterMode;
  cudaTextureReadMode readMode;
  int sRGB;
  float borderColor[4];
  int normalizedCoords;
  unsigned maxAnisotropy;
  cudaTextureFilterMode mipmapFilterMode;
  float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
  int disableTrilinearOptimization, seamlessCubemap;
} cudaTextureDesc;
typedef struct cudaResourceViewDesc {
  cudaResourceViewFormat format;
  size_t width, height, depth;
  unsigned firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer;
} cudaResourceViewDesc;
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;

/* What kernels see of a texture; a texture object is the address of one, a texture reference contains one. */
typedef struct __loom_image {
  char* data;
  size_t width, height, depth, row_bytes, slice_bytes, texel_bytes;
  cudaChannelFormatDesc format;
} __loom_image;
typedef struct __loom_sampler { __loom_image image; cudaTextureDesc how; cudaResourceDesc resource; } __loom_sampler;

typedef struct textureReference {
  int normalized;
  cudaTextureFilterMode filterMode;
  cudaTextureAddressMode addressMode[3];
  cudaChannelFormatDesc channelDesc;
  int sRGB;
  unsigned maxAnisotropy;
  __loom_image image;
} textureReference;
typedef struct surfaceReference { cudaChannelFormatDesc channelDesc; __loom_image image; } surfaceReference;

LOOM_EXTERN_C_BEGIN
cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource, const cudaTextureDesc* how, const cudaResourceViewDesc* view LOOM_DEFAULT(0));
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object);
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t object);
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* how, cudaTextureObject_t object);
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource);
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object);
cudaError_t cudaBindTexture(size_t* offset, const textureReference* texture, const void* p, const cudaChannelFormatDesc* format, size_t bytes LOOM_DEFAULT(0xffffffffu));
cudaError_t cudaBindTexture2D(size_t* offset, const textureReference* texture, const void* p, const cudaChannelFormatDesc* format, size_t width, size_t height, size_t pitch);
cudaError_t cudaBindTextureToArray(const textureReference* texture, cudaArray_const_t array, const cudaChannelFormatDesc* format);
cudaError_t cudaUnbindTexture(const textureReference* texture);
cudaError_t cudaGetTextureAlignmentOffset(size_t* offset, const textureReference* texture);
cudaError_t cudaBindSurfaceToArray(const surfaceReference* surface, cudaArray_const_t array, const cudaChannelFormatDesc* format);
LOOM_EXTERN_C_END

#if defined(__cplusplus)
#define cudaTextureType1D 0x01
#define cudaTextureType2D 0x02
#define cudaTextureType3D 0x03
#define cudaTextureTypeCubemap 0x0C
#define cudaTextureType1DLayered 0xF1
#define cudaTextureType2DLayered 0xF2
#define cudaSurfaceType1D 0x01
#define cudaSurfaceType2D 0x02
#define cudaSurfaceType3D 0x03
#if defined(__CUDA__)
#define LOOM_TEXTURE_TYPE __attribute__((device_builtin_texture_type))
#define LOOM_SURFACE_TYPE __attribute__((device_builtin_surface_type))
#else
#define LOOM_TEXTURE_TYPE
#define LOOM_SURFACE_TYPE
#endif
template <class T, int dimensions = cudaTextureType1D, cudaTextureReadMode mode = cudaReadModeElementType>
struct LOOM_TEXTURE_TYPE texture : public textureReference {
#if !defined(LOOM_DEVICE_PASS)
  texture(int normalized_ = 0, cudaTextureFilterMode filter = cudaFilterModePoint, cudaTextureAddressMode address = cudaAddressModeClamp)
      : textureReference{normalized_, filter, {address, address, address}, cudaCreateChannelDesc<T>(), 0, 0, {}} {}
  texture(int normalized_, cudaTextureFilterMode filter, cudaTextureAddressMode address, cudaChannelFormatDesc format)
      : textureReference{normalized_, filter, {address, address, address}, format, 0, 0, {}} {}
#endif
};
template <class T, int dimensions = cudaSurfaceType1D> struct LOOM_SURFACE_TYPE surface : public surfaceReference {};

#define LOOM_BIND template <class T, int dimensions, cudaTextureReadMode mode> static inline cudaError_t
LOOM_BIND cudaBindTexture(size_t* offset, const texture<T, dimensions, mode>& t, const void* p, const cudaChannelFormatDesc& format, size_t bytes = 0xffffffffu) {
  return cudaBindTexture(offset, (const textureReference*)&t, p, &format, bytes);
}
LOOM_BIND cudaBindTexture(size_t* offset, const texture<T, dimensions, mode>& t, const void* p, size_t bytes = 0xffffffffu) {
  return cudaBindTexture(offset, t, p, cudaCreateChannelDesc<T>(), bytes);
}
LOOM_BIND cudaBindTexture(size_t* offset, const texture<T, dimensions, mode>* t, const void* p, const cudaChannelFormatDesc* format, size_t bytes = 0xffffffffu) {
  return cudaBindTexture(offset, (const textureReference*)t, p, format, bytes);
}
LOOM_BIND cudaBindTexture2D(size_t* offset, const texture<T, dimensions, mode>& t, const void* p, const cudaChannelFormatDesc& format, size_t width, size_t height, size_t pitch) {
  return cudaBindTexture2D(offset, (const textureReference*)&t, p, &format, width, height, pitch);
}
LOOM_BIND cudaBindTexture2D(size_t* offset, const texture<T, dimensions, mode>& t, const void* p, size_t width, size_t height, size_t pitch) {
  return cudaBindTexture2D(offset, t, p, cudaCreateChannelDesc<T>(), width, height, pitch);
}
LOOM_BIND cudaBindTextureToArray(const texture<T, dimensions, mode>& t, cudaArray_const_t array, const cudaChannelFormatDesc& format) {
  return cudaBindTextureToArray((const textureReference*)&t, array, &format);
}
LOOM_BIND cudaBindTextureToArray(const texture<T, dimensions, mode>& t, cudaArray_const_t array) {
  return cudaBindTextureToArray((const textureReference*)&t, array, &array->format);
}
LOOM_BIND cudaUnbindTexture(const texture<T, dimensions, mode>& t) { return cudaUnbindTexture((const textureReference*)&t); }
LOOM_BIND cudaUnbindTexture(const texture<T, dimensions, mode>* t) { return cudaUnbindTexture((const textureReference*)t); }
template <class T, int dimensions> static inline cudaError_t cudaBindSurfaceToArray(const surface<T, dimensions>& s, cudaArray_const_t array) {
  return cudaBindSurfaceToArray((const surfaceReference*)&s, array, &array->format);
}
#undef LOOM_BIND
#endif
