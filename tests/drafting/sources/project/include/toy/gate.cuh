#pragma once
#include <framework/tensor.h>

#include "checks.h"
#include "packs.cuh"

namespace toy {

enum class Gate { kLinear, kSquare };

struct GateParams {
  const void* input;
  void* output;
  const int* skipped;
  uint32_t width;
  uint32_t rows;
  uint32_t step;
  float scale;
};

// Two packs of a row a thread, unless the row is skipped.
template <typename T, Gate kGate, bool kSkips, bool kInPlace>
__global__ void gate_kernel(const GateParams __grid_constant__ params) {
  constexpr uint32_t kWidth = 16 / sizeof(T);
  using pack_t = Pack<T, kWidth>;
  const uint32_t packs = params.width / kWidth;
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t row = i / packs;
  if (row >= params.rows) return;
  if constexpr (kSkips) {
    if (params.skipped[row / params.step] < 0) return;
  }
  pack_t gate, up;
  // The launcher passes a pointer that lies one row of the output before the input.
  gate.load(static_cast<const T*>(params.input) + ((row * 2 + 1) * packs + i % packs) * kWidth);
  up.load(static_cast<const T*>(params.input) + ((row * 2 + 2) * packs + i % packs) * kWidth);
  for (uint32_t j = 0; j < kWidth; ++j) {
    const float g = float(gate.items[j]) * params.scale;
    up.items[j] = T((kGate == Gate::kSquare ? g * g : g) * float(up.items[j]));
  }
  up.store(static_cast<T*>(params.output) + i * kWidth);
}

template <typename T>
struct GateKernel {
  static constexpr auto kWidth = 16 / sizeof(T);
  static constexpr auto kThreads = 128u;
  using kernel_t = decltype(&gate_kernel<T, Gate::kLinear, false, false>);

  template <Gate kGate, bool kSkips, bool kInPlace = false>
  static constexpr kernel_t of = gate_kernel<T, kGate, kSkips, kInPlace>;

  template <bool kSkips, bool kInPlace>
  static kernel_t choose(int kind) {
    if (kind < 0) return nullptr;
    if (kind == 1) {
      return of<Gate::kSquare, kSkips, kInPlace>;
    }
    return of<Gate::kLinear, kSkips, kInPlace>;
  }

  template <bool kInPlace = false>
  static void launch(framework::Tensor x, framework::Tensor y, int kind, const int* skipped,
                     uint32_t step, float scale = 0.5f) {
    auto N = SymbolicSize{"rows"};
    auto D_in = SymbolicSize{"width_in"};
    auto D_out = SymbolicSize{"width_out"};
    TensorMatcher({N, D_out}).with_dtype<T>().verify(y);
    TensorMatcher({N, D_in}).with_dtype<T>().verify(x);
    const auto width = static_cast<uint32_t>(D_out.unwrap());
    RuntimeCheck(width * 2 == D_in.unwrap(), "two halves");
    RuntimeCheck(width % kWidth == 0 && width <= 4096, "whole packs");
    const auto rows = static_cast<uint32_t>(N.unwrap());
    const auto params = GateParams{.input = static_cast<const T*>(x.data_ptr()) - width,
                                   .output = kInPlace ? nullptr : y.data_ptr(),
                                   .skipped = skipped,
                                   .width = width,
                                   .rows = rows,
                                   .step = step,
                                   .scale = scale};
    const auto blocks = (rows * (width / kWidth) + kThreads - 1) / kThreads;
    if (skipped != nullptr) {
      const auto kernel = choose<true, kInPlace>(kind);
      LaunchKernel(blocks, kThreads, x.device())(kernel, params);
    } else {
      const auto kernel = choose<false, kInPlace>(kind);
      LaunchKernel(blocks, kThreads, x.device())(kernel, params);
    }
  }

  static void run(framework::Tensor x, framework::Tensor y, int kind) {
    launch(x, y, kind, /*skipped=*/nullptr, /*step=*/1);
  }
};

}  // namespace toy
