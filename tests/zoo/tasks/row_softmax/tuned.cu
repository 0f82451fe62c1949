// row_softmax as frameworks ship it: 128-bit accesses, warp shuffles, and a warp a row where rows
// are short enough for registers.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   when d % width == 0 and stride(x, 0) % width == 0 and aligned(out, 16) and aligned(x, 16):
       softmax_vec<T, width> grid=tokens block=min(max(ceil_div(d, width * 32) * 32, 32), 512)
           args=(out, x, d, stride(x, 0), scale)
   when d <= 128:
       softmax_warp<T> grid=ceil_div(tokens, 4) block=128
           args=(out, x, tokens, d, stride(x, 0), scale)
   otherwise:
       softmax_scalar<T> grid=tokens block=256 args=(out, x, d, stride(x, 0), scale)
*/

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
  }
  return v;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

__device__ __forceinline__ float block_max(float v) {
  __shared__ float of_warp[32];
  v = warp_max(v);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : -INFINITY;
  return warp_max(v);
}

__device__ __forceinline__ float block_sum(float v) {
  __shared__ float of_warp[32];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0.0f;
  return warp_sum(v);
}

template <typename T, int N>
__global__ void softmax_vec(T* __restrict__ out, const T* __restrict__ x, int d, int64_t stride,
                            float scale) {
  using P = Pack<T, N>;
  const P* row = reinterpret_cast<const P*>(x + blockIdx.x * stride);
  P* result = reinterpret_cast<P*>(out + (int64_t)blockIdx.x * d);
  float top = -INFINITY;
  for (int i = threadIdx.x; i < d / N; i += blockDim.x) {
    const P p = row[i];
#pragma unroll
    for (int k = 0; k < N; ++k) top = fmaxf(top, scale * (float)p.value[k]);
  }
  top = block_max(top);
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d / N; i += blockDim.x) {
    const P p = row[i];
#pragma unroll
    for (int k = 0; k < N; ++k) sum += __expf(scale * (float)p.value[k] - top);
  }
  const float factor = 1.0f / block_sum(sum);
  for (int i = threadIdx.x; i < d / N; i += blockDim.x) {
    const P p = row[i];
    P r;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      r.value[k] = (T)(__expf(scale * (float)p.value[k] - top) * factor);
    }
    result[i] = r;
  }
}

template <typename T>
__global__ void softmax_warp(T* __restrict__ out, const T* __restrict__ x, int64_t tokens, int d,
                             int64_t stride, float scale) {
  const int64_t token = (int64_t)blockIdx.x * 4 + threadIdx.x / 32;
  if (token >= tokens) return;
  const int lane = threadIdx.x % 32;
  float kept[4];
  float top = -INFINITY;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = lane + 32 * k;
    kept[k] = i < d ? scale * (float)x[token * stride + i] : -INFINITY;
    top = fmaxf(top, kept[k]);
  }
  top = warp_max(top);
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    kept[k] = __expf(kept[k] - top);
    sum += lane + 32 * k < d ? kept[k] : 0.0f;
  }
  const float factor = 1.0f / warp_sum(sum);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = lane + 32 * k;
    if (i < d) out[token * d + i] = (T)(kept[k] * factor);
  }
}

template <typename T>
__global__ void softmax_scalar(T* __restrict__ out, const T* __restrict__ x, int d, int64_t stride,
                               float scale) {
  const T* row = x + blockIdx.x * stride;
  T* result = out + (int64_t)blockIdx.x * d;
  float top = -INFINITY;
  for (int i = threadIdx.x; i < d; i += blockDim.x) top = fmaxf(top, scale * (float)row[i]);
  top = block_max(top);
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) sum += __expf(scale * (float)row[i] - top);
  const float factor = 1.0f / block_sum(sum);
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    result[i] = (T)(__expf(scale * (float)row[i] - top) * factor);
  }
}
