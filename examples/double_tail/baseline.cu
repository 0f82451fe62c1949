// silu_and_mul with a scalar loop for what is left of a row after whole passes of the block over
// packs. The loop over packs has no such limit: it has written those elements already. Several
// frameworks have shipped this. `astra-tui counters` names the lines, and the move
// `drop_tail` of the playbook takes the scalar loop away.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   when d % width == 0 and aligned(out, 16) and aligned(input, 16):
       silu_rows<T, width> grid=tokens block=min(d // width, 1024) args=(out, input, d)
   otherwise:
       silu_elements<T> grid=tokens block=min(max(d, 1), 1024) args=(out, input, d)
*/

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

template <typename T, int N>
__global__ void silu_rows(T* __restrict__ out, const T* __restrict__ input, int d) {
  using P = Pack<T, N>;
  const int64_t token = blockIdx.x;
  const int64_t row = token * 2 * d;
  const int threads = blockDim.x;
  for (int i = threadIdx.x; i < d / N; i += threads) {
    const P gate = *reinterpret_cast<const P*>(&input[row + i * N]);
    const P up = *reinterpret_cast<const P*>(&input[row + d + i * N]);
    P result;
#pragma unroll
    for (int k = 0; k < N; ++k) result.value[k] = (T)(silu((float)gate.value[k]) * (float)up.value[k]);
    *reinterpret_cast<P*>(&out[token * d + i * N]) = result;
  }
  const int rest = d % (threads * N);
  const int done = d - rest;
  for (int i = threadIdx.x; i < rest; i += threads) {
    const float gate = (float)input[row + done + i];
    const float up = (float)input[row + d + done + i];
    out[token * d + done + i] = (T)(silu(gate) * up);
  }
}

template <typename T>
__global__ void silu_elements(T* __restrict__ out, const T* __restrict__ input, int d) {
  const int64_t token = blockIdx.x;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float gate = (float)input[token * 2 * d + i];
    const float up = (float)input[token * 2 * d + d + i];
    out[token * d + i] = (T)(silu(gate) * up);
  }
}
