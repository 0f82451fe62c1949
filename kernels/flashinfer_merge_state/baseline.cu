#include "cascade.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   when (head_dim == 64 or head_dim == 128 or head_dim == 256 or head_dim == 512) and head_dim // max(16 // sizeof(T), head_dim // 32) >= 1 and head_dim // max(16 // sizeof(T), head_dim // 32) * num_heads <= 1024 and head_dim % ((max(16 // sizeof(T), head_dim // 32))) == 0 and aligned(v_a, 16) and (head_dim * num_heads) % ((max(16 // sizeof(T), head_dim // 32))) == 0 and aligned(v_b, 16) and aligned(v_merged, 16):
       flashinfer::MergeStateKernel<max(16 // sizeof(T), head_dim // 32), T, T> grid=seq_len block=(head_dim // max(16 // sizeof(T), head_dim // 32), num_heads)
           args=(v_a, s_a, v_b, s_b, v_merged, s_merged, num_heads, head_dim)
*/
