#pragma once
#include <framework/tensor.h>

#include <initializer_list>
#include <optional>
#include <stdexcept>

namespace toy {

struct SymbolicSize {
  const char* name;
  int64_t unwrap() const { return *value; }
  std::optional<int64_t> value{};
};

struct TensorMatcher {
  explicit TensorMatcher(std::initializer_list<SymbolicSize> sizes);
  template <typename T>
  TensorMatcher& with_dtype();
  TensorMatcher& verify(const framework::Tensor& tensor);
};

void RuntimeCheck(bool condition, const char* message);

struct LaunchKernel {
  LaunchKernel(dim3 grid, dim3 block, int device) {
    if (device < 0) throw std::runtime_error("no device");
  }
  template <typename F, typename... A>
  void operator()(F kernel, A&&... arguments);
};

}  // namespace toy
