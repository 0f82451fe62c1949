#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <stdint.h>

// Wide rows: a block keeps its place within a row and goes over rows, while asynchronous copies bring
// its part of the next row into shared memory. Other widths: one vector of the result a thread.

/* @launch
   let parts = ceil_div(d // 8, 256)
   when d % 8 == 0:
       act_and_mul_staged<T> grid=(min(rows, ceil_div(sm_count * 8, parts)), parts) block=256 pdl=true
           args=(out, input, d // 8, rows)
   when d % 4 == 0:
       act_and_mul<T, 4> grid=(rows, ceil_div(d // 4, 256)) block=256 pdl=true
           args=(out, input, d // 4)
   when d % 2 == 0:
       act_and_mul<T, 2> grid=(rows, ceil_div(d // 2, 256)) block=256 pdl=true
           args=(out, input, d // 2)
   otherwise:
       act_and_mul<T, 1> grid=(rows, ceil_div(d, 256)) block=256 pdl=true
           args=(out, input, d)
*/

template <typename T, int N>
struct alignas(N * sizeof(T)) Vector {
  T value[N];
};

__device__ __forceinline__ float silu(const float& x) { return x / (1.0f + __expf(-x)); }

template <typename T, int N>
__device__ __forceinline__ Vector<T, N> silu_and_mul(const Vector<T, N>& g, const Vector<T, N>& u) {
  Vector<T, N> result;
#pragma unroll
  for (int k = 0; k < N; ++k)
    result.value[k] = static_cast<T>(silu(static_cast<float>(g.value[k])) * static_cast<float>(u.value[k]));
  return result;
}

template <typename T>
__global__ void __launch_bounds__(256)
    act_and_mul_staged(T* __restrict__ out, const T* __restrict__ input, uint32_t vectors, uint32_t rows) {
  __shared__ Vector<T, 8> gates[2][256];
  __shared__ Vector<T, 8> ups[2][256];
  const uint32_t vector = blockIdx.y * 256 + threadIdx.x;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  if (vector >= vectors) return;
  const Vector<T, 8>* from = reinterpret_cast<const Vector<T, 8>*>(input) + vector;
  Vector<T, 8>* to = reinterpret_cast<Vector<T, 8>*>(out) + vector;
  const auto fetch = [&](uint32_t row, uint32_t stage) {
    const Vector<T, 8>* gate = from + static_cast<uint64_t>(row) * 2 * vectors;
    __pipeline_memcpy_async(&gates[stage][threadIdx.x], gate, 16);
    __pipeline_memcpy_async(&ups[stage][threadIdx.x], gate + vectors, 16);
  };
  fetch(blockIdx.x, 0);
  __pipeline_commit();
  uint32_t stage = 0;
  for (uint32_t row = blockIdx.x; row < rows; row += gridDim.x) {
    if (row + gridDim.x < rows) fetch(row + gridDim.x, stage ^ 1);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    to[static_cast<uint64_t>(row) * vectors] = silu_and_mul(gates[stage][threadIdx.x], ups[stage][threadIdx.x]);
    stage ^= 1;
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(256)
    act_and_mul(T* __restrict__ out, const T* __restrict__ input, uint32_t vectors) {
  const uint32_t vector = blockIdx.y * 256 + threadIdx.x;
  const uint64_t row = blockIdx.x;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  if (vector < vectors) {
    const Vector<T, N>* gate = reinterpret_cast<const Vector<T, N>*>(input) + row * 2 * vectors + vector;
    reinterpret_cast<Vector<T, N>*>(out)[row * vectors + vector] = silu_and_mul(gate[0], gate[vectors]);
  }
}
