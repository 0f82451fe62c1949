#include <cstdint>
#include <cuda_fp8.h>

__global__ void per_token_group_quant_fp8(const float* input, uint8_t* output_q, float* output_s,
                                          float eps, int group_size) {
  const float* x = input + blockIdx.x * group_size;
  float most = eps;
  for (int i = threadIdx.x; i < group_size; i += 32) most = fmaxf(most, fabsf(x[i]));
  for (int offset = 16; offset > 0; offset /= 2)
    most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
  const float scale = most / 448.0f;
  if (threadIdx.x == 0) output_s[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < group_size; i += 32)
    output_q[blockIdx.x * group_size + i] =
        __nv_cvt_float_to_fp8(x[i] / scale, __NV_SATFINITE, __NV_E4M3);
}

void launch(const float* input, uint8_t* output_q, float* output_s, int num_groups, int group_size) {
  per_token_group_quant_fp8<<<num_groups, 32>>>(input, output_q, output_s, 1e-10f, group_size);
}
