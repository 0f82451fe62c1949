// merge_attn_states_lse, the simple way: a block a head, one element at a time, and the weights
// (two exponentials and two divisions) computed again for every element. Optimisation starts here.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   let across = min(128, max(head_dim // width, 1))
   let across_2 = min(128, max(head_dim, 1))
   when head_dim * sizeof(T) % 16 != 0:
       refuse "a head has to be a whole number of 16-byte pieces"
   when head_dim % width == 0 and aligned(v_out, 16) and aligned(v_a, 16) and aligned(v_b, 16):
       merge_attn_states_wide<T, width> grid=(ceil_div(heads, 128 // across), tokens) block=(across, 128 // across)
            args=(v_out, s_out, v_a, s_a, v_b, s_b, head_dim, heads)
   otherwise:
       merge_attn_states<T> grid=(ceil_div(heads, 128 // across_2), tokens) block=(across_2, 128 // across_2)
            args=(v_out, s_out, v_a, s_a, v_b, s_b, head_dim, heads)
*/

template <typename E, int N>
struct alignas(sizeof(E) * N < 16 ? sizeof(E) * N : 16) Pack {
  E value[N];
};

template <typename T>
__global__ void merge_attn_states(T* __restrict__ v_out, float* __restrict__ s_out,
                                  const T* __restrict__ v_a, const float* __restrict__ s_a,
                                  const T* __restrict__ v_b, const float* __restrict__ s_b,
                                  int head_dim, unsigned rows) {
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const int64_t head = (int64_t)blockIdx.y * rows + row;
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

template <typename T, int WIDTH>
__global__ void merge_attn_states_wide(T* __restrict__ v_out, float* __restrict__ s_out,
                                  const T* __restrict__ v_a, const float* __restrict__ s_a,
                                  const T* __restrict__ v_b, const float* __restrict__ s_b,
                                  int head_dim, unsigned rows) {
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const int64_t head = (int64_t)blockIdx.y * rows + row;
  for (int i_pack = threadIdx.x; i_pack < head_dim / WIDTH; i_pack += blockDim.x) {
    const int i = i_pack * WIDTH;
    float a = s_a[head];
    float b = s_b[head];
    if (isinf(a)) a = -INFINITY;
    if (isinf(b)) b = -INFINITY;
    const float top = fmaxf(a, b);
    if (top == -INFINITY) {
      Pack<T, WIDTH> v_out_pack;
#pragma unroll
      for (int lane = 0; lane < WIDTH; ++lane) {
        v_out_pack.value[lane] = (T)0.0f;
        if ((i + lane) == 0) s_out[head] = -INFINITY;
      }
      *reinterpret_cast<Pack<T, WIDTH>*>(&v_out[head * head_dim + i]) = v_out_pack;
    } else {
      const float total = __expf(a - top) + __expf(b - top);
      const float weight_a = __fdividef(__expf(a - top), total);
      const float weight_b = __fdividef(__expf(b - top), total);
      const Pack<T, WIDTH> v_a_pack = *reinterpret_cast<const Pack<T, WIDTH>*>(&v_a[head * head_dim + i]);
      const Pack<T, WIDTH> v_b_pack = *reinterpret_cast<const Pack<T, WIDTH>*>(&v_b[head * head_dim + i]);
      Pack<T, WIDTH> v_out_pack_2;
#pragma unroll
      for (int lane = 0; lane < WIDTH; ++lane) {
        const float x = (float)v_a_pack.value[lane];
        const float y = (float)v_b_pack.value[lane];
        v_out_pack_2.value[lane] = (T)(weight_a * x + weight_b * y);
        if ((i + lane) == 0) s_out[head] = __logf(total) + top;
      }
      *reinterpret_cast<Pack<T, WIDTH>*>(&v_out[head * head_dim + i]) = v_out_pack_2;
    }
  }
}
