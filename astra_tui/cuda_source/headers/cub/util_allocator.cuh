#pragma once
#include <cub/util_namespace.cuh>
CUB_NAMESPACE_BEGIN
struct CachingDeviceAllocator {
  template <typename... A> constexpr explicit CachingDeviceAllocator(A&&...) {}
  template <typename... A> cudaError_t DeviceAllocate(A&&...);
  template <typename... A> cudaError_t DeviceFree(A&&...);
};
CUB_NAMESPACE_END
