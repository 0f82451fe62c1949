__device__ float silu(float x) { return x / (1.0f + expf(-x)); }

__global__ void silu_and_mul_kernel(float* out, const float* input, int d) {
  const float* row = input + blockIdx.x * 2 * d;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float gate = row[i], up = row[d + i];
    out[blockIdx.x * d + i] = silu(gate) * up;
  }
}

void launch(float* out, const float* input, int tokens, int d) {
  silu_and_mul_kernel<<<tokens, 64>>>(out, input, d);
}
