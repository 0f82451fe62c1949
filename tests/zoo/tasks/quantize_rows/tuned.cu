// quantize_rows as serving frameworks ship it: 128-bit loads, 64-bit stores of eight results, one
// reciprocal a row.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   when d % width == 0 and stride(x, 0) % width == 0 and aligned(q, 8) and aligned(x, 16):
       quantize_vec<T, width> grid=tokens block=min(max(ceil_div(d, width * 32) * 32, 32), 512)
           args=(q, scales, x, d, stride(x, 0))
   otherwise:
       quantize_scalar<T> grid=tokens block=256 args=(q, scales, x, d, stride(x, 0))
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

__device__ __forceinline__ float block_max(float v) {
  __shared__ float of_warp[32];
  v = warp_max(v);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : 0.0f;
  return warp_max(v);
}

__device__ __forceinline__ int8_t quantized(float x, float inverse) {
  return (int8_t)fminf(fmaxf(rintf(x * inverse), -127.0f), 127.0f);
}

template <typename T, int N>
__global__ void quantize_vec(int8_t* __restrict__ q, float* __restrict__ scales,
                             const T* __restrict__ x, int d, int64_t stride) {
  using P = Pack<T, N>;
  using Q = Pack<int8_t, N>;
  const P* row = reinterpret_cast<const P*>(x + blockIdx.x * stride);
  Q* result = reinterpret_cast<Q*>(q + (int64_t)blockIdx.x * d);
  float top = 0.0f;
  for (int i = threadIdx.x; i < d / N; i += blockDim.x) {
    const P p = row[i];
#pragma unroll
    for (int k = 0; k < N; ++k) top = fmaxf(top, fabsf((float)p.value[k]));
  }
  top = fmaxf(block_max(top), 1e-10f);
  if (threadIdx.x == 0) scales[blockIdx.x] = top / 127.0f;
  const float inverse = 127.0f / top;
  for (int i = threadIdx.x; i < d / N; i += blockDim.x) {
    const P p = row[i];
    Q r;
#pragma unroll
    for (int k = 0; k < N; ++k) r.value[k] = quantized((float)p.value[k], inverse);
    result[i] = r;
  }
}

template <typename T>
__global__ void quantize_scalar(int8_t* __restrict__ q, float* __restrict__ scales,
                                const T* __restrict__ x, int d, int64_t stride) {
  const T* row = x + blockIdx.x * stride;
  float top = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) top = fmaxf(top, fabsf((float)row[i]));
  top = fmaxf(block_max(top), 1e-10f);
  if (threadIdx.x == 0) scales[blockIdx.x] = top / 127.0f;
  const float inverse = 127.0f / top;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    q[(int64_t)blockIdx.x * d + i] = quantized((float)row[i], inverse);
  }
}
