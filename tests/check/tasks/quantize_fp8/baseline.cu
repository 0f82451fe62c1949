// One kernel finds the scale of each row, a second one divides by it.

#include <cuda_fp16.h>
#include <cuda_fp8.h>

/* @launch
   find_scales<T> grid=tokens block=32 args=(scales, x, d, bound)
   quantize<T, float8_e4m3fn> grid=tokens block=64 args=(q, scales, x, d)
*/

template <typename T>
__global__ void find_scales(float* scales, const T* x, int d, float bound) {
  float top = 1e-5f;
  for (int i = threadIdx.x; i < d; i += 32) top = fmaxf(top, fabsf(float(x[size_t(blockIdx.x) * d + i])));
  for (int lane = 16; lane > 0; lane /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, lane));
  if (threadIdx.x == 0) scales[blockIdx.x] = fminf(top, bound) / 448.0f;
}

template <typename T, typename Q>
__global__ void quantize(Q* q, const float* scales, const T* x, int d) {
  const float scale = scales[blockIdx.x];
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    q[size_t(blockIdx.x) * d + i] = Q(float(x[size_t(blockIdx.x) * d + i]) / scale);
  }
}
