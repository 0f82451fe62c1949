#include <cuda_runtime.h>
#include <iostream>

template <int TILE>
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K, float alpha) {
  __shared__ float As[TILE][TILE];
  __shared__ float Bs[TILE][TILE];
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  float acc = 0.0f;
  for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
    const int ka = t * TILE + threadIdx.x;
    const int kb = t * TILE + threadIdx.y;
    As[threadIdx.y][threadIdx.x] = (row < M && ka < K) ? A[row * K + ka] : 0.0f;
    Bs[threadIdx.y][threadIdx.x] = (kb < K && col < N) ? B[kb * N + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = alpha * acc;
}

int main(int argc, char** argv) {
  int m = 512, n = 768, k = 256;
  float *a, *b, *c;
  cudaMallocManaged(&a, m * k * sizeof(float));
  cudaMallocManaged(&b, k * n * sizeof(float));
  cudaMallocManaged(&c, m * n * sizeof(float));
  constexpr int tile = 16;
  dim3 block(tile, tile);
  dim3 grid((n + block.x - 1) / block.x, (m + block.y - 1) / block.y);
  matmul<tile><<<grid, block>>>(a, b, c, m, n, k, 1.0f);
  cudaDeviceSynchronize();
  std::cout << c[0] << "\n";
}
