#include "quantization/w8a8/fp8/common.cu"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Float8_e4m3fn.h>
#include <torch/headeronly/util/Half.h>

/* @launch
   vllm::dynamic_per_token_scaled_fp8_quant_kernel_strided<"torch_type<T>", "c10::Float8_e4m3fn"> grid=num_tokens block=min(hidden_size, 256)
       args=(out, scale, input, scale_ub, hidden_size, stride(input, 0), stride(out, 0))
*/

// PyTorch's types of elements: its launchers instantiate kernels with them.
template <typename T> struct TorchType { using type = T; };
template <> struct TorchType<__half> { using type = c10::Half; };
template <> struct TorchType<__nv_bfloat16> { using type = c10::BFloat16; };
template <typename T> using torch_type = typename TorchType<T>::type;
