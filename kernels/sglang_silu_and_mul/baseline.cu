#include "activation.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   when output_width % (16 // sizeof(T)) == 0 and aligned(input, 16) and aligned(out_arg, 16):
       sglang::act_and_mul_kernel<T, "sglang::ActivationKind::kSiLU", "true", "false", "false", "false", "false", "false"> grid=ceil_div(num_tokens * (output_width // (16 // sizeof(T))), 256) block=256 pdl=true
           args=({input, out_arg, uint32 output_width, uint32 num_tokens, null, uint32 1, float32 clamp_limit, null, null, uint32 0})
*/
