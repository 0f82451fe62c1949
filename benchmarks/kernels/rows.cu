// Six kernels for timing the emulator: the activation in three widths, a row norm with two kinds of
// reduction, and a merge. Written for the benchmark; the project's own tasks are in kernels/.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float gated(float g, float u) { return g / (1.0f + __expf(-g)) * u; }

__global__ void silu_scalar(__half* out, const __half* in, int d) {
  const long long row = blockIdx.x;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    out[row * d + i] =
        __float2half(gated(__half2float(in[row * 2 * d + i]), __half2float(in[row * 2 * d + d + i])));
  }
}

__global__ void silu_half2(__half2* out, const __half2* in, int d2) {
  const long long row = blockIdx.x;
  for (int i = threadIdx.x; i < d2; i += blockDim.x) {
    const float2 g = __half22float2(in[row * 2 * d2 + i]);
    const float2 u = __half22float2(in[row * 2 * d2 + d2 + i]);
    out[row * d2 + i] = __floats2half2_rn(gated(g.x, u.x), gated(g.y, u.y));
  }
}

__global__ void silu_128bit(uint4* out, const uint4* in, int d8) {
  const long long row = blockIdx.x;
  for (int i = threadIdx.x; i < d8; i += blockDim.x) {
    uint4 g = in[row * 2 * d8 + i], u = in[row * 2 * d8 + d8 + i], r;
    const __half* gh = reinterpret_cast<const __half*>(&g);
    const __half* uh = reinterpret_cast<const __half*>(&u);
    __half* rh = reinterpret_cast<__half*>(&r);
#pragma unroll
    for (int k = 0; k < 8; ++k) rh[k] = __float2half(gated(__half2float(gh[k]), __half2float(uh[k])));
    out[row * d8 + i] = r;
  }
}

__global__ void norm_tree(__half* x, __half* residual, const __half* weight, int d, float eps) {
  __shared__ float part[256];
  const long long row = (long long)blockIdx.x * d;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += 256) {
    const float z = __half2float(x[row + i]) + __half2float(residual[row + i]);
    residual[row + i] = __float2half(z);
    sum += z * z;
  }
  part[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll
  for (int half = 128; half > 0; half >>= 1) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  const float scale = rsqrtf(part[0] / d + eps);
  for (int i = threadIdx.x; i < d; i += 256) {
    x[row + i] = __float2half(__half2float(residual[row + i]) * scale * __half2float(weight[i]));
  }
}

__device__ __forceinline__ float over_warp(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

__global__ void norm_shuffle(__half2* x, __half2* residual, const __half2* weight, int d2, float eps) {
  extern __shared__ float kept[];
  __shared__ float part[32];
  const long long row = (long long)blockIdx.x * d2;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < d2; i += blockDim.x) {
    const float2 a = __half22float2(x[row + i]), b = __half22float2(residual[row + i]);
    const float2 z = make_float2(a.x + b.x, a.y + b.y);
    residual[row + i] = __floats2half2_rn(z.x, z.y);
    reinterpret_cast<float2*>(kept)[i] = z;
    sum = fmaf(z.x, z.x, fmaf(z.y, z.y, sum));
  }
  sum = over_warp(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = over_warp(threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0.0f);
  const float scale = rsqrtf(sum / (2 * d2) + eps);
  for (int i = threadIdx.x; i < d2; i += blockDim.x) {
    const float2 z = reinterpret_cast<float2*>(kept)[i], w = __half22float2(weight[i]);
    x[row + i] = __floats2half2_rn(z.x * scale * w.x, z.y * scale * w.y);
  }
}

__global__ void merge(uint4* out, float* s_out, const uint4* a, const float* s_a, const uint4* b,
                      const float* s_b, int pairs, int pieces) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= pairs * pieces) return;
  const int pair = index / pieces;
  const float top = fmaxf(s_a[pair], s_b[pair]);
  const float ea = __expf(s_a[pair] - top), eb = __expf(s_b[pair] - top), total = ea + eb;
  uint4 x = a[index], y = b[index], r;
  const __nv_bfloat162* xh = reinterpret_cast<const __nv_bfloat162*>(&x);
  const __nv_bfloat162* yh = reinterpret_cast<const __nv_bfloat162*>(&y);
  __nv_bfloat162* rh = reinterpret_cast<__nv_bfloat162*>(&r);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 u = __bfloat1622float2(xh[k]), v = __bfloat1622float2(yh[k]);
    rh[k] = __floats2bfloat162_rn((u.x * ea + v.x * eb) / total, (u.y * ea + v.y * eb) / total);
  }
  out[index] = r;
  if (index % pieces == 0) s_out[pair] = __logf(total) + top;
}
