// Only the kernel: one warp-sized block a row, rows `ld` elements apart.
__global__ void l2_normalize(const float* x, float* y, int d, int ldx) {
  const float* in = x + blockIdx.x * ldx;
  float sum = 0;
  for (int i = threadIdx.x; i < d; i += 32) sum += in[i] * in[i];
  for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(0xffffffff, sum, k);
  float scale = rsqrtf(sum + 1e-12f);
  for (int i = threadIdx.x; i < d; i += 32) y[blockIdx.x * d + i] = in[i] * scale;
}
