// cuRAND's Philox4x32-10 generator, bit for bit: Salmon et al., Parallel random numbers: as easy as
// 1, 2, 3 (SC 2011). cuRAND's other generators and distributions are not here.
#pragma once
#include <curand.h>
struct curandStatePhilox4_32_10 {
  uint4 ctr, output;
  uint2 key;
  unsigned int STATE;
};
using curandStatePhilox4_32_10_t = curandStatePhilox4_32_10;
// The other generators are named in declarations, and have no code here.
struct curandStateXORWOW;
using curandState = curandStateXORWOW;
using curandState_t = curandStateXORWOW;
using curandStateXORWOW_t = curandStateXORWOW;

__device__ __forceinline__ uint4 astra_philox(uint4 c, uint2 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned int high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    const unsigned int high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    c = make_uint4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return c;
}
__device__ __forceinline__ void astra_philox_count(uint4* counter, unsigned long long steps) {
  const unsigned long long low = counter->x | (unsigned long long)counter->y << 32;
  counter->x = (unsigned int)(low + steps);
  counter->y = (unsigned int)((low + steps) >> 32);
  if (low + steps < low && ++counter->z == 0) ++counter->w;
}
__device__ __forceinline__ void skipahead(unsigned long long n, curandStatePhilox4_32_10_t* state) {
  n += state->STATE;
  astra_philox_count(&state->ctr, n / 4);
  state->STATE = n % 4;
  state->output = astra_philox(state->ctr, state->key);
}
__device__ __forceinline__ void skipahead_sequence(unsigned long long n,
                                                   curandStatePhilox4_32_10_t* state) {
  const unsigned long long high = (state->ctr.z | (unsigned long long)state->ctr.w << 32) + n;
  state->ctr.z = (unsigned int)high;
  state->ctr.w = (unsigned int)(high >> 32);
  state->output = astra_philox(state->ctr, state->key);
}
__device__ __forceinline__ void curand_init(unsigned long long seed, unsigned long long subsequence,
                                            unsigned long long offset,
                                            curandStatePhilox4_32_10_t* state) {
  *state = {};
  state->key = make_uint2((unsigned int)seed, (unsigned int)(seed >> 32));
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}
__device__ __forceinline__ unsigned int curand(curandStatePhilox4_32_10_t* state) {
  const uint4 now = state->output;
  const unsigned int at = state->STATE;
  const unsigned int drawn = at == 0 ? now.x : at == 1 ? now.y : at == 2 ? now.z : now.w;
  skipahead(1, state);
  return drawn;
}
__device__ __forceinline__ uint4 curand4(curandStatePhilox4_32_10_t* state) {
  const uint4 now = state->output;
  astra_philox_count(&state->ctr, 1);
  const uint4 next = state->output = astra_philox(state->ctr, state->key);
  switch (state->STATE) {
    case 0: return now;
    case 1: return make_uint4(now.y, now.z, now.w, next.x);
    case 2: return make_uint4(now.z, now.w, next.x, next.y);
    default: return make_uint4(now.w, next.x, next.y, next.z);
  }
}
// Above 0 and up to 1.
__device__ __forceinline__ float astra_uniform(unsigned int drawn) {
  return drawn * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
}
__device__ __forceinline__ float curand_uniform(curandStatePhilox4_32_10_t* state) {
  return astra_uniform(curand(state));
}
__device__ __forceinline__ float4 curand_uniform4(curandStatePhilox4_32_10_t* state) {
  const uint4 drawn = curand4(state);
  return make_float4(astra_uniform(drawn.x), astra_uniform(drawn.y), astra_uniform(drawn.z),
                     astra_uniform(drawn.w));
}
