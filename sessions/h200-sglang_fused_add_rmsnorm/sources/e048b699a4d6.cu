#include "fused_add_rmsnorm.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   when hidden_size <= 8192 and hidden_size % (16 // sizeof(T)) == 0
        and ceil_div(hidden_size // (16 // sizeof(T)), 32) * 32 >= 1
        and ceil_div(hidden_size // (16 // sizeof(T)), 32) * 32 <= 1024
        and aligned(input, 16) and aligned(residual, 16) and aligned(weight, 16):
       sglang::fused_add_rmsnorm_reg_kernel_own<"false", T, 16> grid=num_tokens block=(ceil_div(hidden_size // (16 // sizeof(T)), 32) * 32)
            args=(input, residual, weight, hidden_size // (16 // sizeof(T)), eps) pdl=true
*/

// As in upstream/sglang/kernels/jit/csrc/elementwise/fused_add_rmsnorm.cuh at lines 56 to 137, under another name.
// sglang 0.5.23, Apache License
namespace sglang {
template <bool kCastXBeforeOutMul, typename T, int VEC_SIZE_IN_BYTE>
__global__ void fused_add_rmsnorm_reg_kernel_own(
    T* __restrict__ input, T* __restrict__ residual, const T* __restrict__ weight, int vec_hidden_size, float eps) {
  constexpr int inner_loop = VEC_SIZE_IN_BYTE == 16 ? 4 : 8;

  __shared__ float shared_memory[32];  // Used for CTA reduce

  using vec_t = typename VecTypeTrait<T, VEC_SIZE_IN_BYTE>::vec_t;
  using packed_t = typename VecTypeTrait<T, VEC_SIZE_IN_BYTE>::packed_t;
  vec_t v;                           // Save input
  vec_t v_res;                       // Save residual
  vec_t v_weight;                    // Save weight
  vec_t v_out;                       // Save output
  float2 inp_res_cache[inner_loop];  // fp32 sum cache; only read when kCastXBeforeOutMul=true

  auto token_id = blockIdx.x;
  cudaGridDependencySynchronize();
  float2 acc_square = make_float2(0.0f, 0.0f);  // Sum of squares for each thread

  if (threadIdx.x < vec_hidden_size) {
    // Compute address
    vec_t* p = reinterpret_cast<vec_t*>(input) + token_id * vec_hidden_size;
    vec_t* p_res = reinterpret_cast<vec_t*>(residual) + token_id * vec_hidden_size;
    const vec_t* p_weight = reinterpret_cast<const vec_t*>(weight);

    // Load data
    v = p[threadIdx.x];
    v_res = p_res[threadIdx.x];
    v_weight = p_weight[threadIdx.x];

    for (int i = 0; i < inner_loop; i++) {
      float2 val = device::cast<fp32x2_t, packed_t>(v[i]);
      float2 res = device::cast<fp32x2_t, packed_t>(v_res[i]);
      float2 inp_res = make_float2(val.x + res.x, val.y + res.y);
      acc_square.x += inp_res.x * inp_res.x;
      acc_square.y += inp_res.y * inp_res.y;
      v[i] = device::cast<packed_t, fp32x2_t>(inp_res);
      if constexpr (kCastXBeforeOutMul) {
        inp_res_cache[i] = inp_res;
      }
    }

    // Store inp+res to residual
    p_res[threadIdx.x] = v;
  }

  // CTA Reduce
  // Step 0: Warp Reduce
  auto cg_warp = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  float warp_sum = cooperative_groups::reduce(cg_warp, acc_square.x + acc_square.y, cooperative_groups::plus<float>());

  float* buffer = shared_memory;
  if (threadIdx.x % 32 == 0) {
    buffer[threadIdx.x / 32] = warp_sum;  // Write warp_sum to buffer
  }

  // Step 1: CTA Reduce
  __syncthreads();
  if (threadIdx.x < 32) {
    float cta_sum = cooperative_groups::reduce(
        cg_warp, (threadIdx.x < blockDim.x / 32) ? buffer[threadIdx.x] : 0.0f, cooperative_groups::plus<float>());
    buffer[threadIdx.x] =
        rsqrtf(eps + cta_sum * (__fdividef(1.0f, static_cast<float>(vec_hidden_size * (VEC_SIZE_IN_BYTE / sizeof(T))))));
  }
  __syncthreads();

  // Compute RMSNorm
  if (threadIdx.x < vec_hidden_size) {
    float rsqrt_square_sum = buffer[threadIdx.x / 32];  // Read rsqrt from Shared Memory(Broadcast)
    for (int i = 0; i < inner_loop; i++) {
      // HF parity needs the full fp32 sum (not the DType-rounded v[i]).
      float2 valf;
      if constexpr (kCastXBeforeOutMul) {
        valf = inp_res_cache[i];
      } else {
        valf = device::cast<fp32x2_t, packed_t>(v[i]);
      }
      v_out[i] = rms<kCastXBeforeOutMul>(valf, v_weight[i], rsqrt_square_sum);
    }
    vec_t* p_out = reinterpret_cast<vec_t*>(input) + token_id * vec_hidden_size;
    p_out[threadIdx.x] = v_out;
  }
  cudaTriggerProgrammaticLaunchCompletion();
}
}  // namespace sglang
