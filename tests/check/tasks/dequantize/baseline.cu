// 16 bytes of fp8 at a time where rows and addresses allow, single elements elsewhere.

#include <cuda_fp8.h>

/* @launch
   let width = 16 // sizeof(T)
   when d % width == 0 and aligned(x, 16):
       wide<T, width> grid=tokens block=32 args=(y, x, scales, d)
   otherwise:
       plain<T> grid=tokens block=32 args=(y, x, scales, d)
*/

template <typename T>
__global__ void plain(float* y, const T* x, const float* scales, int d) {
  for (int i = threadIdx.x; i < d; i += 32) {
    y[size_t(blockIdx.x) * d + i] = float(x[size_t(blockIdx.x) * d + i]) * scales[blockIdx.x];
  }
}

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

template <typename T, int N>
__global__ void wide(float* y, const T* x, const float* scales, int d) {
  const Pack<T, N>* row = reinterpret_cast<const Pack<T, N>*>(x + size_t(blockIdx.x) * d);
  for (int i = threadIdx.x; i < d / N; i += 32) {
    const Pack<T, N> p = row[i];
    for (int k = 0; k < N; ++k) {
      y[size_t(blockIdx.x) * d + i * N + k] = float(p.value[k]) * scales[blockIdx.x];
    }
  }
}
