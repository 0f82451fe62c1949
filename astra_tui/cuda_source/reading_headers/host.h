// Stands for every header that a source includes and that is not to be had: the C++ library's
// containers, PyTorch's, tvm-ffi's. A source is read with it, never compiled; there are the names
// that launchers use, so that their expressions keep their form.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#pragma clang force_cuda_host_device begin

// A value of which nothing is known: anything may be done with it.
struct astra_any {
  template <typename... A> astra_any def(A&&...) const;
  template <typename... A> astra_any impl(A&&...) const;
  constexpr astra_any() {}
  template <typename T> constexpr astra_any(const T&) {}
  template <typename T> operator T() const;
  template <typename... A> astra_any operator()(A&&...) const;
  template <typename T> astra_any operator[](const T&) const;
  astra_any operator*() const;
  const astra_any* operator->() const;
  const astra_any* begin() const;
  const astra_any* end() const;
  template <typename... A> astra_any dtype(A&&...) const;
  template <typename... A> astra_any device(A&&...) const;
};
template <typename T> astra_any operator<<(const astra_any&, const T&);

namespace std {
template <typename T> constexpr T declval_value();
template <typename T> inline constexpr bool is_copy_constructible_v = true;
template <typename T> inline constexpr bool is_aggregate_v = __is_aggregate(T);
template <typename T> using remove_cvref_t = remove_cv_t<remove_reference_t<T>>;
template <typename T> using make_unsigned_t = typename make_unsigned<T>::type;
template <typename T> using underlying_type_t = typename underlying_type<T>::type;
template <typename T> using type_identity_t = T;
template <typename... T> using void_t = void;
template <typename A, typename...> using common_type_t = A;
template <size_t... I> using index_sequence = integer_sequence<size_t, I...>;
constexpr bool is_constant_evaluated() { return false; }

template <typename T> concept integral = is_integral_v<T>;
template <typename T> concept floating_point = is_floating_point_v<T>;
template <typename T> concept unsigned_integral = is_integral_v<T>;
template <typename T> concept signed_integral = is_integral_v<T>;
template <typename A, typename B> concept same_as = is_same_v<A, B>;
template <typename A, typename B> concept convertible_to = true;
template <typename A, typename B> concept derived_from = true;
template <typename T, typename... A> concept constructible_from = true;
template <typename F, typename... A> concept invocable = true;
template <typename T> constexpr bool has_single_bit(T x) { return x && !(x & (x - 1)); }
template <typename T> constexpr int bit_width(T x) { int n = 0; for (; x; x >>= 1) ++n; return n; }
template <typename T> constexpr T bit_ceil(T x) { T n = 1; while (n < x) n <<= 1; return n; }
template <typename T> constexpr T bit_floor(T x) { T n = 1; while (n * 2 <= x) n <<= 1; return n; }
template <typename T> constexpr int countr_zero(T x);
template <typename T> constexpr int countl_zero(T x);
template <typename T> constexpr int popcount(T x);
template <typename A, typename B> A bit_cast(const B&);
template <typename A, typename R> struct unary_function {
  typedef A argument_type;
  typedef R result_type;
};
template <typename A, typename B, typename R> struct binary_function {
  typedef A first_argument_type;
  typedef B second_argument_type;
  typedef R result_type;
};
template <typename A, typename B> constexpr auto lcm(A a, B b) { return a / gcd(a, b) * b; }
template <typename T> T* addressof(T&);
template <typename A, typename B> astra_any make_pair(A, B);
template <typename T, typename... A> astra_any make_unique(A&&...);
template <typename T, typename... A> astra_any make_shared(A&&...);
template <typename... A> astra_any make_tuple(A&&...);
template <typename... A> astra_any tie(A&&...);
template <size_t I, typename T> astra_any get(T&&);
template <typename T, typename... A> astra_any get_if(A&&...);
template <typename... A> astra_any visit(A&&...);
template <typename... A> astra_any apply(A&&...);
template <typename... A> astra_any to_string(A&&...);
template <typename... A> astra_any stoi(A&&...);
template <typename... A> void call_once(A&&...);
template <typename... A> astra_any for_each(A&&...);
template <typename... A> astra_any all_of(A&&...);
template <typename... A> astra_any any_of(A&&...);
template <typename... A> astra_any find(A&&...);
template <typename... A> void sort(A&&...);
template <typename... A> void fill(A&&...);
template <typename... A> void copy(A&&...);
template <typename T> T exchange(T&, T);
[[noreturn]] void terminate();
[[noreturn]] void abort();
using ::getenv; using ::atoi; using ::exit; using ::memcpy; using ::memset; using ::printf;

struct string {
  string();
  string(const char*, size_t = 0);
  string(const astra_any&);
  string& operator+=(const string&);
  char operator[](size_t) const;
  size_t size() const;
  bool empty() const;
  size_t find(const astra_any&, size_t = 0) const;
  size_t rfind(const astra_any&) const;
  string substr(size_t, size_t = 0) const;
  static constexpr size_t npos = -1;
  const char* c_str() const;
};
string operator+(const string&, const string&);
bool operator==(const string&, const string&);
bool operator==(const string&, const char*);
using string_view = string;
struct ostream : astra_any {};
template <typename T> ostream& operator<<(ostream&, const T&);
ostream& operator<<(ostream&, ostream& (*)(ostream&));
struct ostringstream : ostream { string str() const; };
using stringstream = ostringstream;
using istringstream = ostringstream;
namespace ranges {
#define ASTRA_RANGE(NAME) template <typename... A> astra_any NAME(A&&...);
ASTRA_RANGE(to) ASTRA_RANGE(empty) ASTRA_RANGE(max) ASTRA_RANGE(min) ASTRA_RANGE(find)
ASTRA_RANGE(end) ASTRA_RANGE(begin) ASTRA_RANGE(any_of) ASTRA_RANGE(all_of) ASTRA_RANGE(copy)
#undef ASTRA_RANGE
namespace views {
template <typename... A> astra_any transform(A&&...);
template <typename... A> astra_any iota(A&&...);
}  // namespace views
}  // namespace ranges
namespace views = ranges::views;
using ofstream = ostringstream;
using ifstream = ostringstream;
extern ostream cout, cerr, clog;
ostream& endl(ostream&);
ostream& flush(ostream&);
struct exception {
  exception(const astra_any& = {});
  virtual const char* what() const noexcept;
};
struct runtime_error : exception { using exception::exception; };
struct logic_error : exception { using exception::exception; };
struct invalid_argument : exception { using exception::exception; };
struct out_of_range : exception { using exception::exception; };
struct bad_alloc : exception { using exception::exception; };
enum memory_order { memory_order_relaxed, memory_order_acquire, memory_order_release,
  memory_order_acq_rel, memory_order_seq_cst };
struct mutex { void lock(); void unlock(); };
struct once_flag {};
template <typename T = mutex> struct lock_guard { lock_guard(T&); };
template <typename T = mutex> struct unique_lock { unique_lock(T&); };
template <typename T> struct astra_items {
  astra_items();
  astra_items(initializer_list<T>);
  template <typename... A> explicit astra_items(size_t, A...);
  T& operator[](size_t) const;
  T& at(size_t) const;
  T& front() const;
  T& back() const;
  T* data() const;
  T* begin() const;
  T* end() const;
  size_t size() const;
  bool empty() const;
  void push_back(const T&);
  template <typename... A> void emplace_back(A&&...);
  void resize(size_t);
  void reserve(size_t);
  void clear();
};
template <typename T, typename...> struct vector : astra_items<T> { using astra_items<T>::astra_items; };
template <typename T, typename...> struct deque : astra_items<T> { using astra_items<T>::astra_items; };
template <typename T, typename...> struct set : astra_items<T> { using astra_items<T>::astra_items; };
template <typename T, auto...> struct span : astra_items<T> { using astra_items<T>::astra_items; };
template <typename T, typename...> struct unordered_set : astra_items<T> {};
template <typename K, typename V, typename...> struct map : astra_items<V> {
  template <typename T> V& operator[](const T&) const;
  template <typename T> astra_any find(const T&) const;
};
template <typename K, typename V, typename...> struct unordered_map : map<K, V> {};
template <typename... T> struct tuple { tuple(const T&...); };
template <typename... T> struct variant : astra_any {};
template <typename F> struct function : astra_any { using astra_any::astra_any; };
struct nullopt_t {};
inline constexpr nullopt_t nullopt{};
template <typename T> struct optional {
  optional();
  optional(nullopt_t);
  optional(const T&);
  bool has_value() const;
  T& value() const;
  template <typename U> T value_or(const U&) const;
  T& operator*() const;
  T* operator->() const;
  explicit operator bool() const;
};
template <typename T, typename...> struct unique_ptr {
  T* get() const;
  T* operator->() const;
  T& operator*() const;
  explicit operator bool() const;
};
template <typename T> struct shared_ptr : unique_ptr<T> {};
template <typename T> struct atomic {
  atomic(T = {});
  T load(memory_order = memory_order_seq_cst) const;
  void store(T, memory_order = memory_order_seq_cst);
  T fetch_add(T, memory_order = memory_order_seq_cst);
  operator T() const;
};
struct source_location {
  static constexpr source_location current() { return {}; }
  const char* file_name() const;
  unsigned line() const;
};
}  // namespace std

namespace cuda {
template <typename T = void> struct maximum { template <typename A> A operator()(A, A) const; };
template <typename T = void> struct minimum { template <typename A> A operator()(A, A) const; };
namespace std { using namespace ::std; }
template <typename T, bool = false> struct fast_mod_div {
  explicit fast_mod_div(T);
  operator T() const;
};
template <typename... A> struct atomic_ref : astra_any { using astra_any::astra_any; };
}  // namespace cuda

namespace cub {
struct astra_collective {
  struct TempStorage {};
  template <typename... A> astra_collective(A&&...);
  template <typename... A> void Load(A&&...);
  template <typename... A> void Store(A&&...);
  template <typename... A> void Sort(A&&...);
  template <typename... A> void SortDescending(A&&...);
  template <typename... A> void InclusiveSum(A&&...);
  template <typename... A> void ExclusiveSum(A&&...);
  template <typename... A> void InclusiveScan(A&&...);
  template <typename... A> void ExclusiveScan(A&&...);
  template <typename... A> void SubtractLeft(A&&...);
  template <typename... A> void FlagHeads(A&&...);
};
template <typename T> struct astra_reducer : astra_collective {
  using astra_collective::astra_collective;
  template <typename... A> T Reduce(A&&...);
  template <typename... A> T Sum(A&&...);
};
enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS,
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_WARP_SCANS, BLOCK_SCAN_RAKING_MEMOIZE };
enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_STRIPED, BLOCK_LOAD_WARP_TRANSPOSE };
enum BlockStoreAlgorithm { BLOCK_STORE_DIRECT, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_STRIPED, BLOCK_STORE_WARP_TRANSPOSE };
template <typename T, int N, auto... O> struct BlockReduce : astra_reducer<T> {
  using astra_reducer<T>::astra_reducer;
};
template <typename T, auto... O> struct WarpReduce : astra_reducer<T> {
  using astra_reducer<T>::astra_reducer;
};
template <typename T, int N, auto... O> struct BlockScan : astra_collective {
  using astra_collective::astra_collective;
};
template <typename T, auto... O> struct WarpScan : astra_collective {
  using astra_collective::astra_collective;
};
template <typename T, int N, int I, auto... O> struct BlockLoad : astra_collective {
  using astra_collective::astra_collective;
};
template <typename T, int N, int I, auto... O> struct BlockStore : astra_collective {
  using astra_collective::astra_collective;
};
template <typename T, int N, int I, typename V = int, auto... O>
struct BlockRadixSort : astra_collective { using astra_collective::astra_collective; };
template <typename T, int N, auto... O> struct BlockAdjacentDifference : astra_collective {
  using astra_collective::astra_collective;
};
template <typename T, int N, auto... O> struct BlockDiscontinuity : astra_collective {
  using astra_collective::astra_collective;
};
struct Sum { template <typename T> T operator()(T a, T b) const; };
struct Max { template <typename T> T operator()(T a, T b) const; };
struct Min { template <typename T> T operator()(T a, T b) const; };
struct ArgMax { template <typename T> T operator()(T a, T b) const; };
template <typename K, typename V> struct KeyValuePair { K key; V value; };
template <typename T> struct Traits { static constexpr int CATEGORY = 0; };
}  // namespace cub

// PyTorch's tensors, as far as launchers ask them for sizes, strides and pointers.
namespace c10 {
enum class ScalarType : int { Byte, Char, Short, Int, Long, Half, Float, Double, Bool, BFloat16,
  Float8_e4m3fn, Float8_e5m2, Float8_e4m3fnuz, UInt16, UInt32, UInt64, Undefined };
using DeviceIndex = int;
using IntArrayRef = std::vector<int64_t>;
template <typename T> using ArrayRef = std::vector<T>;
template <typename T> using optional = std::optional<T>;
inline constexpr auto nullopt = std::nullopt;
struct Stream : astra_any { cudaStream_t stream() const; operator cudaStream_t() const; };
struct Device : astra_any { int index() const; bool is_cuda() const; bool is_cpu() const; };
struct Half;
struct BFloat16;
struct Float8_e4m3fn;
struct Float8_e4m3fnuz;
struct Float8_e5m2;
struct Guard { template <typename... A> Guard(A&&...); };
template <typename T> struct DefaultPtrTraits {};
template <typename T> struct RestrictPtrTraits {};
template <typename T, size_t N, template <typename> class P = DefaultPtrTraits>
struct PackedTensorAccessor32 : astra_any { int size(int) const; int stride(int) const; };
template <typename T, size_t N, template <typename> class P = DefaultPtrTraits>
struct PackedTensorAccessor64 : astra_any { int64_t size(int) const; int64_t stride(int) const; };
struct Tensor {
  int64_t size(int64_t) const;
  int64_t stride(int64_t) const;
  int64_t numel() const;
  int64_t dim() const;
  int64_t ndim() const;
  int64_t shape(int64_t) const;
  int64_t element_size() const;
  int64_t itemsize() const;
  int64_t storage_offset() const;
  std::vector<int64_t> sizes() const;
  std::vector<int64_t> strides() const;
  ScalarType scalar_type() const;
  astra_any dtype() const;
  astra_any options() const;
  Device device() const;
  int get_device() const;
  int get_device_index() const;
  bool is_contiguous() const;
  bool is_cuda() const;
  bool defined() const;
  bool has_value() const;
  Tensor contiguous() const;
  int64_t ndimension() const;
  int64_t nbytes() const;
  astra_any type() const;
  template <typename T = astra_any> T item() const;
#define ASTRA_TENSOR(NAME) \
  template <typename... A> Tensor NAME(A&&...) const; \
  template <typename... A> Tensor NAME(std::initializer_list<int64_t>, A&&...) const;
  ASTRA_TENSOR(view) ASTRA_TENSOR(reshape) ASTRA_TENSOR(to) ASTRA_TENSOR(slice)
  ASTRA_TENSOR(select) ASTRA_TENSOR(narrow) ASTRA_TENSOR(index) ASTRA_TENSOR(flatten)
  ASTRA_TENSOR(squeeze) ASTRA_TENSOR(unsqueeze) ASTRA_TENSOR(expand) ASTRA_TENSOR(permute)
  ASTRA_TENSOR(transpose) ASTRA_TENSOR(t) ASTRA_TENSOR(clone) ASTRA_TENSOR(cpu) ASTRA_TENSOR(cuda)
  ASTRA_TENSOR(max) ASTRA_TENSOR(min) ASTRA_TENSOR(sum) ASTRA_TENSOR(mean) ASTRA_TENSOR(cumsum)
  ASTRA_TENSOR(any) ASTRA_TENSOR(all) ASTRA_TENSOR(zero_) ASTRA_TENSOR(fill_) ASTRA_TENSOR(copy_)
  ASTRA_TENSOR(resize_) ASTRA_TENSOR(new_empty) ASTRA_TENSOR(new_zeros) ASTRA_TENSOR(new_ones)
  ASTRA_TENSOR(new_full) ASTRA_TENSOR(repeat) ASTRA_TENSOR(index_select)
  ASTRA_TENSOR(masked_select) ASTRA_TENSOR(view_as) ASTRA_TENSOR(expand_as)
#undef ASTRA_TENSOR
  template <typename T> T* data() const;
  void* data_ptr() const;
  template <typename T> T* data_ptr() const;
  template <typename T> const T* const_data_ptr() const;
  template <typename T> T* mutable_data_ptr() const;
  void* const_data_ptr() const;
  void* mutable_data_ptr() const;
  template <typename T, size_t N, template <typename> class P = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, P> packed_accessor32() const;
  template <typename T, size_t N, template <typename> class P = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, P> packed_accessor64() const;
};
template <ScalarType T> struct astra_type { using type = float; };
}  // namespace c10

namespace at {
using namespace c10;
using c10::Tensor;
namespace cuda {
Stream getCurrentCUDAStream(int = 0);
using OptionalCUDAGuard = Guard;
using CUDAGuard = Guard;
cudaDeviceProp* getCurrentDeviceProperties();
cudaDeviceProp* getDeviceProperties(int);
}  // namespace cuda
#define ASTRA_MAKES(NAME) \
  template <typename... A> Tensor NAME(A&&...); \
  template <typename... A> Tensor NAME(std::initializer_list<int64_t>, A&&...);
ASTRA_MAKES(empty) ASTRA_MAKES(zeros) ASTRA_MAKES(ones) ASTRA_MAKES(full) ASTRA_MAKES(rand)
ASTRA_MAKES(randn) ASTRA_MAKES(arange) ASTRA_MAKES(empty_like) ASTRA_MAKES(zeros_like)
ASTRA_MAKES(ones_like) ASTRA_MAKES(full_like)
#undef ASTRA_MAKES
template <typename... A> Tensor cat(std::initializer_list<Tensor>, A&&...);
template <typename... A> Tensor cat(A&&...);
template <typename... A> Tensor stack(std::initializer_list<Tensor>, A&&...);
template <typename... A> Tensor stack(A&&...);
inline constexpr astra_any kFloat, kHalf, kBFloat16, kInt, kLong, kByte, kCUDA, kBool;
}  // namespace at
namespace c10 { namespace cuda { using namespace at::cuda; } }

namespace torch {
using namespace at;
using at::Tensor;
namespace stable {
using at::Tensor;
using at::Device;
template <typename... A> Tensor empty(A&&...);
template <typename... A> Tensor empty(std::initializer_list<int64_t>, A&&...);
template <typename... A> Tensor new_empty(A&&...);
template <typename... A>
Tensor new_empty(const Tensor&, std::initializer_list<int64_t>, A&&...);
template <typename... A> Tensor new_zeros(A&&...);
template <typename... A>
Tensor new_zeros(const Tensor&, std::initializer_list<int64_t>, A&&...);
template <typename... A> Tensor empty_like(A&&...);
template <typename... A> Tensor transpose(A&&...);
template <typename... A> Tensor reshape(A&&...);
template <typename... A> Tensor view(A&&...);
template <typename... A> Tensor contiguous(A&&...);
template <typename... A> void fill_(A&&...);
template <typename... A> void zero_(A&&...);
template <typename... A> void copy_(A&&...);
namespace accelerator {
using DeviceIndex = int;
using DeviceGuard = at::Guard;
template <typename... A> astra_any getCurrentStream(A&&...);
template <typename... A> astra_any getCurrentDeviceIndex(A&&...);
}  // namespace accelerator
}  // namespace stable
namespace headeronly {
using namespace c10;
using HeaderOnlyArrayRef = c10::IntArrayRef;
using IntHeaderOnlyArrayRef = c10::IntArrayRef;
}  // namespace headeronly
inline constexpr astra_any kFloat32, kFloat16, kInt32, kInt64, kUInt8, kInt8;
}  // namespace torch
typedef void* cublasHandle_t;
template <typename... A> int aoti_torch_get_current_cuda_stream(A&&...);
template <typename... A> int torch_get_current_cuda_blas_handle(A&&...);
typedef int cublasStatus_t;
#define TORCH_ERROR_CODE_CHECK(...) ((void)(__VA_ARGS__))

#define TORCH_CHECK(...) ((void)0)
#define TORCH_CHECK_NOT_IMPLEMENTED(...) ((void)0)
#define TORCH_INTERNAL_ASSERT(...) ((void)0)
#define STD_TORCH_CHECK(...) ((void)0)
#define STD_TORCH_CHECK_NOT_IMPLEMENTED(...) ((void)0)
#define AT_ASSERTM(...) ((void)0)
#define AT_ASSERT(...) ((void)0)
#define AT_ERROR(...) ((void)0)
#define AT_CUDA_CHECK(...) (__VA_ARGS__)
#define C10_CUDA_CHECK(...) (__VA_ARGS__)
#define STD_CUDA_CHECK(...) (__VA_ARGS__)
#define STD_CUDA_KERNEL_LAUNCH_CHECK() ((void)0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ((void)0)
#define TORCH_LIBRARY(NAME, M) static void astra_library_##NAME(astra_any M)
#define TORCH_LIBRARY_FRAGMENT(NAME, M) static void astra_fragment_##NAME(astra_any M)
#define STABLE_TORCH_LIBRARY_IMPL(NAME, KEY, M) static void astra_impl_##NAME##KEY(astra_any M)
#define STABLE_TORCH_LIBRARY_FRAGMENT(NAME, M) static void astra_fragment_##NAME(astra_any M)
#define TORCH_BOX(F) F
#define PYBIND11_MODULE(NAME, M) static void astra_module_##NAME(astra_any M)
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(NAME, F) static_assert(true)
#define TVM_FFI_STATIC_INIT_BLOCK(...) static_assert(true)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_WARP_SIZE 32
#define C10_ALWAYS_INLINE inline
#define C10_UNLIKELY(X) (X)
#define C10_LIKELY(X) (X)
#define TORCH_API
#define C10_EXPORT

// A dispatch over types becomes one block a type, in which the type has its name.
#define AT_PRIVATE_CASE_TYPE_USING_HINT(ENUM, NAME, ...) \
  { using NAME = typename c10::astra_type<ENUM>::type; (__VA_ARGS__)(); }
#define AT_DISPATCH_CASE(ENUM, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(ENUM, scalar_t, __VA_ARGS__)
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...) { __VA_ARGS__ }
#define THO_PRIVATE_CASE_TYPE_USING_HINT AT_PRIVATE_CASE_TYPE_USING_HINT
#define THO_DISPATCH_CASE AT_DISPATCH_CASE
#define THO_DISPATCH_SWITCH AT_DISPATCH_SWITCH
#define ASTRA_CASE(NAME, ...) AT_DISPATCH_CASE(c10::ScalarType::NAME, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES(...) \
  ASTRA_CASE(Double, __VA_ARGS__) ASTRA_CASE(Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...) \
  ASTRA_CASE(Byte, __VA_ARGS__) ASTRA_CASE(Char, __VA_ARGS__) ASTRA_CASE(Short, __VA_ARGS__) \
  ASTRA_CASE(Int, __VA_ARGS__) ASTRA_CASE(Long, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  { AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) }
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  { AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) ASTRA_CASE(Half, __VA_ARGS__) }
#define AT_DISPATCH_FLOATING_TYPES_AND(A, TYPE, NAME, ...) \
  { AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__) }
#define AT_DISPATCH_FLOATING_TYPES_AND2(A, B, TYPE, NAME, ...) \
  { AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__) \
    AT_DISPATCH_CASE(B, __VA_ARGS__) }
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) { AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) }
#define AT_DISPATCH_ALL_TYPES_AND(A, TYPE, NAME, ...) \
  { AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__) }
#define AT_DISPATCH_ALL_TYPES_AND2(A, B, TYPE, NAME, ...) \
  { AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__) \
    AT_DISPATCH_CASE(B, __VA_ARGS__) }
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) \
  { ASTRA_CASE(Half, __VA_ARGS__) ASTRA_CASE(BFloat16, __VA_ARGS__) }
#define VLLM_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  { ASTRA_CASE(Float, __VA_ARGS__) ASTRA_CASE(Half, __VA_ARGS__) ASTRA_CASE(BFloat16, __VA_ARGS__) }
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  { AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) }
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...) \
  { AT_PRIVATE_CASE_TYPE_USING_HINT(c10::ScalarType::Int, index_t, __VA_ARGS__) \
    AT_PRIVATE_CASE_TYPE_USING_HINT(c10::ScalarType::Long, index_t, __VA_ARGS__) }

namespace c10 {
#define ASTRA_ELEMENT(NAME, BASE) \
  using BASE::BASE; \
  struct from_bits_t {}; \
  static constexpr from_bits_t from_bits() { return {}; } \
  NAME(const BASE&); \
  NAME(unsigned, from_bits_t);
struct Half : __half { ASTRA_ELEMENT(Half, __half) };
struct BFloat16 : __nv_bfloat16 { ASTRA_ELEMENT(BFloat16, __nv_bfloat16) };
struct Float8_e4m3fn : __nv_fp8_e4m3 { ASTRA_ELEMENT(Float8_e4m3fn, __nv_fp8_e4m3) };
struct Float8_e4m3fnuz : __nv_fp8_e4m3 { ASTRA_ELEMENT(Float8_e4m3fnuz, __nv_fp8_e4m3) };
struct Float8_e5m2 : __nv_fp8_e5m2 { ASTRA_ELEMENT(Float8_e5m2, __nv_fp8_e5m2) };
#undef ASTRA_ELEMENT
#define ASTRA_TYPE(NAME, TYPE) \
  template <> struct astra_type<ScalarType::NAME> { using type = TYPE; };
ASTRA_TYPE(Half, Half)
ASTRA_TYPE(BFloat16, BFloat16)
ASTRA_TYPE(Double, double)
ASTRA_TYPE(Byte, uint8_t)
ASTRA_TYPE(Char, int8_t)
ASTRA_TYPE(Short, int16_t)
ASTRA_TYPE(Int, int32_t)
ASTRA_TYPE(Long, int64_t)
ASTRA_TYPE(Bool, bool)
ASTRA_TYPE(UInt16, uint16_t)
ASTRA_TYPE(UInt32, uint32_t)
ASTRA_TYPE(UInt64, uint64_t)
ASTRA_TYPE(Float8_e4m3fn, Float8_e4m3fn)
ASTRA_TYPE(Float8_e5m2, Float8_e5m2)
#undef ASTRA_TYPE
}  // namespace c10

// tvm-ffi and DLPack, which FlashInfer and SGLang take their tensors by.
extern "C" {
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLOpenCL = 4,
  kDLVulkan = 7, kDLMetal = 8, kDLVPI = 9, kDLROCM = 10, kDLROCMHost = 11, kDLExtDev = 12,
  kDLCUDAManaged = 13, kDLOneAPI = 14, kDLWebGPU = 15, kDLHexagon = 16, kDLMAIA = 17,
  kDLTrn = 18 } DLDeviceType;
typedef struct { DLDeviceType device_type; int32_t device_id; } DLDevice;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6,
  kDLFloat8_e4m3fn = 10, kDLFloat8_e5m2 = 12, kDLFloat4_e2m1fn = 17 } DLDataTypeCode;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct { void* data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t* shape;
  int64_t* strides; uint64_t byte_offset; } DLTensor;
}
namespace tvm { namespace ffi {
struct TensorView : c10::Tensor {
  TensorView();
  TensorView(const astra_any&);
  DLDevice device() const;
  DLDataType dtype() const;
  std::vector<int64_t> shape() const;
  std::vector<int64_t> strides() const;
  int64_t size(int64_t) const;
  int64_t stride(int64_t) const;
};
using Tensor = TensorView;
template <typename T> using Optional = std::optional<T>;
template <typename T> using Array = std::vector<T>;
template <typename... T> using Tuple = std::tuple<T...>;
template <typename... T> using Variant = std::variant<T...>;
using Any = astra_any;
using String = std::string;
using Shape = std::vector<int64_t>;
using ShapeView = std::vector<int64_t>;
struct Error : std::exception { template <typename... A> Error(A&&...); };
} }  // namespace tvm::ffi
#define TVM_FFI_ICHECK(...) astra_any()
#define TVM_FFI_ICHECK_EQ(...) astra_any()
#define TVM_FFI_ICHECK_GE(...) astra_any()
#define TVM_FFI_THROW(...) astra_any()
extern "C" void* TVMFFIEnvGetStream(int, int);
#pragma clang force_cuda_host_device end
