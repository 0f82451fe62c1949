// fused_add_rmsnorm, the simple way: scalar loads, a tree reduction in shared memory with a barrier
// at every level, and both inputs read again for the result. This is where optimisation starts.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   let equal = max(ceil_div(ceil_div(d // width, ceil_div(max(d // width, 1), 1024)), 32) * 32, 32)
   let half = max(ceil_div(ceil_div(d // width, 2), 32) * 32, 32)
   let threads = half if d // width <= 1024 and tokens * equal > sm_count * max_threads_per_sm and tokens * half <= sm_count * max_threads_per_sm else equal
   let equal_2 = max(ceil_div(ceil_div(d, ceil_div(max(d, 1), 1024)), 32) * 32, 32)
   let half_2 = max(ceil_div(ceil_div(d, 2), 32) * 32, 32)
   let threads_2 = half_2 if d <= 1024 and tokens * equal_2 > sm_count * max_threads_per_sm and tokens * half_2 <= sm_count * max_threads_per_sm else equal_2
   let turns = 1 if d // width <= threads else 2 if d // width <= 2 * threads else 4 if d // width <= 4 * threads else 8
   when stride(x, 0) % width == 0 and stride(residual, 0) % width == 0 and d % width == 0
        and aligned(x, 16) and aligned(residual, 16) and aligned(weight, 16)
        and d // width <= 8 * threads:
       fused_add_rmsnorm_wide_kept<T, width, turns> grid=tokens block=threads
            args=(x, residual, weight, d, stride(x, 0), stride(residual, 0), eps) pdl=true
   when stride(x, 0) % width == 0 and stride(residual, 0) % width == 0 and d % width == 0
        and aligned(x, 16) and aligned(residual, 16) and aligned(weight, 16):
       fused_add_rmsnorm_wide<T, width> grid=tokens block=threads
            args=(x, residual, weight, d, stride(x, 0), stride(residual, 0), eps) pdl=true
   otherwise:
       fused_add_rmsnorm<T> grid=tokens block=threads_2
            args=(x, residual, weight, d, stride(x, 0), stride(residual, 0), eps) pdl=true
*/

template <typename E, int N>
struct alignas(sizeof(E) * N < 16 ? sizeof(E) * N : 16) Pack {
  E value[N];
};

template <typename T>
__global__ void __launch_bounds__(1024) fused_add_rmsnorm(T* __restrict__ x, T* __restrict__ residual,
                                  const T* __restrict__ weight, int d, int64_t x_stride,
                                  int64_t residual_stride, float eps) {
  __shared__ float partial[256];
  T* row_x = x + blockIdx.x * x_stride;
  T* row_r = residual + blockIdx.x * residual_stride;

  float sum = 0.0f;
  cudaGridDependencySynchronize();
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float z = (float)row_x[i] + (float)row_r[i];
    sum += z * z;
  }
  float reduced_2 = sum;
#pragma unroll
  for (int offset_2 = 16; offset_2 > 0; offset_2 /= 2) {
    reduced_2 += __shfl_xor_sync(0xffffffffu, reduced_2, offset_2);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = reduced_2;
  __syncthreads();
  if (threadIdx.x < 32) {
    reduced_2 = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
#pragma unroll
    for (int offset_2 = 16; offset_2 > 0; offset_2 /= 2) {
      reduced_2 += __shfl_xor_sync(0xffffffffu, reduced_2, offset_2);
    }
    if (threadIdx.x == 0) partial[0] = reduced_2;
  }
  __syncthreads();

  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float z = (float)row_x[i] + (float)row_r[i];
    const float inverse_norm = rsqrtf(partial[0] / d + eps);
    row_r[i] = (T)z;
    row_x[i] = (T)(z * inverse_norm * (float)weight[i]);
  }
  cudaTriggerProgrammaticLaunchCompletion();
}

template <typename T, int WIDTH>
__global__ void __launch_bounds__(1024) fused_add_rmsnorm_wide(T* __restrict__ x, T* __restrict__ residual,
                                  const T* __restrict__ weight, int d, int64_t x_stride,
                                  int64_t residual_stride, float eps) {
  __shared__ float partial[256];
  T* row_x = x + blockIdx.x * x_stride;
  T* row_r = residual + blockIdx.x * residual_stride;

  float sum = 0.0f;
  cudaGridDependencySynchronize();
  for (int i_pack = threadIdx.x; i_pack < d / WIDTH; i_pack += blockDim.x) {
    const int i = i_pack * WIDTH;
    const Pack<T, WIDTH> row_x_pack = *reinterpret_cast<const Pack<T, WIDTH>*>(&row_x[i]);
    const Pack<T, WIDTH> row_r_pack = *reinterpret_cast<const Pack<T, WIDTH>*>(&row_r[i]);
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) {
      const float z = (float)row_x_pack.value[lane] + (float)row_r_pack.value[lane];
      sum += z * z;
    }
  }
  float reduced = sum;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    reduced += __shfl_xor_sync(0xffffffffu, reduced, offset);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = reduced;
  __syncthreads();
  if (threadIdx.x < 32) {
    reduced = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      reduced += __shfl_xor_sync(0xffffffffu, reduced, offset);
    }
    if (threadIdx.x == 0) partial[0] = reduced;
  }
  __syncthreads();

  for (int i_pack_2 = threadIdx.x; i_pack_2 < d / WIDTH; i_pack_2 += blockDim.x) {
    const int i = i_pack_2 * WIDTH;
    const float inverse_norm = rsqrtf(partial[0] / d + eps);
    const Pack<T, WIDTH> row_x_pack_2 = *reinterpret_cast<const Pack<T, WIDTH>*>(&row_x[i]);
    const Pack<T, WIDTH> row_r_pack_2 = *reinterpret_cast<const Pack<T, WIDTH>*>(&row_r[i]);
    const Pack<T, WIDTH> weight_pack = *reinterpret_cast<const Pack<T, WIDTH>*>(&weight[i]);
    Pack<T, WIDTH> row_r_pack_3;
    Pack<T, WIDTH> row_x_pack_3;
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) {
      const float z = (float)row_x_pack_2.value[lane] + (float)row_r_pack_2.value[lane];
      row_r_pack_3.value[lane] = (T)z;
      row_x_pack_3.value[lane] = (T)(z * inverse_norm * (float)weight_pack.value[lane]);
    }
    *reinterpret_cast<Pack<T, WIDTH>*>(&row_r[i]) = row_r_pack_3;
    *reinterpret_cast<Pack<T, WIDTH>*>(&row_x[i]) = row_x_pack_3;
  }
  cudaTriggerProgrammaticLaunchCompletion();
}

template <typename T, int WIDTH, int TURNS>
__global__ void __launch_bounds__(1024) fused_add_rmsnorm_wide_kept(T* __restrict__ x, T* __restrict__ residual,
                                  const T* __restrict__ weight, int d, int64_t x_stride,
                                  int64_t residual_stride, float eps) {
  __shared__ float partial[256];
  T* row_x = x + blockIdx.x * x_stride;
  T* row_r = residual + blockIdx.x * residual_stride;

  float sum = 0.0f;
  Pack<T, WIDTH> row_x_kept[TURNS];
  Pack<T, WIDTH> row_r_kept[TURNS];
  cudaGridDependencySynchronize();
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int i_pack = threadIdx.x + turn * blockDim.x;
    if (i_pack < d / WIDTH) {
      const int i = i_pack * WIDTH;
      row_x_kept[turn] = *reinterpret_cast<const Pack<T, WIDTH>*>(&row_x[i]);
      const Pack<T, WIDTH> row_x_pack = row_x_kept[turn];
      row_r_kept[turn] = *reinterpret_cast<const Pack<T, WIDTH>*>(&row_r[i]);
      const Pack<T, WIDTH> row_r_pack = row_r_kept[turn];
#pragma unroll
      for (int lane = 0; lane < WIDTH; ++lane) {
        const float z = (float)row_x_pack.value[lane] + (float)row_r_pack.value[lane];
        sum += z * z;
      }
      {
        const int i_pack_2 = threadIdx.x + turn * blockDim.x;
        const int i = i_pack_2 * WIDTH;
        const Pack<T, WIDTH> row_x_pack_2 = row_x_kept[turn];
        const Pack<T, WIDTH> row_r_pack_2 = row_r_kept[turn];
        Pack<T, WIDTH> row_r_pack_3;
#pragma unroll
        for (int lane = 0; lane < WIDTH; ++lane) {
          const float z = (float)row_x_pack_2.value[lane] + (float)row_r_pack_2.value[lane];
          row_r_pack_3.value[lane] = (T)z;
        }
        *reinterpret_cast<Pack<T, WIDTH>*>(&row_r[i]) = row_r_pack_3;
      }
    }
  }
  float reduced = sum;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    reduced += __shfl_xor_sync(0xffffffffu, reduced, offset);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = reduced;
  __syncthreads();
  if (threadIdx.x < 32) {
    reduced = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      reduced += __shfl_xor_sync(0xffffffffu, reduced, offset);
    }
    if (threadIdx.x == 0) partial[0] = reduced;
  }
  __syncthreads();

#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int i_pack_2 = threadIdx.x + turn * blockDim.x;
    if (i_pack_2 < d / WIDTH) {
      const int i = i_pack_2 * WIDTH;
      const float inverse_norm = rsqrtf(partial[0] / d + eps);
      const Pack<T, WIDTH> row_x_pack_2 = row_x_kept[turn];
      const Pack<T, WIDTH> row_r_pack_2 = row_r_kept[turn];
      const Pack<T, WIDTH> weight_pack = *reinterpret_cast<const Pack<T, WIDTH>*>(&weight[i]);
      Pack<T, WIDTH> row_x_pack_3;
#pragma unroll
      for (int lane = 0; lane < WIDTH; ++lane) {
        const float z = (float)row_x_pack_2.value[lane] + (float)row_r_pack_2.value[lane];
        row_x_pack_3.value[lane] = (T)(z * inverse_norm * (float)weight_pack.value[lane]);
      }
      *reinterpret_cast<Pack<T, WIDTH>*>(&row_x[i]) = row_x_pack_3;
    }
  }
  cudaTriggerProgrammaticLaunchCompletion();
}
