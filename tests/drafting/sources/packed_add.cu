#pragma once
#include <cuda_fp16.h>
#include "common/macros.h"

namespace fast {
namespace detail {

template <typename T, int VEC>
struct alignas(sizeof(T) * VEC) Packed {
  T item[VEC];
};

}  // namespace detail

// Residual add, VEC elements a thread. n has to be a multiple of VEC.
template <int VEC, typename T = half>
__global__ void packed_add(T* __restrict__ out, const T* __restrict__ a, const T* __restrict__ b,
                           size_t n) {
  using Vector = detail::Packed<T, VEC>;
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i * VEC >= n) return;
  Vector x = reinterpret_cast<const Vector*>(a)[i];
  Vector y = reinterpret_cast<const Vector*>(b)[i];
#pragma unroll
  for (int k = 0; k < VEC; ++k) x.item[k] = (T)((float)x.item[k] + (float)y.item[k]);
  reinterpret_cast<Vector*>(out)[i] = x;
}

inline void add(half* out, const half* a, const half* b, size_t n, cudaStream_t s) {
  constexpr int vec = 16 / sizeof(half);
  constexpr unsigned threads = 128u;
  auto groups = (n / vec + threads - 1) / threads;
  fast::packed_add<vec, half><<<groups, threads, 0, s>>>(out, a, b, n);
}

}  // namespace fast
