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

// Inputs are read once: they need no place in the L1 cache.
template <typename T>
__device__ __forceinline__ Pack<T> load_once(const Pack<T>* from) {
  uint4 raw;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
               : "l"(from));
  Pack<T> pack;
  *reinterpret_cast<uint4*>(&pack) = raw;
  return pack;
}

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

template <typename T>
__global__ void act_and_mul(T* __restrict__ out, const T* __restrict__ input, uint32_t packs) {
  const uint32_t pack = blockIdx.y * 256 + threadIdx.x;
  if (pack >= packs) return;
  const uint64_t row = blockIdx.x;
  const Pack<T>* gate = reinterpret_cast<const Pack<T>*>(input) + row * 2 * packs + pack;
  const Pack<T> g = load_once(gate);
  const Pack<T> u = load_once(gate + packs);
  Pack<T> result;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    result.value[k] = static_cast<T>(silu(static_cast<float>(g.value[k])) * static_cast<float>(u.value[k]));
  reinterpret_cast<Pack<T>*>(out)[row * packs + pack] = result;
}
