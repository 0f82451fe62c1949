#include "moe/moe_align_sum_kernels.cu"

/* @launch
   when max_tokens_per_batch >= max(256, 8 * num_batches):
       vllm::moe::batched_moe_align_block_size::batched_moe_align_block_size_kernel<true> grid=1 block=1024
           args=(num_batches, max_tokens_per_batch, block_size, batch_num_tokens, sorted_ids, block_ids, num_tokens_post_pad)
   otherwise:
       vllm::moe::batched_moe_align_block_size::batched_moe_align_block_size_kernel<false> grid=1 block=1024
           args=(num_batches, max_tokens_per_batch, block_size, batch_num_tokens, sorted_ids, block_ids, num_tokens_post_pad)
*/
