#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* @launch
   layernorm<T> grid=rows block=128 args=(x, gamma, beta, out, n, eps)
*/

// Mean first, then the variance around it, then the result: three passes over the row.
template <class Real>
__global__ void layernorm(const Real* __restrict__ x, const Real* __restrict__ gamma,
                          const Real* __restrict__ beta, Real* __restrict__ out,
                          const int n, const float eps)
{
    __shared__ float buf[128];
    const int tid = threadIdx.x;
    const Real* in = x + (size_t)blockIdx.x * n;
    Real* result = out + (size_t)blockIdx.x * n;

    float acc = 0.f;
    for (int c = tid; c < n; c += blockDim.x)
        acc += (float)in[c];
    buf[tid] = acc;
    __syncthreads();
    for (int s = blockDim.x >> 1; s > 0; s >>= 1) {
        if (tid < s)
            buf[tid] = buf[tid] + buf[tid + s];
        __syncthreads();
    }
    const float mean = buf[0] / n;
    __syncthreads();

    float sq = 0.f;
    for (int c = tid; c < n; c += blockDim.x) {
        const float diff = (float)in[c] - mean;
        sq += diff * diff;
    }
    buf[tid] = sq;
    __syncthreads();
    for (int s = blockDim.x >> 1; s > 0; s >>= 1) {
        if (tid < s)
            buf[tid] = buf[tid] + buf[tid + s];
        __syncthreads();
    }
    const float deviation = sqrtf(buf[0] / n + eps);

    for (int c = tid; c < n; c += blockDim.x) {
        const float normal = ((float)in[c] - mean) / deviation;
        result[c] = (Real)(normal * (float)gamma[c] + (float)beta[c]);
    }
}
