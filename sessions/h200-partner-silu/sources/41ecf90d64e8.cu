#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

// One vector of the result a thread, as wide as d allows. Rows along x, vectors of a row along y: no
// division, and the number of blocks follows the bytes and not the rows. The next launch is let in right
// after the wait: its blocks are placed where this one's end, and wait there in their turn.

/* @launch
   when d % 8 == 0:
       act_and_mul<T, 8> grid=(rows, ceil_div(d // 8, 256)) block=256 pdl=true
           args=(out, input, d // 8)
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
__global__ void __launch_bounds__(256)
    act_and_mul(T* __restrict__ out, const T* __restrict__ input, uint32_t vectors) {
  const uint32_t vector = blockIdx.y * 256 + threadIdx.x;
  const uint64_t row = blockIdx.x;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  if (vector < vectors) {
    const Vector<T, N>* gate = reinterpret_cast<const Vector<T, N>*>(input) + row * 2 * vectors + vector;
    const Vector<T, N> g = gate[0];
    const Vector<T, N> u = gate[vectors];
    Vector<T, N> result;
#pragma unroll
    for (int k = 0; k < N; ++k)
      result.value[k] = static_cast<T>(silu(static_cast<float>(g.value[k])) * static_cast<float>(u.value[k]));
    reinterpret_cast<Vector<T, N>*>(out)[row * vectors + vector] = result;
  }
}
