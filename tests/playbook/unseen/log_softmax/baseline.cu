#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* @launch
   log_softmax<T> grid=rows block=128 args=(out, sums, x, n)
*/

__device__ float warp_max(float v) {
  for (int lanes = 16; lanes > 0; lanes >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, lanes));
  return v;
}

__device__ float warp_sum(float v) {
  for (int lanes = 16; lanes > 0; lanes >>= 1) v += __shfl_xor_sync(~0u, v, lanes);
  return v;
}

template <class E>
__global__ void log_softmax(E* out, float* sums, const E* x, int64_t n) {
  __shared__ float parts[32];
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const E* in = x + blockIdx.x * n;
  E* result = out + blockIdx.x * n;

  float mine = -3.402823466e+38f, total = 0;
  for (int64_t k = threadIdx.x; k < n; k += blockDim.x)
    if (mine < (float)in[k]) mine = (float)in[k];
  mine = warp_max(mine);
  if (threadIdx.x % 32 == 0) parts[warp] = mine;
  __syncthreads();
  float most = parts[0];
  for (int w = 1; w < warps; ++w) most = fmaxf(most, parts[w]);
  __syncthreads();

  for (int64_t k = threadIdx.x; k < n; k += blockDim.x) total += __expf((float)in[k] - most);
  total = warp_sum(total);
  if (threadIdx.x % 32 == 0) parts[warp] = total;
  __syncthreads();
  total = 0;
  for (int w = 0; w < warps; ++w) total += parts[w];
  const float log_sum = logf(total);
  if (threadIdx.x == 0) sums[blockIdx.x] = log_sum;

  for (int64_t k = threadIdx.x; k < n; k += blockDim.x)
    result[k] = (E)((float)in[k] - most - log_sum);
}
