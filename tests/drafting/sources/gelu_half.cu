// A stand-alone benchmark of GELU: kernel, launcher and main() in one file.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <chrono>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                        \
  do {                                                                     \
    cudaError_t status = (call);                                           \
    if (status != cudaSuccess) {                                           \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

// tanh approximation, as in the original paper
__device__ __forceinline__ float gelu(float v) {
  const float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
  return 0.5f * v * (1.0f + tanhf(inner));
}

template <typename T>
__global__ void gelu_kernel(const T* __restrict__ x, T* __restrict__ y, int n) {
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    y[i] = (T)gelu((float)x[i]);
  }
}

template <typename T>
void launch_gelu(const T* x, T* y, int count, cudaStream_t stream = 0) {
  const int threads = 256;
  const int blocks = std::min((count + threads - 1) / threads, 1024);
  gelu_kernel<T><<<blocks, threads, 0, stream>>>(x, y, count);
  CHECK(cudaGetLastError());
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
  std::vector<__half> host(n);
  for (int i = 0; i < n; ++i) host[i] = __float2half((float)rand() / RAND_MAX - 0.5f);
  __half *d_x, *d_y;
  CHECK(cudaMalloc(&d_x, n * sizeof(__half)));
  CHECK(cudaMalloc(&d_y, n * sizeof(__half)));
  CHECK(cudaMemcpy(d_x, host.data(), n * sizeof(__half), cudaMemcpyHostToDevice));
  auto begin = std::chrono::steady_clock::now();
  for (int k = 0; k < 100; ++k) launch_gelu<__half>(d_x, d_y, n);
  CHECK(cudaDeviceSynchronize());
  auto end = std::chrono::steady_clock::now();
  printf("%.3f us\n", std::chrono::duration<double, std::micro>(end - begin).count() / 100);
  cudaFree(d_x);
  cudaFree(d_y);
  return 0;
}
