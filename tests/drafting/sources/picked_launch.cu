#include <cub/cub.cuh>
#include <cuda_runtime.h>

namespace picks {

using namespace cub;
constexpr BlockReduceAlgorithm ALGORITHM = BLOCK_REDUCE_RAKING;

enum class Scaling { kSum, kMean };

template <typename U> struct Limits;
template <> struct Limits<signed char> { static constexpr float most = 127.f; };

template <typename IdType> struct Plain {
  __device__ IdType map(IdType row) const { return row; }
};

__device__ float twice(const float& x) { return 2.f * x; }

template <int THREADS, BlockReduceAlgorithm ALGO, Scaling SCALING, float (*CHANGE)(const float&),
          typename QuantT, typename IdType, typename Policy = Plain<IdType>, typename... Extra>
__global__ void row_sums(QuantT* out, const float* x, const IdType* counts, int rows, int d,
                         Extra... extra) {
  using Reduce = BlockReduce<float, THREADS, ALGO>;
  __shared__ typename Reduce::TempStorage storage;
  if (blockIdx.x >= rows) return;
  float sum = 0.f;
  for (int i = threadIdx.x; i < d; i += THREADS) sum += CHANGE(x[blockIdx.x * d + i]);
  sum = Reduce(storage).Sum(sum);
  if (SCALING == Scaling::kMean) sum /= Policy{extra...}.map(counts[blockIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = QuantT(fminf(sum, Limits<QuantT>::most));
}

template <Scaling SCALING, typename IdType, typename Policy = Plain<IdType>>
cudaError_t run(signed char* out, const float* x, const IdType* counts, int rows, int d,
                cudaStream_t stream) {
  if (d > 4096) return cudaErrorInvalidValue;
  int blocks = rows - 1;
  if (blocks == 0) blocks = 1;
  blocks += 1;
  auto launch = [&](auto kernel, unsigned threads, auto... extra) -> cudaError_t {
    void* args[] = {&out, &x, &counts, &rows, &d, &extra...};
    return cudaLaunchKernel((void*)kernel, dim3(blocks), dim3(threads), args, 0, stream);
  };
  if (d <= 512) {
    return launch(row_sums<64, ALGORITHM, SCALING, twice, signed char, IdType, Policy>, 64);
  }
  return launch(row_sums<256, ALGORITHM, SCALING, twice, signed char, IdType, Policy>, 256);
}

cudaError_t means(signed char* out, const float* x, const int* counts, int rows, int d) {
  return run<Scaling::kMean, int>(out, x, counts, rows, d, nullptr);
}

}  // namespace picks
