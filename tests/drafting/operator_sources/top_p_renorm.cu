__global__ void top_p_renorm_prob(const float* probs, float* renormed_prob, float top_p, int d) {
  const float* row = probs + blockIdx.x * d;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    float above = 0.0f, kept = 0.0f;
    for (int j = 0; j < d; ++j)
      if (row[j] > row[i]) above += row[j];
    for (int j = 0; j < d; ++j) {
      float before = 0.0f;
      for (int l = 0; l < d; ++l)
        if (row[l] > row[j]) before += row[l];
      if (before < top_p) kept += row[j];
    }
    renormed_prob[blockIdx.x * d + i] = above < top_p ? row[i] / kept : 0.0f;
  }
}

void launch(const float* probs, float* renormed_prob, float top_p, int rows, int d) {
  top_p_renorm_prob<<<rows, 64>>>(probs, renormed_prob, top_p, d);
}
