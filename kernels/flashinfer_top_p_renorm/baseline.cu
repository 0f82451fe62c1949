#include "sampling.cuh"

/* @launch
   when d % 4 == 0 and aligned(probs, 16) and aligned(renormed_prob, 16):
       flashinfer::sampling::TopPRenormProbKernel<1024, "cub::BLOCK_REDUCE_WARP_REDUCTIONS", (min(16 // sizeof(T), 16 if d % 16 == 0 else 8 if d % 8 == 0 else 4 if d % 4 == 0 else 2 if d % 2 == 0 else 1)), T> grid=batch_size block=1024 shared=49152
           args=(probs, renormed_prob, top_p_arr, top_p_val, d)
*/
