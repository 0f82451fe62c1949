#include "flashinfer/activation.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   let across = d // (16 // sizeof(T))
   let shift = 37 if across < 1024 else 47
   let magic = ceil_div(137438953472 if across < 1024 else 140737488355328, max(across, 1))
   when d % (16 // sizeof(T)) == 0 and (across < 1048576 and rows * across <= 134217728
        and rows * across > 0):
       flashinfer::activation::act_and_mul_kernel_own_flat<T, "silu", 16 // sizeof(T)> grid=ceil_div(max(rows * across, 1), 256) block=256
            args=(out, input, d, rows * across, across, shift, magic) pdl=true
   when d % 4 == 0:
       flashinfer::activation::act_and_mul_kernel_own<T, "silu", 4> grid=rows block=min(d // 4, 256)
            args=(out, input, d) pdl=true
   when d % 2 == 0:
       flashinfer::activation::act_and_mul_kernel_own<T, "silu", 2> grid=rows block=min(d // 2, 256)
            args=(out, input, d) pdl=true
   otherwise:
       flashinfer::activation::act_and_mul_kernel_own<T, "silu", 1> grid=rows block=min(d, 256)
            args=(out, input, d) pdl=true
*/

__device__ __forceinline__ float silu(const float& x) { return __fdividef(x, 1.0f + __expf(-x)); }

// As in upstream/flashinfer/data/include/flashinfer/activation.cuh at lines 33 to 61, under another name.
// flashinfer-python 0.7.2.post1, Apache-2.0
namespace flashinfer::activation {
template <typename T, float (*Activation)(const float&), uint32_t vec_size>
__global__ __launch_bounds__(256) void act_and_mul_kernel_own(T* __restrict__ out,
                                                          const T* __restrict__ input,
                                                          const int d) {
  const int64_t token_idx = blockIdx.x;
  const int64_t thread_idx = threadIdx.x;
  const int64_t stride = blockDim.x;
  const int64_t offset = token_idx * 2 * d;

  cudaGridDependencySynchronize();


#pragma unroll 1
  for (uint32_t idx = thread_idx; idx < d / vec_size; idx += stride) {
    vec_t<float, vec_size> x_vec, y_vec, out_vec;
    const vec_t<T, vec_size> x_vec_loaded = *reinterpret_cast<const vec_t<T, vec_size>*>(&input[offset + idx * vec_size]);
    x_vec.cast_from(x_vec_loaded);
    const vec_t<T, vec_size> y_vec_loaded = *reinterpret_cast<const vec_t<T, vec_size>*>(&input[offset + d + idx * vec_size]);
    y_vec.cast_from(y_vec_loaded);
#pragma unroll
    for (uint32_t i = 0; i < vec_size; ++i) {
      out_vec[i] = Activation(x_vec[i]) * y_vec[i];
    }
    vec_t<T, vec_size> out_vec_stored;
    out_vec_stored.cast_from(out_vec);
    *reinterpret_cast<vec_t<T, vec_size>*>(&out[token_idx * d + idx * vec_size]) = out_vec_stored;
  }

  cudaTriggerProgrammaticLaunchCompletion();

}

template <typename T, float (*Activation)(const float&), uint32_t vec_size>
__global__ __launch_bounds__(256) void act_and_mul_kernel_own_flat(T* __restrict__ out,
                                                          const T* __restrict__ input,
                                                          const int d, unsigned total, unsigned across, int shift, unsigned long long magic) {
  const unsigned flat = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned flat_row = (unsigned)(flat * magic >> shift);
  const unsigned flat_column = flat - flat_row * across;
  const int64_t token_idx = flat_row;
  const int64_t offset = token_idx * 2 * d;

  cudaGridDependencySynchronize();


#pragma unroll 1
  if (flat < total) {
    const uint32_t idx = flat_column;
    vec_t<float, vec_size> x_vec, y_vec, out_vec;
    const vec_t<T, vec_size> x_vec_loaded = *reinterpret_cast<const vec_t<T, vec_size>*>(&input[offset + idx * vec_size]);
    x_vec.cast_from(x_vec_loaded);
    const vec_t<T, vec_size> y_vec_loaded = *reinterpret_cast<const vec_t<T, vec_size>*>(&input[offset + d + idx * vec_size]);
    y_vec.cast_from(y_vec_loaded);
#pragma unroll
    for (uint32_t i = 0; i < vec_size; ++i) {
      out_vec[i] = Activation(x_vec[i]) * y_vec[i];
    }
    vec_t<T, vec_size> out_vec_stored;
    out_vec_stored.cast_from(out_vec);
    *reinterpret_cast<vec_t<T, vec_size>*>(&out[token_idx * d + idx * vec_size]) = out_vec_stored;
  }

  cudaTriggerProgrammaticLaunchCompletion();

}
}  // namespace flashinfer::activation
