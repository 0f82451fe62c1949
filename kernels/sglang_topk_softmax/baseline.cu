#include "moe_topk_softmax.cuh"

/* @launch
   sglang::topkGatingSoftmax<T, 8, num_experts, 4, 16>
       grid=ceil_div(ceil_div(num_tokens, 32 // (num_experts // 8)), 4) block=(32, 4)
       args=(gating_output, null, topk_weights, num_tokens, topk_indices, topk, 0, num_experts, renormalize, moe_softcapping, null)
*/
