// Apache TVM FFI, as launchers use it: declared, and never run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <dlpack/dlpack.h>
namespace tvm::ffi {
struct ShapeView {
  int64_t operator[](size_t) const;
  size_t size() const;
  const int64_t* begin() const;
  const int64_t* end() const;
};
struct TensorView {
  void* data_ptr() const;
  DLDevice device() const;
  DLDataType dtype() const;
  int64_t size(int64_t) const;
  int64_t stride(int64_t) const;
  int64_t numel() const;
  int ndim() const;
  int dim() const;
  int64_t byte_offset() const;
  ShapeView shape() const;
  ShapeView sizes() const;
  ShapeView strides() const;
  bool IsContiguous() const;
  bool is_contiguous() const;
};
struct Tensor : TensorView {};
template <typename T> struct Optional {
  bool has_value() const;
  const T& value() const;
  const T& operator*() const;
  const T* operator->() const;
  explicit operator bool() const;
};
template <typename T> struct Array {
  size_t size() const;
  const T& operator[](size_t) const;
};
}
#define TVM_FFI_ICHECK(CONDITION) astra_ffi_check(CONDITION)
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(NAME, FUNCTION) static_assert(true)
struct AstraFfiMessage { template <typename T> AstraFfiMessage& operator<<(const T&); };
template <typename T> AstraFfiMessage& astra_ffi_check(const T&);
