#include "moe/moe_align_sum_kernels.cu"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

/* @launch
   vllm::moe::moe_sum_scalar_kernel<"torch_type<T>", int32, "false"> grid=num_tokens block=min(d, 1024)
       args=(out, input, d, topk, stride(input, 0), stride(input, 1), 1, null, null, 0, 0)
*/

// PyTorch's types of elements: its launchers instantiate kernels with them.
template <typename T> struct TorchType { using type = T; };
template <> struct TorchType<__half> { using type = c10::Half; };
template <> struct TorchType<__nv_bfloat16> { using type = c10::BFloat16; };
template <typename T> using torch_type = typename TorchType<T>::type;
