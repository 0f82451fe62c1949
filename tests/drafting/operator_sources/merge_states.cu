__global__ void merge_state_kernel(const float* v_a, const float* s_a, const float* v_b,
                                   const float* s_b, float* v_merged, float* s_merged, int num_heads,
                                   int head_dim) {
  const int at = blockIdx.x * num_heads + blockIdx.y;
  const float top = fmaxf(s_a[at], s_b[at]);
  const float a = exp2f(s_a[at] - top), b = exp2f(s_b[at] - top);
  for (int i = threadIdx.x; i < head_dim; i += blockDim.x)
    v_merged[at * head_dim + i] = (a * v_a[at * head_dim + i] + b * v_b[at * head_dim + i]) / (a + b);
  if (threadIdx.x == 0) s_merged[at] = top + log2f(a + b);
}

void launch(const float* v_a, const float* s_a, const float* v_b, const float* s_b, float* v_merged,
            float* s_merged, int tokens, int num_heads, int head_dim) {
  merge_state_kernel<<<dim3(tokens, num_heads), 32>>>(v_a, s_a, v_b, s_b, v_merged, s_merged,
                                                      num_heads, head_dim);
}
