#include "activation_kernels.cu"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

/* @launch
   when d % (16 // sizeof(T)) == 0 and aligned(out, 16) and aligned(input, 16):
       vllm::activation_kernel<"torch_type<T>", "vllm::gelu_new_kernel<torch_type<T>>", "true", "false"> grid=num_tokens block=min(d // (16 // sizeof(T)), 1024)
           args=(out, input, d)
*/

// PyTorch's types of elements: its launchers instantiate kernels with them.
template <typename T> struct TorchType { using type = T; };
template <> struct TorchType<__half> { using type = c10::Half; };
template <> struct TorchType<__nv_bfloat16> { using type = c10::BFloat16; };
template <typename T> using torch_type = typename TorchType<T>::type;
