// row_softmax, the simple way: a block a row, tree reductions, the row read three times.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>

/* @launch
   row_softmax<T> grid=tokens block=128 args=(out, x, d, stride(x, 0), scale)
*/

template <typename T>
__global__ void row_softmax(T* __restrict__ out, const T* __restrict__ x, int d, int64_t stride,
                            float scale) {
  __shared__ float partial[128];
  const T* row = x + blockIdx.x * stride;
  T* result = out + (int64_t)blockIdx.x * d;

  float top = -INFINITY;
  for (int i = threadIdx.x; i < d; i += blockDim.x) top = fmaxf(top, scale * (float)row[i]);
  partial[threadIdx.x] = top;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  top = partial[0];
  __syncthreads();

  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) sum += expf(scale * (float)row[i] - top);
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  sum = partial[0];

  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    result[i] = (T)(expf(scale * (float)row[i] - top) / sum);
  }
}
