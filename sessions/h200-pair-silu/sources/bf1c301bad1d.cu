// silu_and_mul, the simple way: a capped grid walks over all elements, one at a time, with scalar
// loads, expf and a division. This is where optimisation starts.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* @launch
   let width = 16 // sizeof(T)
   let across = d // width
   let shift = 37 if across < 1024 else 47
   let magic = ceil_div(137438953472 if across < 1024 else 140737488355328, max(across, 1))
   when d % width == 0 and aligned(input, 16) and aligned(out, 16) and tokens <= 65535
        and (across < 1048576 and tokens * across <= 134217728 and tokens * across > 0):
       silu_and_mul_wide_flat<T, width> grid=ceil_div(max(tokens * across, 1), 256) block=256
            args=(out, input, tokens, d, tokens * across, across, shift, magic)
   when d % width == 0 and aligned(input, 16) and aligned(out, 16) and tokens <= 65535:
       silu_and_mul_wide<T, width> grid=(ceil_div(d // width, 128), tokens) block=128
            args=(out, input, tokens, d)
   otherwise:
       silu_and_mul<T> grid=(ceil_div(d, 128), min(tokens, 65535)) block=128
            args=(out, input, tokens, d)
*/

template <typename E, int N>
struct alignas(sizeof(E) * N < 16 ? sizeof(E) * N : 16) Pack {
  E value[N];
};

template <typename T>
__global__ void silu_and_mul(T* __restrict__ out, const T* __restrict__ input, int64_t rows,
                             int64_t d) {
  for (int64_t token = blockIdx.y; token < rows; token += gridDim.y) {
    for (int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; column < d; column += (int64_t)gridDim.x * blockDim.x) {
      const int64_t i = token * d + column;
      const float gate = (float)input[token * 2 * d + column];
      const float up = (float)input[token * 2 * d + d + column];
      const float silu = __fdividef(gate, 1.0f + __expf(-gate));
      out[i] = (T)(silu * up);
    }
  }
}

template <typename T, int WIDTH>
__global__ void silu_and_mul_wide(T* __restrict__ out, const T* __restrict__ input, int64_t rows,
                             int64_t d) {
  const int64_t token = blockIdx.y;
  const int64_t column_pack = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (column_pack < d / WIDTH) {
    const int64_t column = column_pack * WIDTH;
    const int64_t i = token * d + column;
    const Pack<T, WIDTH> input_pack = *reinterpret_cast<const Pack<T, WIDTH>*>(&input[token * 2 * d + column]);
    const Pack<T, WIDTH> input_pack_2 = *reinterpret_cast<const Pack<T, WIDTH>*>(&input[token * 2 * d + d + column]);
    Pack<T, WIDTH> out_pack;
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) {
      const float gate = (float)input_pack.value[lane];
      const float up = (float)input_pack_2.value[lane];
      const float silu = __fdividef(gate, 1.0f + __expf(-gate));
      out_pack.value[lane] = (T)(silu * up);
    }
    *reinterpret_cast<Pack<T, WIDTH>*>(&out[i]) = out_pack;
  }
}

template <typename T, int WIDTH>
__global__ void silu_and_mul_wide_flat(T* __restrict__ out, const T* __restrict__ input, int64_t rows,
                             int64_t d, unsigned total, unsigned across, int shift, unsigned long long magic) {
  const unsigned flat = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned flat_row = (unsigned)(flat * magic >> shift);
  const unsigned flat_column = flat - flat_row * across;
  const int64_t token = flat_row;
  if (flat < total) {
    const int64_t column_pack = flat_column;
    const int64_t column = column_pack * WIDTH;
    const int64_t i = token * d + column;
    const Pack<T, WIDTH> input_pack = *reinterpret_cast<const Pack<T, WIDTH>*>(&input[token * 2 * d + column]);
    const Pack<T, WIDTH> input_pack_2 = *reinterpret_cast<const Pack<T, WIDTH>*>(&input[token * 2 * d + d + column]);
    Pack<T, WIDTH> out_pack;
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) {
      const float gate = (float)input_pack.value[lane];
      const float up = (float)input_pack_2.value[lane];
      const float silu = __fdividef(gate, 1.0f + __expf(-gate));
      out_pack.value[lane] = (T)(silu * up);
    }
    *reinterpret_cast<Pack<T, WIDTH>*>(&out[i]) = out_pack;
  }
}
