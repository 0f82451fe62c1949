#include "flashinfer/activation.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   when d % (16 // sizeof(T)) == 0:
       flashinfer::activation::act_and_mul_kernel_own<T, "silu", 16 // sizeof(T)> grid=rows block=min(d // (16 // sizeof(T)), 256) pdl=true
           args=(out, input, d)
   when d % 4 == 0:
       flashinfer::activation::act_and_mul_kernel_own<T, "silu", 4> grid=rows block=min(d // 4, 256) pdl=true
           args=(out, input, d)
   when d % 2 == 0:
       flashinfer::activation::act_and_mul_kernel_own<T, "silu", 2> grid=rows block=min(d // 2, 256) pdl=true
           args=(out, input, d)
   otherwise:
       flashinfer::activation::act_and_mul_kernel_own<T, "silu", 1> grid=rows block=min(d, 256) pdl=true
           args=(out, input, d)
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

#if (__CUDACC_VER_MAJOR__ >= 12 && defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))
  asm volatile("griddepcontrol.wait;");
#endif

#pragma unroll 1
  for (uint32_t idx = thread_idx; idx < d / vec_size; idx += stride) {
    vec_t<float, vec_size> x_vec, y_vec, out_vec;
    x_vec.cast_load(input + offset + idx * vec_size);
    y_vec.cast_load(input + offset + d + idx * vec_size);
#pragma unroll
    for (uint32_t i = 0; i < vec_size; ++i) {
      out_vec[i] = Activation(x_vec[i]) * y_vec[i];
    }
    out_vec.cast_store(out + token_idx * d + idx * vec_size);
  }

#if (__CUDACC_VER_MAJOR__ >= 12 && defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
}  // namespace flashinfer::activation
