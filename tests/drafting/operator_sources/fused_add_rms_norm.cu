#include <cuda_fp16.h>

constexpr float kEps = 1e-5f;

__device__ float block_sum(float v) {
  __shared__ float parts[32];
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(~0u, v, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  float total = 0.0f;
  for (int w = 0; w < blockDim.x / 32; ++w) total += parts[w];
  return total;
}

__global__ void fused_add_rms_norm(__half* input, __half* residual, const __half* weight, int d) {
  __half* x = input + blockIdx.x * (long long)d;
  __half* r = residual + blockIdx.x * (long long)d;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float z = __half2float(x[i]) + __half2float(r[i]);
    sum += z * z;
  }
  const float scale = rsqrtf(block_sum(sum) / d + kEps);
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float z = __half2float(x[i]) + __half2float(r[i]);
    r[i] = __float2half(z);
    x[i] = __float2half(z * scale * __half2float(weight[i]));
  }
}

void launch(__half* input, __half* residual, const __half* weight, int tokens, int d) {
  fused_add_rms_norm<<<tokens, 64>>>(input, residual, weight, d);
}
