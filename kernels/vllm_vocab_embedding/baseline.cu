#include "vocab_parallel_embedding_kernels.cu"

/* @launch
   vllm::vocab_embedding::vocab_parallel_embedding_kernel<int32, uint32>
       grid=(min(ceil_div(vecs_per_row, 256), 256), min(num_tokens, 4 * sm_count)) block=256
       args=(out, input_ids, weight, num_tokens, vecs_per_row, first_row, first_row + rows_here, 0, 0, 0)
*/
