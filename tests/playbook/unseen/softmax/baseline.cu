#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* @launch
   softmax<T> grid=rows block=256 args=(x, out, n, scale)
*/

template <typename T>
__global__ void softmax(const T* x, T* out, int n, float scale) {
  __shared__ float part[256];
  const T* row = x + (long)blockIdx.x * n;

  float top = -INFINITY;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = (float)row[i] * scale;
    top = fmaxf(top, v);
  }
  part[threadIdx.x] = top;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
    __syncthreads();
  }
  top = part[0];
  __syncthreads();

  float sum = 0.0f;
#pragma unroll 2
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float below = (float)row[i] * scale - top;
    sum += expf(below);
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  sum = part[0];

  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[(long)blockIdx.x * n + i] = (T)(expf((float)row[i] * scale - top) / sum);
}
