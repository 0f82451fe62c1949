#include "scaled_quant.cu"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

/* @launch
   tune threads = 512 in 64, 128, 256, 512, 1024
   vllm::static_scaled_int8_quant_kernel_own<"torch_type<T>", float32> grid=num_tokens block=min(hidden_size, threads)
        args=(input, output, scale, hidden_size) pdl=true
*/

// PyTorch's types of elements: its launchers instantiate kernels with them.
template <typename T> struct TorchType { using type = T; };
template <> struct TorchType<__half> { using type = c10::Half; };
template <> struct TorchType<__nv_bfloat16> { using type = c10::BFloat16; };
template <typename T> using torch_type = typename TorchType<T>::type;

// As in upstream/vllm-0.33.0/csrc/quantization/w8a8/int8/scaled_quant.cu at lines 99 to 117, under another name.
// vllm 0.33.0, Apache-2.0
namespace vllm {
template <typename scalar_t, typename scale_t>
__global__ void static_scaled_int8_quant_kernel_own(
    const scalar_t* __restrict__ input, int8_t* __restrict__ output,
    const scale_t* scale_ptr, const int hidden_size) {
  const int tid = threadIdx.x;
  const int stride = blockDim.x;
  const int64_t token_idx = blockIdx.x;
  cudaGridDependencySynchronize();
  const float scale = *scale_ptr;

  // Must be performed using 64-bit math to avoid integer overflow.
  const scalar_t* row_in = input + token_idx * hidden_size;
  int8_t* row_out = output + token_idx * hidden_size;

  vectorize_with_alignment<16>(
      row_in, row_out, hidden_size, tid, stride,
      [=] __device__(int8_t& dst, const scalar_t& src) {
        dst = float_to_int8_rn(__fdividef(static_cast<float>(src), scale));
      });
  cudaTriggerProgrammaticLaunchCompletion();
}
}  // namespace vllm
