// merge_attn_states_lse tuned by hand: every thread takes 16 bytes of a head and
// computes the weights once; misaligned tensors go element by element.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   when head_dim % width != 0:
       refuse "a head has to be a whole number of 16-byte pieces"
   when aligned(v_out, 16) and aligned(v_a, 16) and aligned(v_b, 16):
       merge_attn_states<T, width> grid=ceil_div(tokens * heads * (head_dim // width), 128) block=128
           args=(v_out, s_out, v_a, s_a, v_b, s_b, tokens * heads, head_dim)
   otherwise:
       merge_attn_states<T, 1> grid=ceil_div(tokens * heads * head_dim, 128) block=128
           args=(v_out, s_out, v_a, s_a, v_b, s_b, tokens * heads, head_dim)
*/

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

template <typename T, int N>
__global__ void merge_attn_states(T* __restrict__ v_out, float* __restrict__ s_out,
                                  const T* __restrict__ v_a, const float* __restrict__ s_a,
                                  const T* __restrict__ v_b, const float* __restrict__ s_b,
                                  int64_t pairs, int head_dim) {
  using P = Pack<T, N>;
  const int pieces = head_dim / N;
  const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t pair = index / pieces;
  const int piece = (int)(index % pieces);
  if (pair >= pairs) return;

  float a = s_a[pair];
  float b = s_b[pair];
  if (isinf(a)) a = -INFINITY;
  if (isinf(b)) b = -INFINITY;
  const float top = fmaxf(a, b);
  const float base = top == -INFINITY ? 0.0f : top;
  const float exp_a = __expf(a - base);
  const float exp_b = __expf(b - base);
  const float total = exp_a + exp_b;
  const float scale = total == 0.0f ? 0.0f : __frcp_rn(total);
  const float weight_a = exp_a * scale;
  const float weight_b = exp_b * scale;

  const int64_t at = pair * pieces + piece;
  const P x = reinterpret_cast<const P*>(v_a)[at];
  const P y = reinterpret_cast<const P*>(v_b)[at];
  P result;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    result.value[k] = (T)(weight_a * (float)x.value[k] + weight_b * (float)y.value[k]);
  }
  reinterpret_cast<P*>(v_out)[at] = result;
  if (piece == 0) s_out[pair] = __logf(total) + base;
}
