/* Softmax over the last axis of (B, T, V), one warp a row. */
#include <math.h>
#include <cuda_runtime.h>

#define WARP_SIZE 32

template<class U>
__host__ __device__ U cdiv(U dividend, U divisor) { return (dividend + divisor - 1) / divisor; }

__device__ float warpReduceMax(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val = fmaxf(val, __shfl_xor_sync(0xFFFFFFFF, val, offset));
    }
    return val;
}

__device__ float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    }
    return val;
}

__global__ void softmax_forward_kernel(float* probs, const float* logits, int B, int T, int V) {
    int warps = blockDim.x / WARP_SIZE;
    int idx = blockIdx.x * warps + threadIdx.x / WARP_SIZE;
    int lane = threadIdx.x % WARP_SIZE;
    if (idx >= B * T) { return; }
    const float* x = logits + idx * V;
    float* y = probs + idx * V;
    float maxval = -INFINITY;
    for (int i = lane; i < V; i += WARP_SIZE) { maxval = fmaxf(maxval, x[i]); }
    maxval = warpReduceMax(maxval);
    float sum = 0.0f;
    for (int i = lane; i < V; i += WARP_SIZE) { sum += expf(x[i] - maxval); }
    sum = warpReduceSum(sum);
    for (int i = lane; i < V; i += WARP_SIZE) { y[i] = expf(x[i] - maxval) / sum; }
}

void softmax_forward(float* probs, const float* logits, int B, int T, int V, int block_size) {
    const int grid_size = cdiv(B * T * WARP_SIZE, block_size);
    softmax_forward_kernel<<<grid_size, block_size>>>(probs, logits, B, T, V);
}
