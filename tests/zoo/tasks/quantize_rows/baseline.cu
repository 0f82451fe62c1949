// quantize_rows, the simple way: a block a row, a tree reduction, a division for every element.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   quantize_rows<T> grid=tokens block=128 args=(q, scales, x, d, stride(x, 0))
*/

template <typename T>
__global__ void quantize_rows(int8_t* __restrict__ q, float* __restrict__ scales,
                              const T* __restrict__ x, int d, int64_t stride) {
  __shared__ float partial[128];
  const T* row = x + blockIdx.x * stride;
  float top = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) top = fmaxf(top, fabsf((float)row[i]));
  partial[threadIdx.x] = top;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const float scale = fmaxf(partial[0], 1e-10f) / 127.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float v = rintf((float)row[i] / scale);
    q[(int64_t)blockIdx.x * d + i] = (int8_t)fminf(fmaxf(v, -127.0f), 127.0f);
  }
}
