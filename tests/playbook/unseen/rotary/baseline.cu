#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   rotate<T> grid=(heads, tokens) block=64 args=(x, cosine, sine, out, half)
*/

template <typename T>
__global__ void rotate(const T* __restrict__ x, const float* __restrict__ cosine,
                       const float* __restrict__ sine, T* __restrict__ out, int half) {
  const int64_t head = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
  const T* from = x + head * 2 * half;
  T* to = out + head * 2 * half;
  const float* c = cosine + (int64_t)blockIdx.y * half;
  const float* s = sine + (int64_t)blockIdx.y * half;
  for (int j = threadIdx.x; j < half; j += blockDim.x) {
    const float a = (float)from[j];
    const float b = (float)from[j + half];
    to[j] = (T)(a * c[j] - b * s[j]);
    to[j + half] = (T)(b * c[j] + a * s[j]);
  }
}
