// silu_and_mul, the simple way: a capped grid walks over all elements, one at a time, with scalar
// loads, expf and a division. This is where optimisation starts.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   silu_and_mul<T> grid=(ceil_div(d, 128), min(tokens, 65535)) block=128
        args=(out, input, tokens, d)
*/

template <typename T>
__global__ void silu_and_mul(T* __restrict__ out, const T* __restrict__ input, int64_t rows,
                             int64_t d) {
  for (int64_t token = blockIdx.y; token < rows; token += gridDim.y) {
    for (int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; column < d; column += (int64_t)gridDim.x * blockDim.x) {
      const int64_t i = token * d + column;
      const float gate = (float)input[token * 2 * d + column];
      const float up = (float)input[token * 2 * d + d + column];
      const float silu = gate / (1.0f + expf(-gate));
      out[i] = (T)(silu * up);
    }
  }
}
