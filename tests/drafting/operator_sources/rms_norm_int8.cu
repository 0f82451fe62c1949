#include <cstdint>

__global__ void rms_norm_dynamic_per_token_quant(int8_t* out, float* scales, const float* input,
                                                 const float* weight, float epsilon, int hidden) {
  const float* x = input + blockIdx.x * hidden;
  float sum = 0.0f, most = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += 32) sum += x[i] * x[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  const float r = rsqrtf(sum / hidden + epsilon);
  for (int i = threadIdx.x; i < hidden; i += 32) most = fmaxf(most, fabsf(x[i] * r * weight[i]));
  for (int offset = 16; offset > 0; offset /= 2)
    most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
  const float scale = most / 127.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < hidden; i += 32) {
    const float q = scale > 0.0f ? x[i] * r * weight[i] / scale : 0.0f;
    out[blockIdx.x * hidden + i] = (int8_t)rintf(fminf(fmaxf(q, -128.0f), 127.0f));
  }
}

void launch(int8_t* out, float* scales, const float* input, const float* weight, int tokens,
            int hidden) {
  rms_norm_dynamic_per_token_quant<<<tokens, 32>>>(out, scales, input, weight, 1e-5f, hidden);
}
