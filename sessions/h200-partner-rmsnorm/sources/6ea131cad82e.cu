#include <cuda_bf16.h>
#include <cuda_fp16.h>

// A row a block, one 16-byte pack a thread, with all of its loads in flight before the first addition.
// The launch may begin before the one before it has ended; the next one is let in when the row is
// stored, since its blocks would take places from rows of this launch that still wait for one.

/* @launch
   let packs = hidden_size // 8
   fused_add_rmsnorm<T> grid=num_tokens block=ceil_div(packs, 32) * 32 pdl=true
       args=(input, residual, weight, packs, 1.0 / hidden_size, eps)
*/

template <typename T>
struct alignas(16) Pack {
  T value[8];
};

template <typename T>
__global__ void fused_add_rmsnorm(T* __restrict__ input, T* __restrict__ residual,
                                  const T* __restrict__ weight, unsigned packs, float inverse,
                                  float eps) {
  __shared__ float parts[32];
  const unsigned lane = threadIdx.x % 32;
  const bool active = threadIdx.x < packs;
  const size_t at = static_cast<size_t>(blockIdx.x) * packs + threadIdx.x;
  Pack<T>* x = reinterpret_cast<Pack<T>*>(input) + at;
  Pack<T>* r = reinterpret_cast<Pack<T>*>(residual) + at;
  cudaGridDependencySynchronize();
  Pack<T> xs, rs, ws;
  if (active) {
    xs = *x;
    rs = *r;
    ws = reinterpret_cast<const Pack<T>*>(weight)[threadIdx.x];
  }
  float squares = 0.0f;
  if (active) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float sum = static_cast<float>(xs.value[k]) + static_cast<float>(rs.value[k]);
      rs.value[k] = static_cast<T>(sum);
      squares += sum * sum;
    }
    *r = rs;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
  if (lane == 0) parts[threadIdx.x / 32] = squares;
  __syncthreads();
  float sum = lane < blockDim.x / 32 ? parts[lane] : 0.0f;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  const float scale = rsqrtf(sum * inverse + eps);
  if (active) {
#pragma unroll
    for (int k = 0; k < 8; ++k)
      xs.value[k] = static_cast<T>(static_cast<float>(rs.value[k]) * scale *
                                   static_cast<float>(ws.value[k]));
    *x = xs;
  }
  cudaTriggerProgrammaticLaunchCompletion();
}
