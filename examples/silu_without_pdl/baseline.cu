#include "activation.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   when aligned(out, 16) and d % 8 == 0 and aligned(input, 16) and (2 * d) % 8 == 0:
       flashinfer::activation::act_and_mul_kernel<T, "silu", 8> grid=rows block=min(d // 8, 256)
           args=(out, input, d)
*/

__device__ __forceinline__ float silu(const float& x) { return x / (1.0f + __expf(-x)); }
