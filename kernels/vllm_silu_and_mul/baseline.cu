#include "activation_kernels.cu"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

/* @launch
   when d % (16 // sizeof(T)) == 0 and aligned(out, 16) and aligned(input, 16) and (2 * d) % 8 == 0:
       vllm::act_and_mul_kernel<"torch_type<T>", "typename vllm::PackedTypeConverter<torch_type<T>>::Type", "vllm::silu_kernel<torch_type<T>>", "vllm::packed_silu_kernel<typename vllm::PackedTypeConverter<torch_type<T>>::Type>", "true", "true", "false", "false"> grid=num_tokens block=min(d // (16 // sizeof(T)), 1024)
           args=(out, input, d, limit, alpha, beta)
*/

// PyTorch's types of elements: its launchers instantiate kernels with them.
template <typename T> struct TorchType { using type = T; };
template <> struct TorchType<__half> { using type = c10::Half; };
template <> struct TorchType<__nv_bfloat16> { using type = c10::BFloat16; };
template <typename T> using torch_type = typename TorchType<T>::type;
