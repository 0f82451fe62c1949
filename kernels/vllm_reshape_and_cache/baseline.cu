#include "cache_kernels.cu"
#include <cuda_bf16.h>

/* @launch
   vllm::reshape_and_cache_flash_kernel<T, T, "vllm::Fp8KVCacheDataType::kAuto"> grid=num_tokens block=min(num_heads * head_size, 512)
       args=(key, value, key_cache, value_cache, slot_mapping, block_size * num_heads * head_size, num_heads * head_size, head_size, num_heads * head_size, num_heads * head_size, num_heads, head_size, block_size, null, null, 0)
*/
