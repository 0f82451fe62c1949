#include <cstdint>

__device__ void turn(float* head, const float* cos_sin, int i, int rot_dim) {
  const int half_dim = rot_dim / 2;
  const float c = cos_sin[i], s = cos_sin[half_dim + i];
  const float x = head[i], y = head[half_dim + i];
  head[i] = x * c - y * s;
  head[half_dim + i] = y * c + x * s;
}

__global__ void rotary_embedding_neox_kernel(const int64_t* positions, float* query, float* key,
                                             const float* cos_sin_cache, int rot_dim, int num_heads,
                                             int num_kv_heads, int head_size) {
  const float* row = cos_sin_cache + positions[blockIdx.x] * rot_dim;
  const int half_dim = rot_dim / 2;
  for (int i = threadIdx.x; i < num_heads * half_dim; i += blockDim.x) {
    float* head = query + (blockIdx.x * num_heads + i / half_dim) * head_size;
    turn(head, row, i % half_dim, rot_dim);
  }
  for (int i = threadIdx.x; i < num_kv_heads * half_dim; i += blockDim.x) {
    float* head = key + (blockIdx.x * num_kv_heads + i / half_dim) * head_size;
    turn(head, row, i % half_dim, rot_dim);
  }
}

void launch(const int64_t* positions, float* query, float* key, const float* cos_sin_cache,
            int num_tokens, int rot_dim, int num_heads, int num_kv_heads, int head_size) {
  rotary_embedding_neox_kernel<<<num_tokens, 64>>>(positions, query, key, cos_sin_cache, rot_dim,
                                                   num_heads, num_kv_heads, head_size);
}
