// merge_attn_states_lse, the simple way: a block a head, one element at a time, and the weights
// (two exponentials and two divisions) computed again for every element. Optimisation starts here.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   when head_dim * sizeof(T) % 16 != 0:
       refuse "a head has to be a whole number of 16-byte pieces"
   otherwise:
       merge_attn_states<T> grid=(heads, tokens) block=128
           args=(v_out, s_out, v_a, s_a, v_b, s_b, head_dim)
*/

template <typename T>
__global__ void merge_attn_states(T* __restrict__ v_out, float* __restrict__ s_out,
                                  const T* __restrict__ v_a, const float* __restrict__ s_a,
                                  const T* __restrict__ v_b, const float* __restrict__ s_b,
                                  int head_dim) {
  const int64_t head = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
  for (int i = threadIdx.x; i < head_dim; i += blockDim.x) {
    float a = s_a[head];
    float b = s_b[head];
    if (isinf(a)) a = -INFINITY;
    if (isinf(b)) b = -INFINITY;
    const float top = fmaxf(a, b);
    if (top == -INFINITY) {
      v_out[head * head_dim + i] = (T)0.0f;
      if (i == 0) s_out[head] = -INFINITY;
    } else {
      const float total = __expf(a - top) + __expf(b - top);
      const float weight_a = __fdividef(__expf(a - top), total);
      const float weight_b = __fdividef(__expf(b - top), total);
      const float x = (float)v_a[head * head_dim + i];
      const float y = (float)v_b[head * head_dim + i];
      v_out[head * head_dim + i] = (T)(weight_a * x + weight_b * y);
      if (i == 0) s_out[head] = __logf(total) + top;
    }
  }
}
