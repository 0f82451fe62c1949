// silu_and_mul tuned by hand: a block a row, 128-bit loads and stores, a scalar
// kernel for rows that 128-bit accesses cannot reach.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   when d % width == 0 and aligned(out, 16) and aligned(input, 16):
       silu_and_mul_vec<T, width> grid=tokens block=min(max(ceil_div(d, width * 32) * 32, 32), 1024)
           args=(out, input, d)
   otherwise:
       silu_and_mul_scalar<T> grid=tokens block=min(max(ceil_div(d, 32) * 32, 32), 1024)
           args=(out, input, d)
*/

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

template <typename T, int N>
__global__ void silu_and_mul_vec(T* __restrict__ out, const T* __restrict__ input, int64_t d) {
  using P = Pack<T, N>;
  const int64_t token = blockIdx.x;
  const P* gate = reinterpret_cast<const P*>(input + token * 2 * d);
  const P* up = reinterpret_cast<const P*>(input + token * 2 * d + d);
  P* result = reinterpret_cast<P*>(out + token * d);
  for (int64_t i = threadIdx.x; i < d / N; i += blockDim.x) {
    const P g = gate[i];
    const P u = up[i];
    P r;
#pragma unroll
    for (int k = 0; k < N; ++k) r.value[k] = (T)(silu((float)g.value[k]) * (float)u.value[k]);
    result[i] = r;
  }
}

template <typename T>
__global__ void silu_and_mul_scalar(T* __restrict__ out, const T* __restrict__ input, int64_t d) {
  const int64_t token = blockIdx.x;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    const float gate = (float)input[token * 2 * d + i];
    const float up = (float)input[token * 2 * d + d + i];
    out[token * d + i] = (T)(silu(gate) * up);
  }
}
