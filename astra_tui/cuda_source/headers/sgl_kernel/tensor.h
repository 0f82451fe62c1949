// SGLang's checks of tensors, which only its launchers use: names, no behaviour.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#if __has_include(<sgl_kernel/utils.cuh>)
#include <sgl_kernel/utils.h>
#include <sgl_kernel/utils.cuh>
#endif
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
namespace sglang::host {
struct SymbolicSize {
  SymbolicSize(const char* = "");
  int64_t unwrap() const;
  bool has_value() const;
  void set_value(int64_t);
};
struct AstraSize {
  AstraSize(int64_t);
  AstraSize(const SymbolicSize&);
};
struct SymbolicDType {
  SymbolicDType();
  template <typename... T> void set_options();
  template <typename T> bool is_type() const;
  DLDataType unwrap() const;
};
struct SymbolicDevice {
  SymbolicDevice();
  template <int...> void set_options();
  void set_value(DLDevice);
  DLDevice unwrap() const;
};
struct TensorMatcher {
  TensorMatcher(std::initializer_list<AstraSize>);
  template <typename... T> TensorMatcher& with_dtype();
  template <typename... T> TensorMatcher& with_dtype(SymbolicDType&);
  template <int...> TensorMatcher& with_device();
  template <int...> TensorMatcher& with_device(SymbolicDevice&);
  TensorMatcher& with_strides(std::initializer_list<AstraSize>);
  TensorMatcher& ensure_alignment(int64_t);
  TensorMatcher& verify(const tvm::ffi::TensorView&);
};
template <typename T> bool is_type(DLDataType);
}
