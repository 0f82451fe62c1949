#include "moe/moe_align_sum_kernels.cu"

/* @launch
   let counters = max(num_experts, 32)
   let choices = num_tokens * topk
   when choices <= counters and num_experts <= 64:
       vllm::moe::moe_align_block_size_small_batch_expert_kernel<int32, 256>
           grid=1 block=256 + counters shared=4 * ((counters + 1) * num_experts + num_experts + 1)
           args=(topk_ids, sorted_token_ids, experts_ids, num_tokens_post_pad, null, num_experts, block_size, choices,
                 choices + num_experts * (block_size - 1), topk, false, null)
*/
