#include <cuda_runtime.h>
#include <cstdint>

static constexpr int BINS = 256;

__global__ void histogram(const uint8_t* __restrict__ pixels, unsigned int* __restrict__ counts,
                          long long n) {
  __shared__ unsigned int local[BINS];
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) local[b] = 0;
  __syncthreads();
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    atomicAdd(&local[pixels[i]], 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(counts + b, local[b]);
}

void count_pixels(const uint8_t* pixels, unsigned int* counts, long long n, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, BINS * sizeof(unsigned int), stream);
  int sm_count = 0;
  cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, 0);
  histogram<<<2 * sm_count, 256, 0, stream>>>(pixels, counts, n);
}
