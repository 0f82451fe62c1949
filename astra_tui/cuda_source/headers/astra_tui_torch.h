// PyTorch's names as files with kernels and launchers use them. Element types work, since kernels
// compute with them; all else only declares what launchers call.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>
#pragma nv_diag_suppress 177, 550

namespace c10 {
struct alignas(2) BFloat16 {
  uint16_t x;
  struct from_bits_t {};
  static constexpr from_bits_t from_bits() { return {}; }
  BFloat16() = default;
  constexpr BFloat16(uint16_t bits, from_bits_t) : x(bits) {}
  BFloat16(float value) : x(__bfloat16_as_ushort(__float2bfloat16_rn(value))) {}
  BFloat16(const __nv_bfloat16& value) : x(__bfloat16_as_ushort(value)) {}
  operator float() const { return __bfloat162float(__ushort_as_bfloat16(x)); }
  explicit operator __nv_bfloat16() const { return __ushort_as_bfloat16(x); }
};
struct alignas(2) Half {
  uint16_t x;
  struct from_bits_t {};
  static constexpr from_bits_t from_bits() { return {}; }
  Half() = default;
  constexpr Half(uint16_t bits, from_bits_t) : x(bits) {}
  Half(float value) : x(__half_as_ushort(__float2half_rn(value))) {}
  Half(const __half& value) : x(__half_as_ushort(value)) {}
  operator float() const { return __half2float(__ushort_as_half(x)); }
  operator __half() const { return __ushort_as_half(x); }
};
// As in PyTorch 2.13, where what is too large for e4m3 becomes its largest number.
template <__nv_fp8_interpretation_t KIND> struct alignas(1) AstraFloat8 {
  uint8_t x;
  struct from_bits_t {};
  static constexpr from_bits_t from_bits() { return {}; }
  AstraFloat8() = default;
  constexpr AstraFloat8(uint8_t bits, from_bits_t) : x(bits) {}
  AstraFloat8(float value)
      : x(__nv_cvt_float_to_fp8(value, KIND == __NV_E4M3 ? __NV_SATFINITE : __NV_NOSAT, KIND)) {}
  operator float() const { return __half2float(__half(__nv_cvt_fp8_to_halfraw(x, KIND))); }
  bool isnan() const { return float(*this) != float(*this); }
};
struct Float8_e4m3fn : AstraFloat8<__NV_E4M3> { using AstraFloat8<__NV_E4M3>::AstraFloat8; };
struct Float8_e5m2 : AstraFloat8<__NV_E5M2> { using AstraFloat8<__NV_E5M2>::AstraFloat8; };
// A format of other hardware: NVIDIA's has no conversion.
struct alignas(1) Float8_e4m3fnuz {
  uint8_t x;
  struct from_bits_t {};
  static constexpr from_bits_t from_bits() { return {}; }
  Float8_e4m3fnuz() = default;
  constexpr Float8_e4m3fnuz(uint8_t bits, from_bits_t) : x(bits) {}
  Float8_e4m3fnuz(float);
  operator float() const;
};

#define ASTRA_OPERATOR(T, OP) \
  inline T operator OP(const T& a, const T& b) { return T(float(a) OP float(b)); } \
  inline float operator OP(T a, float b) { return float(a) OP b; } \
  inline float operator OP(float a, T b) { return a OP float(b); } \
  inline double operator OP(T a, double b) { return double(float(a)) OP b; } \
  inline double operator OP(double a, T b) { return a OP double(float(b)); } \
  template <typename I, typename = std::enable_if_t<std::is_integral_v<I>>> \
  T operator OP(T a, I b) { return a OP T(float(b)); } \
  template <typename I, typename = std::enable_if_t<std::is_integral_v<I>>> \
  T operator OP(I a, T b) { return T(float(a)) OP b; } \
  inline T& operator OP##=(T& a, const T& b) { return a = a OP b; }
#define ASTRA_OPERATORS(T) \
  ASTRA_OPERATOR(T, +) \
  ASTRA_OPERATOR(T, -) \
  ASTRA_OPERATOR(T, *) \
  ASTRA_OPERATOR(T, /) \
  inline T operator-(const T& a) { return T(-float(a)); }
ASTRA_OPERATORS(BFloat16)
ASTRA_OPERATORS(Half)
ASTRA_OPERATORS(Float8_e4m3fn)
ASTRA_OPERATORS(Float8_e5m2)
#undef ASTRA_OPERATORS
#undef ASTRA_OPERATOR

// CUDA's own comparisons of halves fit as well as those of floats: these fit better than both.
template <typename T>
inline constexpr bool astra_is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <typename T> T astra_wide(T value) { return value; }
inline float astra_wide(Half value) { return value; }
inline float astra_wide(BFloat16 value) { return value; }
template <typename A, typename B>
using astra_compared = std::enable_if_t<(astra_is_half<A> || astra_is_half<B>) &&
                                        (astra_is_half<A> || std::is_arithmetic_v<A>) &&
                                        (astra_is_half<B> || std::is_arithmetic_v<B>)>;
#define ASTRA_COMPARISON(OP) \
  template <typename A, typename B, typename = astra_compared<A, B>> \
  bool operator OP(const A& a, const B& b) { return astra_wide(a) OP astra_wide(b); }
ASTRA_COMPARISON(<)
ASTRA_COMPARISON(>)
ASTRA_COMPARISON(<=)
ASTRA_COMPARISON(>=)
ASTRA_COMPARISON(==)
ASTRA_COMPARISON(!=)
#undef ASTRA_COMPARISON
}  // namespace c10

#define ASTRA_LDG(T) \
  __device__ __forceinline__ T __ldg(const T* from) { \
    return T(__ldg(reinterpret_cast<const unsigned short*>(from)), T::from_bits()); \
  }
ASTRA_LDG(c10::BFloat16)
ASTRA_LDG(c10::Half)
#undef ASTRA_LDG

#define ASTRA_ATOMIC_ADD(T, OF_CUDA) \
  __device__ __forceinline__ T atomicAdd(T* to, T value) { \
    return T(atomicAdd(reinterpret_cast<OF_CUDA*>(to), OF_CUDA(value))); \
  }
ASTRA_ATOMIC_ADD(c10::BFloat16, __nv_bfloat16)
ASTRA_ATOMIC_ADD(c10::Half, __half)
#undef ASTRA_ATOMIC_ADD
template <typename T>
__device__ __forceinline__ T gpuAtomicAdd(T* to, std::remove_cv_t<T> value) {
  return atomicAdd(to, value);
}
template <typename T>
__device__ __forceinline__ void gpuAtomicAddNoReturn(T* to, std::remove_cv_t<T> value) {
  atomicAdd(to, value);
}

namespace std {
#define ASTRA_LIMITS(T, LOWEST, LEAST, STEP, MOST) \
  template <> struct numeric_limits<T> { \
    static constexpr bool is_specialized = true, is_integer = false, is_signed = true; \
    static constexpr T lowest() { return T(LOWEST, T::from_bits()); } \
    static constexpr T min() { return T(LEAST, T::from_bits()); } \
    static constexpr T epsilon() { return T(STEP, T::from_bits()); } \
    static constexpr T max() { return T(MOST, T::from_bits()); } \
  };
ASTRA_LIMITS(c10::BFloat16, 0xff7f, 0x0080, 0x3c00, 0x7f7f)
ASTRA_LIMITS(c10::Half, 0xfbff, 0x0400, 0x1400, 0x7bff)
ASTRA_LIMITS(c10::Float8_e4m3fn, 0xfe, 0x08, 0x20, 0x7e)
ASTRA_LIMITS(c10::Float8_e5m2, 0xfb, 0x04, 0x34, 0x7b)
#undef ASTRA_LIMITS
}  // namespace std

namespace torch::headeronly {
using c10::BFloat16;
using c10::Float8_e4m3fn;
using c10::Float8_e4m3fnuz;
using c10::Float8_e5m2;
using c10::Half;
enum class ScalarType : signed char {
  Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool,
  QInt8, QUInt8, QInt32, BFloat16, QUInt4x2, QUInt2x4, Bits1x8, Bits2x4, Bits4x2, Bits8, Bits16,
  Float8_e5m2, Float8_e4m3fn, Float8_e5m2fnuz, Float8_e4m3fnuz, UInt16, UInt32, UInt64,
  Float8_e8m0fnu = 44, Float4_e2m1fn_x2, Undefined
};
enum class DeviceType : signed char { CPU, CUDA };
enum class Layout : signed char { Strided };
enum class MemoryFormat : signed char { Contiguous, Preserve };
struct IntHeaderOnlyArrayRef {
  IntHeaderOnlyArrayRef(std::initializer_list<int64_t>);
  IntHeaderOnlyArrayRef(const std::vector<int64_t>&);
  IntHeaderOnlyArrayRef(const int64_t*, size_t);
  const int64_t& operator[](size_t) const;
  size_t size() const;
  bool empty() const;
  bool equals(const IntHeaderOnlyArrayRef&) const;
  const int64_t* data() const;
  const int64_t* begin() const;
  const int64_t* end() const;
  std::vector<int64_t> vec() const;
};
bool operator==(const IntHeaderOnlyArrayRef&, const IntHeaderOnlyArrayRef&);
bool operator!=(const IntHeaderOnlyArrayRef&, const IntHeaderOnlyArrayRef&);
template <typename T> const char* toString(const T&);
size_t elementSize(ScalarType);
bool isFloatingType(ScalarType);
bool isIntegralType(ScalarType, bool);
}  // namespace torch::headeronly

namespace torch::stable {
using torch::headeronly::DeviceType;
struct Device {
  Device(DeviceType, int = -1);
  bool is_cpu() const;
  bool is_cuda() const;
  int index() const;
  DeviceType type() const;
  bool operator==(const Device&) const;
  bool operator!=(const Device&) const;
};
struct TensorOptions {
  template <typename T> TensorOptions dtype(T) const;
  template <typename T> TensorOptions device(T) const;
  operator torch::headeronly::ScalarType() const;
};
struct Tensor {
  Tensor();
  template <typename T> T* data_ptr() const;
  template <typename T> T* mutable_data_ptr() const;
  template <typename T> const T* const_data_ptr() const;
  void* data_ptr() const;
  void* mutable_data_ptr() const;
  const void* const_data_ptr() const;
  int64_t size(int64_t) const;
  int64_t stride(int64_t) const;
  int64_t numel() const;
  int64_t dim() const;
  int64_t element_size() const;
  int64_t storage_offset() const;
  size_t nbytes() const;
  int get_device_index() const;
  int get_device() const;
  torch::headeronly::IntHeaderOnlyArrayRef sizes() const;
  torch::headeronly::IntHeaderOnlyArrayRef strides() const;
  torch::headeronly::ScalarType scalar_type() const;
  torch::headeronly::ScalarType dtype() const;
  TensorOptions options() const;
  Device device() const;
  bool is_contiguous() const;
  bool is_cuda() const;
  bool is_cpu() const;
  bool defined() const;
  template <typename... A> Tensor view(A...) const;
  Tensor view(torch::headeronly::IntHeaderOnlyArrayRef) const;
  template <typename... A> Tensor reshape(A...) const;
  Tensor reshape(torch::headeronly::IntHeaderOnlyArrayRef) const;
  template <typename... A> Tensor to(A...) const;
  template <typename... A> Tensor select(A...) const;
  template <typename... A> Tensor slice(A...) const;
  Tensor flatten(int64_t = 0, int64_t = -1) const;
  Tensor contiguous() const;
  Tensor clone() const;
  Tensor& zero_();
  template <typename T> Tensor& fill_(T);
  template <typename T> T item() const;
  template <typename T> T* data() const;
  int64_t ndimension() const;
  torch::headeronly::ScalarType type() const;
#define ASTRA_METHOD(NAME) template <typename... A> Tensor NAME(A...) const;
  ASTRA_METHOD(narrow) ASTRA_METHOD(index) ASTRA_METHOD(squeeze) ASTRA_METHOD(unsqueeze)
  ASTRA_METHOD(expand) ASTRA_METHOD(permute) ASTRA_METHOD(transpose) ASTRA_METHOD(t)
  ASTRA_METHOD(max) ASTRA_METHOD(min) ASTRA_METHOD(sum) ASTRA_METHOD(mean) ASTRA_METHOD(cumsum)
  ASTRA_METHOD(any) ASTRA_METHOD(all) ASTRA_METHOD(cpu) ASTRA_METHOD(cuda) ASTRA_METHOD(copy_)
  ASTRA_METHOD(new_empty) ASTRA_METHOD(new_zeros)
#undef ASTRA_METHOD
};
#define ASTRA_MAKES(NAME) \
  template <typename... A> Tensor NAME(torch::headeronly::IntHeaderOnlyArrayRef, A&&...); \
  template <typename... A> \
  Tensor NAME(const Tensor&, torch::headeronly::IntHeaderOnlyArrayRef, A&&...);
ASTRA_MAKES(empty)
ASTRA_MAKES(zeros)
ASTRA_MAKES(ones)
ASTRA_MAKES(full)
ASTRA_MAKES(new_empty)
ASTRA_MAKES(new_zeros)
#undef ASTRA_MAKES
#define ASTRA_TAKES(NAME) \
  template <typename... A> Tensor NAME(const Tensor&, A&&...); \
  template <typename... A> \
  Tensor NAME(const Tensor&, torch::headeronly::IntHeaderOnlyArrayRef, A&&...);
ASTRA_TAKES(contiguous)
ASTRA_TAKES(empty_like)
ASTRA_TAKES(zeros_like)
ASTRA_TAKES(flatten)
ASTRA_TAKES(view)
ASTRA_TAKES(reshape)
ASTRA_TAKES(narrow)
ASTRA_TAKES(select)
ASTRA_TAKES(transpose)
ASTRA_TAKES(clone)
ASTRA_TAKES(to)
ASTRA_TAKES(fill_)
ASTRA_TAKES(zero_)
#undef ASTRA_TAKES
template <typename T>
Tensor from_blob(T*, torch::headeronly::IntHeaderOnlyArrayRef,
                 torch::headeronly::IntHeaderOnlyArrayRef, Device, torch::headeronly::ScalarType);
Device device_of(const Tensor&);
}  // namespace torch::stable

namespace torch::stable::accelerator {
struct DeviceGuard {
  explicit DeviceGuard(int);
  void set_index(int);
};
struct Stream { void* nativeHandle() const; int64_t id() const; };
Stream getCurrentStream(int);
int getCurrentDeviceIndex();
}  // namespace torch::stable::accelerator

namespace c10 {
using torch::headeronly::DeviceType;
using torch::headeronly::ScalarType;
using torch::stable::Device;
using torch::stable::TensorOptions;
using IntArrayRef = torch::headeronly::IntHeaderOnlyArrayRef;
using std::nullopt;
using std::optional;
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
inline constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char,
    kShort = ScalarType::Short, kInt = ScalarType::Int, kInt32 = ScalarType::Int,
    kLong = ScalarType::Long, kInt64 = ScalarType::Long, kInt8 = ScalarType::Char,
    kUInt8 = ScalarType::Byte, kHalf = ScalarType::Half, kFloat16 = ScalarType::Half,
    kFloat = ScalarType::Float, kFloat32 = ScalarType::Float, kDouble = ScalarType::Double,
    kBFloat16 = ScalarType::BFloat16, kBool = ScalarType::Bool,
    kFloat8_e4m3fn = ScalarType::Float8_e4m3fn, kFloat8_e5m2 = ScalarType::Float8_e5m2;
}  // namespace c10

namespace at {
using namespace c10;
using torch::stable::Tensor;
using torch::stable::empty;
using torch::stable::empty_like;
using torch::stable::full;
using torch::stable::ones;
using torch::stable::zeros;
using torch::stable::zeros_like;
struct OptionalDeviceGuard { template <typename T> explicit OptionalDeviceGuard(T); };
using torch::stable::device_of;
// On a GPU: double stays, other floats become float, whole numbers int64_t.
template <typename T> struct AstraOpMath { using type = T; };
template <> struct AstraOpMath<c10::Half> { using type = float; };
template <> struct AstraOpMath<c10::BFloat16> { using type = float; };
template <typename T> using opmath_type = typename AstraOpMath<T>::type;
template <typename T, bool IS_CUDA = true>
using acc_type = std::conditional_t<std::is_same_v<T, double>, double,
                                    std::conditional_t<std::is_integral_v<T>, int64_t, float>>;
}  // namespace at

namespace torch {
using namespace at;
using torch::headeronly::ScalarType;
template <typename T> TensorOptions dtype(T);
template <typename T> TensorOptions device(T);
}  // namespace torch

namespace c10::cuda {
struct CUDAGuard { template <typename T> explicit CUDAGuard(T); };
struct OptionalCUDAGuard { template <typename T> explicit OptionalCUDAGuard(T); };
struct CUDAStream { operator cudaStream_t() const; cudaStream_t stream() const; };
CUDAStream getCurrentCUDAStream(int = -1);
}  // namespace c10::cuda

namespace at::cuda {
using namespace c10::cuda;
cudaDeviceProp* getCurrentDeviceProperties();
cudaDeviceProp* getDeviceProperties(int);
struct OptionalCUDAGuard { template <typename T> explicit OptionalCUDAGuard(T); };
namespace detail { bool canUse32BitIndexMath(const Tensor&); }
}  // namespace at::cuda

// Constant, so that a static variable of the host may begin with it; cuda.h has it as a macro.
#undef cuGetProcAddress
template <typename... A> constexpr CUresult cuGetProcAddress(A&&...) {
  if (!__builtin_is_constant_evaluated()) host_code_called_by_a_kernel();
  return CUDA_ERROR_NOT_FOUND;
}
template <typename... A> int aoti_torch_get_current_cuda_stream(A&&...);
template <typename... A> int torch_get_current_cuda_blas_handle(A&&...);

// Checks and choices of launchers are left out: they would make every kernel that a launcher may
// choose. What they look at is still compiled.
#define STD_TORCH_CHECK(CONDITION, ...) if (CONDITION) {}
#define TORCH_CHECK(CONDITION, ...) if (CONDITION) {}
#define TORCH_CHECK_NOT_IMPLEMENTED(CONDITION, ...) if (CONDITION) {}
#define TORCH_CHECK_EQ(A, B) ((void)((A) == (B)))
#define TORCH_CHECK_GE(A, B) ((void)((A) >= (B)))
#define TORCH_CHECK_GT(A, B) ((void)((A) > (B)))
#define TORCH_CHECK_LE(A, B) ((void)((A) <= (B)))
#define TORCH_CHECK_LT(A, B) ((void)((A) < (B)))
#define TORCH_INTERNAL_ASSERT(CONDITION, ...) ((void)(CONDITION))
#define TORCH_WARN(...) ((void)0)
#define TORCH_ERROR_CODE_CHECK(CALL) ((void)(CALL))
#define AT_ASSERTM(CONDITION, ...) if (CONDITION) {}
#define AT_ASSERT(CONDITION, ...) if (CONDITION) {}
#define AT_ERROR(...) ((void)0)
#define AT_CUDA_CHECK(CALL) ((void)(CALL))
#define C10_CUDA_CHECK(CALL) ((void)(CALL))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ((void)0)
#define STD_CUDA_CHECK(CALL) ((void)(CALL))
#define STD_CUDA_KERNEL_LAUNCH_CHECK() ((void)0)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_WARP_SIZE 32
#define C10_HOST __host__
#define C10_ALWAYS_INLINE __forceinline__
#define C10_LIKELY(VALUE) (VALUE)
#define C10_UNLIKELY(VALUE) (VALUE)
#define THO_PRIVATE_CASE_TYPE_USING_HINT(TYPE, HINT, ...)
#define THO_DISPATCH_CASE(TYPE, ...)
#define THO_DISPATCH_SWITCH(TYPE, NAME, ...) ((void)(TYPE))
#define AT_PRIVATE_CASE_TYPE_USING_HINT(TYPE, HINT, ...)
#define AT_DISPATCH_CASE(TYPE, ...)
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_ALL_TYPES_AND(MORE, TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_ALL_TYPES_AND2(MORE, TOO, TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_FLOATING_TYPES_AND(MORE, TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_FLOATING_TYPES_AND2(MORE, TOO, TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) ((void)(TYPE))
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...) ((void)(TYPE))

#define ASTRA_JOIN_(A, B) A##B
#define ASTRA_JOIN(A, B) ASTRA_JOIN_(A, B)
#define ASTRA_REGISTERS(M) template <typename T> void ASTRA_JOIN(astra_registers_, __LINE__)(T& M)
#define TORCH_LIBRARY(NAME, M) ASTRA_REGISTERS(M)
#define TORCH_LIBRARY_FRAGMENT(NAME, M) ASTRA_REGISTERS(M)
#define TORCH_LIBRARY_IMPL(NAME, KEY, M) ASTRA_REGISTERS(M)
#define STABLE_TORCH_LIBRARY(NAME, M) ASTRA_REGISTERS(M)
#define STABLE_TORCH_LIBRARY_FRAGMENT(NAME, M) ASTRA_REGISTERS(M)
#define STABLE_TORCH_LIBRARY_IMPL(NAME, KEY, M) ASTRA_REGISTERS(M)
#define PYBIND11_MODULE(NAME, M, ...) ASTRA_REGISTERS(M)
#define TORCH_BOX(FUNCTION) (FUNCTION)
