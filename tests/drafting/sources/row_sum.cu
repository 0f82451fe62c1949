#include <cuda_runtime.h>
#include <cuda_runtime_api.h>
#include <cstdio>

// Sums each row with a tree in dynamic shared memory. blockDim.x must be a power of two.
__global__ void row_sum(const float* matrix, float* sums, int cols) {
  extern __shared__ float scratch[];
  unsigned int tid = threadIdx.x;
  const float* row = matrix + blockIdx.x * cols;
  float mine = 0.0f;
  for (int c = tid; c < cols; c += blockDim.x) {
    mine += row[c];
  }
  scratch[tid] = mine;
  __syncthreads();
  for (unsigned int s = blockDim.x >> 1; s > 0; s >>= 1) {
    if (tid < s) {
      scratch[tid] += scratch[tid + s];
    }
    __syncthreads();
  }
  if (tid == 0) {
    sums[blockIdx.x] = scratch[0];
  }
}

int main() {
  const int rows = 4096;
  const int cols = 1 << 10;
  size_t bytes = rows * cols * sizeof(float);
  float *d_matrix, *d_sums;
  cudaMalloc(&d_matrix, bytes);
  cudaMalloc(&d_sums, rows * sizeof(float));
  int block_size = 256;
  int shared = block_size * sizeof(float);
  row_sum<<<rows, block_size, shared>>>(d_matrix, d_sums, cols);
  cudaDeviceSynchronize();
  float check[4];
  cudaMemcpy(check, d_sums, sizeof(check), cudaMemcpyDeviceToHost);
  printf("%f\n", check[0]);
}
