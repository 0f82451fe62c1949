#include "flashinfer/activation.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   when d % (16 // sizeof(T)) == 0:
       flashinfer::activation::act_and_mul_kernel<T, "silu", 16 // sizeof(T)> grid=rows block=min(d // (16 // sizeof(T)), 256) pdl=true
           args=(out, input, d)
   when d % 4 == 0:
       flashinfer::activation::act_and_mul_kernel<T, "silu", 4> grid=rows block=min(d // 4, 256) pdl=true
           args=(out, input, d)
   when d % 2 == 0:
       flashinfer::activation::act_and_mul_kernel<T, "silu", 2> grid=rows block=min(d // 2, 256) pdl=true
           args=(out, input, d)
   otherwise:
       flashinfer::activation::act_and_mul_kernel<T, "silu", 1> grid=rows block=min(d, 256) pdl=true
           args=(out, input, d)
*/

__device__ __forceinline__ float silu(const float& x) { return x / (1.0f + __expf(-x)); }
