#include <cuda_bf16.h>
#include <cuda_fp16.h>

// A row a cluster of two blocks, so that few rows still reach twice as many multiprocessors; the
// halves exchange their sums through distributed shared memory. A thread has one 16-byte pack, and
// all of its loads in flight before it adds the first two numbers.

/* @launch
   let packs = hidden_size // 8
   let half = ceil_div(packs, 2)
   fused_add_rmsnorm<T> grid=2 * num_tokens block=ceil_div(half, 32) * 32 cluster=2 pdl=true
       args=(input, residual, weight, packs, half, 1.0 / hidden_size, eps)
*/

template <typename T>
struct alignas(16) Pack {
  T value[8];
};

__device__ __forceinline__ void sync_cluster() {
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
}

template <typename T>
__global__ void fused_add_rmsnorm(T* __restrict__ input, T* __restrict__ residual,
                                  const T* __restrict__ weight, unsigned packs, unsigned half,
                                  float inverse, float eps) {
  __shared__ float parts[16];
  __shared__ float sum_of_half;
  const unsigned rank = blockIdx.x % 2;
  const size_t row = static_cast<size_t>(blockIdx.x / 2) * packs;
  const unsigned pack = rank * half + threadIdx.x;
  const bool active = threadIdx.x < half && pack < packs;
  Pack<T>* x = reinterpret_cast<Pack<T>*>(input) + row;
  Pack<T>* r = reinterpret_cast<Pack<T>*>(residual) + row;
  cudaGridDependencySynchronize();
  Pack<T> xs, rs, ws;
  if (active) {
    xs = x[pack];
    rs = r[pack];
    ws = reinterpret_cast<const Pack<T>*>(weight)[pack];
  }
  cudaTriggerProgrammaticLaunchCompletion();
  float squares = 0.0f;
  if (active) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float sum = static_cast<float>(xs.value[k]) + static_cast<float>(rs.value[k]);
      rs.value[k] = static_cast<T>(sum);
      squares += sum * sum;
    }
    r[pack] = rs;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
  __syncthreads();
  float sum = 0.0f;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += parts[warp];
  if (threadIdx.x == 0) sum_of_half = sum;
  sync_cluster();
  const float other = *static_cast<const float*>(__cluster_map_shared_rank(&sum_of_half, rank ^ 1u));
  const float scale = rsqrtf((rank == 0 ? sum + other : other + sum) * inverse + eps);
  if (active) {
#pragma unroll
    for (int k = 0; k < 8; ++k)
      xs.value[k] = static_cast<T>(static_cast<float>(rs.value[k]) * scale *
                                   static_cast<float>(ws.value[k]));
    x[pack] = xs;
  }
  sync_cluster();
}
