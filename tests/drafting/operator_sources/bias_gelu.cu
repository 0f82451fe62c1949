__global__ void bias_gelu_kernel(float* out, const float* x, const float* bias, int d) {
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float v = x[blockIdx.x * d + i] + bias[i];
    out[blockIdx.x * d + i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
  }
}

void launch(float* out, const float* x, const float* bias, int rows, int d) {
  bias_gelu_kernel<<<rows, 64>>>(out, x, bias, d);
}
