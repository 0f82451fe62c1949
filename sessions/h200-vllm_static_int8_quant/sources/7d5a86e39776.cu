#include "scaled_quant.cu"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

/* @launch
   vllm::static_scaled_int8_quant_kernel<"torch_type<T>", float32> grid=num_tokens block=min(hidden_size, 256)
       args=(input, output, scale, hidden_size)
*/

// PyTorch's types of elements: its launchers instantiate kernels with them.
template <typename T> struct TorchType { using type = T; };
template <> struct TorchType<__half> { using type = c10::Half; };
template <> struct TorchType<__nv_bfloat16> { using type = c10::BFloat16; };
template <typename T> using torch_type = typename TorchType<T>::type;
