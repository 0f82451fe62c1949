#include "sampling.cuh"

/* @launch
   when not (batch_size <= 128 and d >= 24576) and d % 4 == 0 and aligned(logits, 16) and aligned(output, 16):
       flashinfer::sampling::OnlineSoftmaxFusedKernel<1024, (min(16 // sizeof(T), 16 if d % 16 == 0 else 8 if d % 8 == 0 else 4 if d % 4 == 0 else 2 if d % 2 == 0 else 1)), T, "false"> grid=batch_size block=1024 shared=49152 pdl=true
           args=(logits, output, temperature_arr, temperature_val, d)
*/
