#include <algorithm>
#include <cuda_runtime.h>

struct Partial {
  float total;
  unsigned count;
};

// Sums and counts of what is above zero, by warp.
template <bool kDoubles>
__global__ void above(const float* x, float* totals, float* counts, int n, int lanes, int share) {
  extern __shared__ Partial parts[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  parts[threadIdx.x] = {i < n ? max(x[i], 0.f) * (kDoubles ? 2 : 1) : 0.f, i < n && x[i] > 0.f};
  __syncthreads();
  if (i < n) {
    totals[i] = parts[threadIdx.x / lanes * lanes].total;
    counts[i] = parts[threadIdx.x / lanes * lanes].count * share;
  }
}

inline dim3 blocks_for(int work, int threads) {
  int blocks = (work + threads - 1) / threads;
  blocks = std::min(blocks, 1024);
  return dim3(blocks);
}

inline void measure(int n, int& share) { share = n / 7; }

void launch(const float* x, float* out, int n, bool doubles) {
  const int lanes = 32;
  int share = 1;
  measure(n, share);
  float* totals = out;
  float* counts = totals + n;
  dim3 grid = blocks_for(n, 128);
  if (doubles) {
    constexpr bool kTwice = true;
    above<kTwice><<<grid, 128, std::max({128, 64}) * sizeof(Partial)>>>(x, totals, counts, n, lanes, share);
  } else {
    constexpr bool kTwice = false;
    above<kTwice><<<grid, 128, std::max({128, 64}) * sizeof(Partial)>>>(x, totals, counts, n, lanes, share);
  }
}
