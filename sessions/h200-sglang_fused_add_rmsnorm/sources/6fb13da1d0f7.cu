#include "fused_add_rmsnorm.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   when hidden_size <= 8192 and hidden_size % (16 // sizeof(T)) == 0 and ceil_div(hidden_size // (16 // sizeof(T)), 32) * 32 >= 1 and ceil_div(hidden_size // (16 // sizeof(T)), 32) * 32 <= 1024 and aligned(input, 16) and aligned(residual, 16) and aligned(weight, 16):
       sglang::fused_add_rmsnorm_reg_kernel<"false", T, 16> grid=num_tokens block=ceil_div(hidden_size // (16 // sizeof(T)), 32) * 32
           args=(input, residual, weight, hidden_size // (16 // sizeof(T)), eps)
*/
