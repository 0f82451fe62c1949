#pragma once
#include <framework/tensor.h>

#include <numeric>

#include "checks.h"
#include "packs.cuh"

namespace toy {

namespace detail {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 500
TOY_DEVICE float clip(float x);
#else
TOY_DEVICE float clip(float x) { return x > 0.f ? x : 0.f; }
#endif

}  // namespace detail

// One pack a thread; rows may lie apart.
template <uint32_t WIDTH, typename T>
__global__ void ReluKernel(T* __restrict__ out, const T* __restrict__ in, uint32_t d,
                           uint32_t stride_in) {
  const uint32_t row = blockIdx.x;
  const uint32_t threads = blockDim.x;
  for (uint32_t i = 0; i < (d + WIDTH * threads - 1) / (WIDTH * threads); ++i) {
    if ((i * threads + threadIdx.x) * WIDTH < d) {
      Pack<T, WIDTH> pack;
      pack.load(in + row * stride_in + i * threads * WIDTH + threadIdx.x * WIDTH);
#pragma unroll
      for (uint32_t j = 0; j < WIDTH; ++j) pack.items[j] = T(detail::clip(float(pack.items[j])));
      pack.store(out + row * d + i * threads * WIDTH + threadIdx.x * WIDTH);
    }
  }
}

struct ScaleParams {
  const void* __restrict__ input;
  void* output;
  uint32_t count;
  float factor;
};

template <typename T, bool kUsePDL>
__global__ void scale_kernel(const ScaleParams __grid_constant__ params) {
  const auto& [source, out, count, factor] = params;
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < params.count) {
    static_cast<T*>(out)[i] = T(float(static_cast<const T*>(source)[i]) * factor);
  }
}

template <typename T>
cudaError_t Relu(T* out, T* in, uint32_t rows, uint32_t d, uint32_t stride_in,
                 bool enable_pdl = false, cudaStream_t stream = 0) {
  const uint32_t width = std::gcd(16 / sizeof(T), d);
  const uint32_t threads = std::min<uint32_t>(256, (d + width - 1) / width);
  cudaLaunchConfig_t config;
  config.gridDim = dim3(rows);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = 0;
  config.stream = stream;
  TOY_DISPATCH_WIDTH(width, WIDTH, {
    auto kernel = ReluKernel<WIDTH, T>;
    TOY_CALL(cudaLaunchKernelEx(&config, kernel, out, in, d, stride_in));
  });
  return cudaSuccess;
}

template <bool kUsePDL, typename T>
struct Scale {
  static constexpr auto kernel = scale_kernel<T, kUsePDL>;
  static void run(framework::Tensor x, framework::Tensor y, float factor) {
    auto N = SymbolicSize{"elements"};
    auto type = SymbolicDType{};
    TensorMatcher({N}).with_dtype<T>(type).ensure_alignment(8).verify(x);
    TensorMatcher({-1}).with_dtype<T>(type).verify(y);
    const auto bytes = N.unwrap() * dtype_bytes(type.unwrap());
    if (dtype_bytes(type.unwrap()) * y.size(0) == bytes) [[likely]] {
    } else {
      fail();
    }
    const auto params = ScaleParams{.input = x.data_ptr(), .output = y.data_ptr(),
                                    .count = static_cast<uint32_t>(N.unwrap()), .factor = factor};
    const auto threads = [&] {
      for (uint32_t n : {64, 128}) {
        if (params.count <= n * 16) return n;
      }
      return 256u;
    }();
    LaunchKernel((params.count + threads - 1) / threads, threads, x.device())(kernel, params);
  }
};

}  // namespace toy
