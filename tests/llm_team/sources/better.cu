// silu_and_mul with two elements a thread: pairs where rows allow it, single elements elsewhere.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   when d % 2 == 0 and aligned(out, 4) and aligned(input, 4):
       silu_and_mul_pairs<T> grid=min(ceil_div(tokens * d, 256), 256) block=128
           args=(out, input, tokens * d // 2, d // 2)
   otherwise:
       silu_and_mul<T> grid=ceil_div(tokens * d, 128) block=128
           args=(out, input, tokens * d, d)
*/

template <typename T>
struct alignas(4) Pair {
  T x, y;
};

template <typename T>
__device__ T gated(T gate_value, T up_value) {
  const float gate = (float)gate_value;
  return (T)(gate / (1.0f + expf(-gate)) * (float)up_value);
}

template <typename T>
__global__ void silu_and_mul_pairs(T* __restrict__ out, const T* __restrict__ input, int64_t count,
                                   int64_t pairs) {
  const Pair<T>* in = reinterpret_cast<const Pair<T>*>(input);
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t token = i / pairs;
    const Pair<T> gate = in[token * 2 * pairs + i % pairs];
    const Pair<T> up = in[token * 2 * pairs + pairs + i % pairs];
    reinterpret_cast<Pair<T>*>(out)[i] = Pair<T>{gated(gate.x, up.x), gated(gate.y, up.y)};
  }
}

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
