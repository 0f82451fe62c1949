#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   gelu<T> grid=max(ceil_div(n, 256), 1) block=256 args=(out, x, n)
*/

template <typename T>
__global__ void gelu(T* __restrict__ out, const T* __restrict__ x, int64_t n) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = (float)x[i];
  const float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
  out[i] = (T)(0.5f * v * (1.0f + tanhf(inner)));
}
