// tuned.cu of fused_add_rmsnorm with a cluster of two blocks a row: each keeps half of the row, and
// reads the other's sum of squares from its shared memory.

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   let threads = min(max(ceil_div(ceil_div(d, 2 * width), 32) * 32, 32), 1024)
   when d % width == 0 and stride(x, 0) % width == 0 and stride(residual, 0) % width == 0
        and aligned(x, 16) and aligned(residual, 16) and aligned(weight, 16) and d <= 32768:
       fused_add_rmsnorm_vec<T, width> grid=tokens * 2 block=threads cluster=2
           shared=d // width // 2 * width * 4 + width * 4
           args=(x, residual, weight, d, stride(x, 0), stride(residual, 0), eps)
   otherwise:
       fused_add_rmsnorm_scalar<T> grid=tokens block=min(max(ceil_div(d, 32) * 32, 32), 1024)
           args=(x, residual, weight, d, stride(x, 0), stride(residual, 0), eps)
*/

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

// The sum over all threads of the block, in every thread.
__device__ __forceinline__ float block_sum(float v) {
  __shared__ float of_warp[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  v = warp_sum(v);
  if (lane == 0) of_warp[warp] = v;
  __syncthreads();
  v = lane < blockDim.x / 32 ? of_warp[lane] : 0.0f;
  return warp_sum(v);
}

template <typename T, int N>
__global__ void fused_add_rmsnorm_vec(T* __restrict__ x, T* __restrict__ residual,
                                      const T* __restrict__ weight, int d, int64_t x_stride,
                                      int64_t residual_stride, float eps) {
  using P = Pack<T, N>;
  using F = Pack<float, 4>;
  extern __shared__ __align__(16) float row[];
  __shared__ float squares;
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int half = cluster.block_rank();
  const int64_t token = blockIdx.x / 2;
  const int packs = d / N;
  const int first = half == 0 ? 0 : packs / 2;
  const int mine = half == 0 ? packs / 2 : packs - packs / 2;
  P* row_x = reinterpret_cast<P*>(x + token * x_stride) + first;
  P* row_r = reinterpret_cast<P*>(residual + token * residual_stride) + first;
  const P* row_w = reinterpret_cast<const P*>(weight) + first;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < mine; i += blockDim.x) {
    const P a = row_x[i];
    const P b = row_r[i];
    P rounded;
    F kept[N / 4];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float z = (float)a.value[k] + (float)b.value[k];
      sum += z * z;
      rounded.value[k] = (T)z;
      kept[k / 4].value[k % 4] = z;
    }
    row_r[i] = rounded;
#pragma unroll
    for (int k = 0; k < N / 4; ++k) reinterpret_cast<F*>(row)[i * (N / 4) + k] = kept[k];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares = sum;
  cluster.sync();
  const float scale = rsqrtf((*cluster.map_shared_rank(&squares, 0) +
                              *cluster.map_shared_rank(&squares, 1)) / d + eps);
  cluster.sync();  // No block leaves while the other reads its sum.

  for (int i = threadIdx.x; i < mine; i += blockDim.x) {
    const P w = row_w[i];
    P result;
    F kept[N / 4];
#pragma unroll
    for (int k = 0; k < N / 4; ++k) kept[k] = reinterpret_cast<F*>(row)[i * (N / 4) + k];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      result.value[k] = (T)(kept[k / 4].value[k % 4] * scale * (float)w.value[k]);
    }
    row_x[i] = result;
  }
}

template <typename T>
__global__ void fused_add_rmsnorm_scalar(T* __restrict__ x, T* __restrict__ residual,
                                         const T* __restrict__ weight, int d, int64_t x_stride,
                                         int64_t residual_stride, float eps) {
  T* row_x = x + blockIdx.x * x_stride;
  T* row_r = residual + blockIdx.x * residual_stride;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float z = (float)row_x[i] + (float)row_r[i];
    sum += z * z;
  }
  const float scale = rsqrtf(block_sum(sum) / d + eps);
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float z = (float)row_x[i] + (float)row_r[i];
    row_r[i] = (T)z;
    row_x[i] = (T)(z * scale * (float)weight[i]);
  }
}
