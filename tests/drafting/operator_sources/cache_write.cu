#include <cstdint>

__global__ void store_kv_cache(const float* key, const float* value, float* key_cache,
                               float* value_cache, const int64_t* slot_mapping, int num_slots,
                               int width) {
  const int64_t slot = slot_mapping[blockIdx.x];
  if (slot < 0 || slot >= num_slots) return;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    key_cache[slot * width + i] = key[blockIdx.x * width + i];
    value_cache[slot * width + i] = value[blockIdx.x * width + i];
  }
}

void launch(const float* key, const float* value, float* key_cache, float* value_cache,
            const int64_t* slot_mapping, int tokens, int num_slots, int width) {
  store_kv_cache<<<tokens, 64>>>(key, value, key_cache, value_cache, slot_mapping, num_slots, width);
}
