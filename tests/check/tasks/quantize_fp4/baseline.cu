// A thread has 16 elements, and writes them as eight pairs.

#include <cuda_fp16.h>
#include <cuda_fp4.h>

/* @launch
   when d % 16 == 0 and d >= 16:
       quantize<T> grid=tokens block=32 args=(q, scales, x, offsets, d)
*/

template <typename T>
__global__ void quantize(__nv_fp4x2_e2m1* q, float* scales, const T* x,
                         const __nv_fp4x2_e2m1* offsets, int d) {
  for (int group = threadIdx.x; group < d / 16; group += 32) {
    float moved[16], top = 1e-5f;
    for (int k = 0; k < 16; k += 2) {
      const float2 offset = float2(offsets[(group * 16 + k) / 2]);
      moved[k] = float(x[size_t(blockIdx.x) * d + group * 16 + k]) + offset.x;
      moved[k + 1] = float(x[size_t(blockIdx.x) * d + group * 16 + k + 1]) + offset.y;
      top = fmaxf(top, fmaxf(fabsf(moved[k]), fabsf(moved[k + 1])));
    }
    const float scale = top / 6.0f;
    scales[size_t(blockIdx.x) * (d / 16) + group] = scale;
    for (int k = 0; k < 16; k += 2) {
      const float2 pair = make_float2(moved[k] / scale, moved[k + 1] / scale);
      q[(size_t(blockIdx.x) * d + group * 16 + k) / 2] = __nv_fp4x2_e2m1(pair);
    }
  }
}
