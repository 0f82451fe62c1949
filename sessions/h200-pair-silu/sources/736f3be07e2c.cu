// silu_and_mul by hand: a pack of 16 bytes a thread and no loop, rows split over blocks of 128
// threads, so that 16 rows still reach every multiprocessor.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   when d % width == 0 and aligned(out, 16) and aligned(input, 16):
       silu_and_mul_split<T, width> grid=(tokens, ceil_div(d // width, 128)) block=128
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
__global__ void silu_and_mul_split(T* __restrict__ out, const T* __restrict__ input, int64_t d) {
  using P = Pack<T, N>;
  const int64_t token = blockIdx.x;
  const int64_t i = blockIdx.y * blockDim.x + threadIdx.x;
  if (i >= d / N) return;
  const P g = reinterpret_cast<const P*>(input + token * 2 * d)[i];
  const P u = reinterpret_cast<const P*>(input + token * 2 * d + d)[i];
  P r;
#pragma unroll
  for (int k = 0; k < N; ++k) r.value[k] = (T)(silu((float)g.value[k]) * (float)u.value[k]);
  reinterpret_cast<P*>(out + token * d)[i] = r;
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
