/*
 * Copyright (c) 2024, the authors of this file.
 * Licensed under the MIT licence.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cassert>
#include <limits>

namespace {

constexpr int WARP = 32;
constexpr int WARPS_PER_BLOCK = 4;

template <typename T>
__device__ __forceinline__ float to_float(T v) { return static_cast<float>(v); }
template <>
__device__ __forceinline__ float to_float<half>(half v) { return __half2float(v); }

// One warp a row; the row is read twice.
template <typename T>
static __global__ void softmax_warp(const T* __restrict__ logits, T* __restrict__ probs,
                                    const int batch, const int classes) {
  const int lane = threadIdx.x % WARP;
  const int row = blockIdx.x * WARPS_PER_BLOCK + threadIdx.x / WARP;
  if (row >= batch) return;
  const T* in = logits + (int64_t)row * classes;
  T* out = probs + (int64_t)row * classes;

  float top = -std::numeric_limits<float>::infinity();
  float sum = 0.f;
  for (int c = lane; c < classes; c += WARP) {
    const float v = to_float(in[c]);
    const float next = fmaxf(top, v);
    sum = sum * expf(top - next) + expf(v - next);
    top = next;
  }
  for (int d = WARP / 2; d; d /= 2) {
    const float other_top = __shfl_xor_sync(0xffffffffu, top, d);
    const float other_sum = __shfl_xor_sync(0xffffffffu, sum, d);
    const float next = fmaxf(top, other_top);
    sum = (top == next ? sum : sum * expf(top - next)) +
          (other_top == next ? other_sum : other_sum * expf(other_top - next));
    top = next;
  }
  for (int c = lane; c < classes; c += WARP) out[c] = (T)(expf(to_float(in[c]) - top) / sum);
}

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace

cudaError_t softmax(const half* logits, half* probs, int batch, int classes, cudaStream_t stream) {
  assert(classes > 0);
  if (batch == 0) return cudaSuccess;
  const dim3 grid{static_cast<unsigned>(ceil_div(batch, WARPS_PER_BLOCK))};
  const dim3 block{WARP * WARPS_PER_BLOCK};
  softmax_warp<half><<<grid, block, 0, stream>>>(logits, probs, batch, classes);
  return cudaGetLastError();
}
