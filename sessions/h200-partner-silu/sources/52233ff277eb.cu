#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

// One 16-byte pack of the result a thread. Rows along x, packs of a row along y: no division, and
// the number of blocks follows the bytes and not the rows.

/* @launch
   act_and_mul<T> grid=(rows, ceil_div(d // 8, 256)) block=256
       args=(out, input, d // 8)
*/

template <typename T>
struct alignas(16) Pack {
  T value[8];
};

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

template <typename T>
__global__ void act_and_mul(T* __restrict__ out, const T* __restrict__ input, uint32_t packs) {
  const uint32_t pack = blockIdx.y * 256 + threadIdx.x;
  if (pack >= packs) return;
  const uint64_t row = blockIdx.x;
  const Pack<T>* gate = reinterpret_cast<const Pack<T>*>(input) + row * 2 * packs + pack;
  const Pack<T> g = gate[0];
  const Pack<T> u = gate[packs];
  Pack<T> result;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    result.value[k] = static_cast<T>(silu(static_cast<float>(g.value[k])) * static_cast<float>(u.value[k]));
  reinterpret_cast<Pack<T>*>(out)[row * packs + pack] = result;
}
