#include "fused_adam_kernel.cu"
#include <cuda_fp16.h>

/* @launch
   ls_adam_cuda_kernel<float32, "c10::Half"> grid=ceil_div(total_size, 1024) block=1024
       args=(p, p_copy, m, v, g, b1, b2, eps, grad_scale, step_size, total_size, mode, decay)
*/
