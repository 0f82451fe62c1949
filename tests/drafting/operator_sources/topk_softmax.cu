#include <cstdint>

__global__ void topk_softmax(const float* gating_output, float* topk_weights, int* topk_indices,
                             bool renormalize, int num_experts, int k) {
  const float* x = gating_output + blockIdx.x * num_experts;
  float* weights = topk_weights + blockIdx.x * k;
  int* indices = topk_indices + blockIdx.x * k;
  if (threadIdx.x != 0) return;
  float most = -INFINITY, sum = 0.0f, chosen = 0.0f;
  for (int e = 0; e < num_experts; ++e) most = fmaxf(most, x[e]);
  for (int e = 0; e < num_experts; ++e) sum += expf(x[e] - most);
  for (int i = 0; i < k; ++i) {
    int best = -1;
    for (int e = 0; e < num_experts; ++e) {
      bool taken = false;
      for (int j = 0; j < i; ++j) taken = taken || indices[j] == e;
      if (!taken && (best < 0 || x[e] > x[best])) best = e;
    }
    indices[i] = best;
    weights[i] = expf(x[best] - most) / sum;
    chosen += weights[i];
  }
  if (renormalize)
    for (int i = 0; i < k; ++i) weights[i] /= chosen;
}

void launch(const float* gating_output, float* topk_weights, int* topk_indices, bool renormalize,
            int tokens, int num_experts, int k) {
  topk_softmax<<<tokens, 32>>>(gating_output, topk_weights, topk_indices, renormalize, num_experts,
                               k);
}
