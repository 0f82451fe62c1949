#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#define TOY_DEVICE __device__ __forceinline__
#define TOY_CALL(call)                   \
  {                                      \
    cudaError_t status = (call);         \
    if (status != cudaSuccess) return status; \
  }
#define TOY_DISPATCH_WIDTH(value, WIDTH, ...) \
  switch (value) {                            \
    case 8: {                                 \
      constexpr uint32_t WIDTH = 8;           \
      __VA_ARGS__                             \
      break;                                  \
    }                                         \
    case 4: {                                 \
      constexpr uint32_t WIDTH = 4;           \
      __VA_ARGS__                             \
      break;                                  \
    }                                         \
    default: {                                \
      constexpr uint32_t WIDTH = 1;           \
      __VA_ARGS__                             \
      break;                                  \
    }                                         \
  }

namespace toy {

template <typename T, uint32_t N>
struct alignas(sizeof(T) * N) Pack {
  T items[N];
  TOY_DEVICE void load(const T* from) { *this = *reinterpret_cast<const Pack*>(from); }
  TOY_DEVICE void store(T* to) const { *reinterpret_cast<Pack*>(to) = *this; }
};

}  // namespace toy
