// silu_and_mul, the simple way: a capped grid walks over all elements, one at a time, with scalar
// loads, expf and a division. This is where optimisation starts.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   silu_and_mul<T> grid=min(ceil_div(tokens * d, 128), 256) block=128
       args=(out, input, tokens * d, d)
*/

template <typename T>
__global__ void silu_and_mul(T* __restrict__ out, const T* __restrict__ input, int64_t count,
                             int64_t d) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t token = i / d;
    const int64_t column = i % d;
    const float gate = (float)input[token * 2 * d + column];
    const float up = (float)input[token * 2 * d + d + column];
    const float silu = gate / (1.0f + expf(-gate));
    out[i] = (T)(silu * up);
  }
}
