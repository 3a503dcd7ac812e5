// Texture and surface objects, and the binding of texture references.
#include "runtime.h"

#include <cstring>

namespace loom {
namespace {
size_t texel_bytes(const cudaChannelFormatDesc& format) { return (size_t)(format.x + format.y + format.z + format.w) / 8; }

__loom_image linear_image(const void* p, const cudaChannelFormatDesc& format, size_t bytes) {
  size_t unit = texel_bytes(format);
  return {(char*)p, unit ? bytes / unit : 0, 0, 0, bytes, bytes, unit, format};
}
__loom_image pitched_image(const void* p, const cudaChannelFormatDesc& format, size_t width, size_t height, size_t pitch) {
  return {(char*)p, width, height, 0, pitch, pitch * height, texel_bytes(format), format};
}
__loom_image array_image(const cudaArray& array) {
  size_t row = array.width * array.element_bytes;
  size_t slice = row * (array.height ? array.height : 1);
  return {(char*)array.data, array.width, array.height, array.depth, row, slice, array.element_bytes, array.format};
}

cudaError_t image_of(const cudaResourceDesc& resource, __loom_image* image) {
  switch (resource.resType) {
    case cudaResourceTypeArray:
      if (!resource.res.array.array) return cudaErrorInvalidValue;
      *image = array_image(*resource.res.array.array);
      return cudaSuccess;
    case cudaResourceTypeLinear: {
      const auto& linear = resource.res.linear;
      *image = linear_image(linear.devPtr, linear.desc, linear.sizeInBytes);
      return linear.devPtr ? cudaSuccess : cudaErrorInvalidValue;
    }
    case cudaResourceTypePitch2D: {
      const auto& pitched = resource.res.pitch2D;
      *image = pitched_image(pitched.devPtr, pitched.desc, pitched.width, pitched.height, pitched.pitchInBytes);
      return pitched.devPtr ? cudaSuccess : cudaErrorInvalidValue;
    }
    default: return cudaErrorNotSupported;  // mipmaps
  }
}

cudaError_t bind(const textureReference* texture, const __loom_image& image) {
  if (!texture) return failed(cudaErrorInvalidTexture);
  ((textureReference*)texture)->image = image;
  ((textureReference*)texture)->channelDesc = image.format;
  return cudaSuccess;
}
}  // namespace
}  // namespace loom

using namespace loom;

extern "C" {
cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource, const cudaTextureDesc* how, const cudaResourceViewDesc* view) {
  if (!object || !resource || !how) return failed(cudaErrorInvalidValue);
  if (view && view->format != cudaResViewFormatNone) return failed(cudaErrorNotSupported);
  auto* made = new __loom_sampler{{}, *how, *resource};
  if (cudaError_t error = image_of(*resource, &made->image)) return delete made, failed(error);
  *object = (cudaTextureObject_t)made;
  return cudaSuccess;
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) { return delete (__loom_sampler*)object, cudaSuccess; }
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t object) {
  return *resource = ((__loom_sampler*)object)->resource, cudaSuccess;
}
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* how, cudaTextureObject_t object) { return *how = ((__loom_sampler*)object)->how, cudaSuccess; }
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
  cudaTextureDesc how;
  memset(&how, 0, sizeof how);
  return cudaCreateTextureObject(object, resource, &how, nullptr);
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) { return cudaDestroyTextureObject(object); }

cudaError_t cudaBindTexture(size_t* offset, const textureReference* texture, const void* p, const cudaChannelFormatDesc* format, size_t bytes) {
  if (offset) *offset = 0;
  return bind(texture, linear_image(p, *format, bytes));
}
cudaError_t cudaBindTexture2D(size_t* offset, const textureReference* texture, const void* p, const cudaChannelFormatDesc* format, size_t width, size_t height,
                              size_t pitch) {
  if (offset) *offset = 0;
  return bind(texture, pitched_image(p, *format, width, height, pitch));
}
cudaError_t cudaBindTextureToArray(const textureReference* texture, cudaArray_const_t array, const cudaChannelFormatDesc*) {
  return array ? bind(texture, array_image(*array)) : failed(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaUnbindTexture(const textureReference*) { return cudaSuccess; }
cudaError_t cudaGetTextureAlignmentOffset(size_t* offset, const textureReference*) { return *offset = 0, cudaSuccess; }
cudaError_t cudaBindSurfaceToArray(const surfaceReference* surface, cudaArray_const_t array, const cudaChannelFormatDesc* format) {
  if (!array) return failed(cudaErrorInvalidResourceHandle);
  ((surfaceReference*)surface)->channelDesc = *format;
  ((surfaceReference*)surface)->image = array_image(*array);
  return cudaSuccess;
}
}
