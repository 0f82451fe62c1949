// RMSNorm with a given scale, rounded to fp8, the simple way: scalar accesses, a tree reduction in
// shared memory, the row read twice.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdint.h>

/* @launch
   rmsnorm_quant<T> grid=batch_size block=256
       args=(input, weight, output, d, stride(input, 0), stride(output, 0), weight_bias, scale, eps)
*/

template <typename T>
__global__ void rmsnorm_quant(const T* __restrict__ input, const T* __restrict__ weight,
                              __nv_fp8_e4m3* __restrict__ output, int d, int64_t input_stride,
                              int64_t output_stride, float weight_bias,
                              const float* __restrict__ scale, float eps) {
  __shared__ float partial[256];
  const T* row = input + blockIdx.x * input_stride;
  __nv_fp8_e4m3* result = output + blockIdx.x * output_stride;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float x = (float)row[i];
    sum += x * x;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }

  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float factor = 1.0f / sqrtf(partial[0] / d + eps);
    const float x = (float)row[i] * factor * (weight_bias + (float)weight[i]) / scale[0];
    result[i] = (__nv_fp8_e4m3)fmaxf(-448.0f, fminf(x, 448.0f));
  }
}
