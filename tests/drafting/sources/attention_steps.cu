// Three steps of a naive attention: scale and mask the scores, row statistics, weighted sum.
#include <cuda_runtime.h>
#include <float.h>
#include <math.h>

constexpr int kWarp = 32;
constexpr int kThreads = 4 * kWarp;
static const float kLog2e = 1.44269504f;

struct MaxOp {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  static constexpr float identity = -FLT_MAX;
};

struct SumOp {
  __device__ float operator()(float a, float b) const { return a + b; }
  static constexpr float identity = 0.0f;
};

template <typename Op>
__device__ float block_reduce(float v, Op op) {
  __shared__ float part[kThreads / kWarp];
  for (int d = kWarp / 2; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(~0u, v, d));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = v;
  __syncthreads();
  v = Op::identity;
  for (int w = 0; w < kThreads / kWarp; ++w) v = op(v, part[w]);
  return v;
}

// scores[q][k] = scores[q][k] * scale, or -inf above the diagonal
__global__ void scale_and_mask(float* scores, int queries, int keys, float scale, bool causal) {
  int k = blockIdx.x * blockDim.x + threadIdx.x;
  int q = blockIdx.y;
  if (k >= keys) return;
  float v = scores[q * keys + k] * scale;
  scores[q * keys + k] = causal && k > q ? -INFINITY : v;
}

// For each row the maximum, and the sum of exponentials relative to it.
__global__ void row_statistics(const float* __restrict__ scores, float* __restrict__ row_max,
                               float* __restrict__ row_sum, int keys) {
  const float* row = scores + static_cast<long long>(blockIdx.x) * keys;
  float top = -FLT_MAX;
  for (int k = threadIdx.x; k < keys; k += kThreads) top = fmaxf(top, row[k]);
  top = block_reduce(top, MaxOp());
  float sum = 0.0f;
  for (int k = threadIdx.x; k < keys; k += kThreads) sum += exp2f((row[k] - top) * kLog2e);
  sum = block_reduce(sum, SumOp());
  if (threadIdx.x == 0) {
    row_max[blockIdx.x] = top;
    row_sum[blockIdx.x] = sum;
  }
}

__global__ void weighted_sum(const float* scores, const float* row_max, const float* row_sum,
                             const float* values, float* out, int keys, int dim) {
  int q = blockIdx.x;
  for (int c = threadIdx.x; c < dim; c += blockDim.x) {
    float acc = 0.0f;
    for (int k = 0; k < keys; k++) {
      acc += expf(scores[q * keys + k] - row_max[q]) * values[k * dim + c];
    }
    out[q * dim + c] = acc / row_sum[q];
  }
}

void attention(float* scores, const float* v, float* out, float* mx, float* sm, int queries,
               int keys, int dim, cudaStream_t stream) {
  dim3 grid((keys + 255) / 256, queries);
  scale_and_mask<<<grid, 256, 0, stream>>>(scores, queries, keys, 1.0f / sqrtf((float)dim), true);
  row_statistics<<<queries, kThreads, 0, stream>>>(scores, mx, sm, keys);
  weighted_sum<<<queries, 64, 0, stream>>>(scores, mx, sm, v, out, keys, dim);
}
