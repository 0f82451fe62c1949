__global__ void adamw_kernel(float* params, const float* grads, float* m, float* v, float learning_rate,
                             float beta1, float beta2, float beta1_correction,
                             float beta2_correction, float eps, float weight_decay, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float g = grads[i];
  m[i] = beta1 * m[i] + (1.0f - beta1) * g;
  v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
  const float first = m[i] / beta1_correction, second = v[i] / beta2_correction;
  params[i] -= learning_rate * (first / (sqrtf(second) + eps) + weight_decay * params[i]);
}

void launch(float* params, const float* grads, float* m, float* v, float lr, float beta1, float beta2,
            float beta1_correction, float beta2_correction, float eps, float weight_decay, int n) {
  adamw_kernel<<<(n + 127) / 128, 128>>>(params, grads, m, v, lr, beta1, beta2, beta1_correction,
                                         beta2_correction, eps, weight_decay, n);
}
