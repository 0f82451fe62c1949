#include "pos_encoding_kernels.cu"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

/* @launch
   vllm::rotary_embedding_kernel<"torch_type<T>", "torch_type<T>", "true"> grid=num_tokens block=min(num_heads * rot_dim // 2, 512)
       args=(positions, query, key, cos_sin_cache, rot_dim, num_heads * head_size, num_kv_heads * head_size, head_size, num_heads, num_kv_heads, head_size, 0, false)
*/

// PyTorch's types of elements: its launchers instantiate kernels with them.
template <typename T> struct TorchType { using type = T; };
template <> struct TorchType<__half> { using type = c10::Half; };
template <> struct TorchType<__nv_bfloat16> { using type = c10::BFloat16; };
template <typename T> using torch_type = typename TorchType<T>::type;
