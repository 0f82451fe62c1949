#include "quantization/w8a8/fp8/per_token_group_quant.cu"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Float8_e4m3fn.h>
#include <torch/headeronly/util/Half.h>

/* @launch
   let groups = num_tokens * hidden_size // 128
   per_token_group_quant_8bit_register_kernel<"torch_type<T>", "c10::Float8_e4m3fn", false, false> grid=ceil_div(groups, 32) block=256 pdl=true
       args=(input, output_q, output_s, groups, 1e-10, -448.0, 448.0, hidden_size // 128, 1)
*/

// PyTorch's types of elements: its launchers instantiate kernels with them.
template <typename T> struct TorchType { using type = T; };
template <> struct TorchType<__half> { using type = c10::Half; };
template <> struct TorchType<__nv_bfloat16> { using type = c10::BFloat16; };
template <typename T> using torch_type = typename TorchType<T>::type;
