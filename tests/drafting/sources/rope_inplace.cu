// Rotary embedding, NeoX style, in place on q and k.
#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include "dispatch_utils.h"

namespace ops {

template <typename scalar_t>
__device__ inline void rotate_pair(scalar_t* __restrict__ arr, const scalar_t* __restrict__ cos_ptr,
                                   const scalar_t* __restrict__ sin_ptr, int offset, int half_dim) {
  const int x_index = offset;
  const int y_index = half_dim + offset;
  const float c = static_cast<float>(cos_ptr[offset]);
  const float s = static_cast<float>(sin_ptr[offset]);
  const float x = static_cast<float>(arr[x_index]);
  const float y = static_cast<float>(arr[y_index]);
  arr[x_index] = static_cast<scalar_t>(x * c - y * s);
  arr[y_index] = static_cast<scalar_t>(y * c + x * s);
}

template <typename scalar_t>
__global__ void rope_kernel(const int64_t* __restrict__ positions,  // [num_tokens]
                            scalar_t* __restrict__ query,           // [num_tokens, num_heads * head_size]
                            const scalar_t* __restrict__ cos_sin,   // [max_position, rot_dim]
                            const int rot_dim, const int64_t query_stride, const int num_heads,
                            const int head_size) {
  const int token = blockIdx.x;
  const int64_t pos = positions[token];
  const scalar_t* cache = cos_sin + pos * rot_dim;
  const int half_dim = rot_dim / 2;
  const int n = num_heads * half_dim;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int head = i / half_dim;
    const int64_t at = token * query_stride + head * head_size;
    rotate_pair(query + at, cache, cache + half_dim, i % half_dim, half_dim);
  }
}

}  // namespace ops

void rotary_embedding(torch::Tensor& positions, torch::Tensor& query, int64_t head_size,
                      torch::Tensor& cos_sin_cache) {
  const int64_t num_tokens = positions.numel();
  const int rot_dim = cos_sin_cache.size(1);
  const int num_heads = query.size(-1) / head_size;
  const int64_t query_stride = query.stride(-2);
  dim3 grid(num_tokens);
  dim3 block(std::min<int64_t>(num_heads * rot_dim / 2, 512));
  const at::cuda::OptionalCUDAGuard device_guard(device_of(query));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  VLLM_DISPATCH_FLOATING_TYPES(query.scalar_type(), "rotary_embedding", [&] {
    ops::rope_kernel<scalar_t><<<grid, block, 0, stream>>>(
        positions.data_ptr<int64_t>(), query.data_ptr<scalar_t>(),
        cos_sin_cache.data_ptr<scalar_t>(), rot_dim, query_stride, num_heads, head_size);
  });
}
