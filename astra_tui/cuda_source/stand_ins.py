"""In-memory stand-ins for the C and C++ headers that NVRTC does not have.

Kernels include them for a handful of names; with these they compile unchanged. Everything is
guarded so that CUDA's own C++ library (cuda/std/...) can be included as well.
"""

from __future__ import annotations

_INTEGERS = """\
#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef long long intmax_t;
typedef unsigned long long uintmax_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#ifndef INT32_MAX
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define SIZE_MAX 18446744073709551615UL
#endif
"""

_IN_STD = """\
#pragma once
#include <cstddef>
#include <stdint.h>
namespace std {
using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t;
using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t;
}
"""

_SIZES_IN_STD = """\
#pragma once
#include <stddef.h>
namespace std { using ::size_t; using ::ptrdiff_t; }
"""

_SIZES = """\
#pragma once
typedef decltype(sizeof(0)) size_t;
typedef long ptrdiff_t;
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
"""

_MATH = """\
#pragma once
#ifndef INFINITY
#define INFINITY (__int_as_float(0x7f800000))
#endif
#ifndef NAN
#define NAN (__int_as_float(0x7fffffff))
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
"""

_MATH_IN_STD = """\
#pragma once
#include <math.h>
namespace std {
using ::abs; using ::fabs; using ::fmod; using ::fma; using ::fmax; using ::fmin;
using ::exp; using ::exp2; using ::expm1; using ::log; using ::log2; using ::log10; using ::log1p;
using ::pow; using ::sqrt; using ::cbrt; using ::hypot; using ::sin; using ::cos; using ::tan;
using ::asin; using ::acos; using ::atan; using ::atan2; using ::sinh; using ::cosh; using ::tanh;
using ::erf; using ::erfc; using ::tgamma; using ::lgamma; using ::ceil; using ::floor;
using ::trunc; using ::round; using ::rint; using ::nearbyint; using ::copysign;
using ::isfinite; using ::isinf; using ::isnan; using ::signbit;
}
"""

_FLOAT = """\
#pragma once
#ifndef FLT_MAX
#define FLT_MAX 3.40282346638528859812e+38f
#define FLT_MIN 1.17549435082228750797e-38f
#define FLT_EPSILON 1.19209289550781250000e-07f
#define DBL_MAX 1.79769313486231570815e+308
#define DBL_MIN 2.22507385850720138309e-308
#define DBL_EPSILON 2.22044604925031308085e-16
#endif
"""

_LIMITS = """\
#pragma once
#ifndef INT_MAX
#define CHAR_BIT 8
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295U
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-9223372036854775807L - 1)
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define ULLONG_MAX 18446744073709551615ULL
#endif
"""

_NUMERIC_LIMITS = """\
#pragma once
#include <float.h>
#include <limits.h>
namespace std {
template <typename T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define ASTRA_INTEGER_LIMITS(T, LOW, HIGH) \\
  template <> struct numeric_limits<T> { \\
    static constexpr bool is_specialized = true; \\
    static constexpr bool is_integer = true; \\
    static constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(0); \\
    static constexpr bool has_infinity = false; \\
    __host__ __device__ static constexpr T min() { return LOW; } \\
    __host__ __device__ static constexpr T lowest() { return LOW; } \\
    __host__ __device__ static constexpr T max() { return HIGH; } \\
  };
ASTRA_INTEGER_LIMITS(bool, false, true)
ASTRA_INTEGER_LIMITS(char, CHAR_MIN, CHAR_MAX)
ASTRA_INTEGER_LIMITS(signed char, -128, 127)
ASTRA_INTEGER_LIMITS(unsigned char, 0, 255)
ASTRA_INTEGER_LIMITS(short, -32768, 32767)
ASTRA_INTEGER_LIMITS(unsigned short, 0, 65535)
ASTRA_INTEGER_LIMITS(int, INT_MIN, INT_MAX)
ASTRA_INTEGER_LIMITS(unsigned int, 0, UINT_MAX)
ASTRA_INTEGER_LIMITS(long, LONG_MIN, LONG_MAX)
ASTRA_INTEGER_LIMITS(unsigned long, 0, ULONG_MAX)
ASTRA_INTEGER_LIMITS(long long, LLONG_MIN, LLONG_MAX)
ASTRA_INTEGER_LIMITS(unsigned long long, 0, ULLONG_MAX)
#undef ASTRA_INTEGER_LIMITS
#define ASTRA_FLOAT_LIMITS(T, LEAST, MOST, STEP, INF, NO) \\
  template <> struct numeric_limits<T> { \\
    static constexpr bool is_specialized = true; \\
    static constexpr bool is_integer = false; \\
    static constexpr bool is_signed = true; \\
    static constexpr bool has_infinity = true; \\
    __host__ __device__ static constexpr T min() { return LEAST; } \\
    __host__ __device__ static constexpr T lowest() { return -MOST; } \\
    __host__ __device__ static constexpr T max() { return MOST; } \\
    __host__ __device__ static constexpr T epsilon() { return STEP; } \\
    __host__ __device__ static constexpr T infinity() { return __builtin_bit_cast(T, INF); } \\
    __host__ __device__ static constexpr T quiet_NaN() { return __builtin_bit_cast(T, NO); } \\
  };
ASTRA_FLOAT_LIMITS(float, FLT_MIN, FLT_MAX, FLT_EPSILON, 0x7f800000, 0x7fffffff)
ASTRA_FLOAT_LIMITS(double, DBL_MIN, DBL_MAX, DBL_EPSILON, \\
                   0x7ff0000000000000ULL, 0x7fffffffffffffffULL)
#undef ASTRA_FLOAT_LIMITS
}
"""

# May be included again, with or without NDEBUG, as in C.
_ASSERT = """\
extern "C" __device__ void __assertfail(const char* message, const char* file, unsigned int line,
                                        const char* function, decltype(sizeof(0)) char_size);
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \\
  ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, 1))
#endif
"""

_UTILITY = """\
#pragma once
namespace std {
template <typename T> __host__ __device__ constexpr void swap(T& a, T& b) {
  T kept = a;
  a = b;
  b = kept;
}
}
"""

_ALGORITHM = """\
#pragma once
#include <utility>
namespace std {
template <typename T> __host__ __device__ constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <typename T> __host__ __device__ constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <typename T>
__host__ __device__ constexpr const T& clamp(const T& v, const T& low, const T& high) {
  return v < low ? low : high < v ? high : v;
}
}
"""

_ARRAY = """\
#pragma once
#include <cstddef>
namespace std {
template <typename T, size_t N> struct array {
  using value_type = T;
  using size_type = size_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;
  T astra_items[N ? N : 1];
  __host__ __device__ constexpr T& operator[](size_t i) { return astra_items[i]; }
  __host__ __device__ constexpr const T& operator[](size_t i) const { return astra_items[i]; }
  __host__ __device__ constexpr T& front() { return astra_items[0]; }
  __host__ __device__ constexpr const T& front() const { return astra_items[0]; }
  __host__ __device__ constexpr T& back() { return astra_items[N - 1]; }
  __host__ __device__ constexpr const T& back() const { return astra_items[N - 1]; }
  __host__ __device__ constexpr T* data() { return astra_items; }
  __host__ __device__ constexpr const T* data() const { return astra_items; }
  __host__ __device__ constexpr T* begin() { return astra_items; }
  __host__ __device__ constexpr const T* begin() const { return astra_items; }
  __host__ __device__ constexpr T* end() { return astra_items + N; }
  __host__ __device__ constexpr const T* end() const { return astra_items + N; }
  __host__ __device__ constexpr size_t size() const { return N; }
  __host__ __device__ constexpr bool empty() const { return N == 0; }
  __host__ __device__ constexpr void fill(const T& value) {
    for (size_t i = 0; i < N; ++i) astra_items[i] = value;
  }
};
template <typename T, typename... Ts> array(T, Ts...) -> array<T, 1 + sizeof...(Ts)>;
}
"""

_NUMERIC = """\
#pragma once
namespace std {
template <typename I, typename T> __host__ __device__ constexpr T accumulate(I at, I end, T sum) {
  for (; at != end; ++at) sum = sum + *at;
  return sum;
}
template <typename I, typename T, typename F>
__host__ __device__ constexpr T accumulate(I at, I end, T sum, F join) {
  for (; at != end; ++at) sum = join(sum, *at);
  return sum;
}
template <typename I, typename T> __host__ __device__ constexpr void iota(I at, I end, T value) {
  for (; at != end; ++at, ++value) *at = value;
}
template <typename A, typename B> __host__ __device__ constexpr auto gcd(A a, B b) {
  decltype(a + b) x = a < 0 ? -a : a, y = b < 0 ? -b : b;
  while (y != 0) {
    const auto rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}
}
"""

_TYPE_TRAITS = """\
#pragma once
namespace std {
template <typename T, T V> struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  __host__ __device__ constexpr operator T() const { return V; }
};
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;
template <typename A, typename B> struct is_same : false_type {};
template <typename A> struct is_same<A, A> : true_type {};
template <typename A, typename B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <bool C, typename A, typename B> struct conditional { using type = A; };
template <typename A, typename B> struct conditional<false, A, B> { using type = B; };
template <bool C, typename A, typename B>
using conditional_t = typename conditional<C, A, B>::type;
template <bool C, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { using type = T; };
template <bool C, typename T = void> using enable_if_t = typename enable_if<C, T>::type;
template <typename T> struct remove_const { using type = T; };
template <typename T> struct remove_const<const T> { using type = T; };
template <typename T> struct remove_reference { using type = T; };
template <typename T> struct remove_reference<T&> { using type = T; };
template <typename T> struct remove_reference<T&&> { using type = T; };
template <typename T> struct remove_volatile { using type = T; };
template <typename T> struct remove_volatile<volatile T> { using type = T; };
template <typename T> using remove_const_t = typename remove_const<T>::type;
template <typename T> using remove_reference_t = typename remove_reference<T>::type;
template <typename T> using remove_volatile_t = typename remove_volatile<T>::type;
template <typename T> struct remove_cv { using type = remove_const_t<remove_volatile_t<T>>; };
template <typename T> using remove_cv_t = typename remove_cv<T>::type;
template <typename T> struct astra_decay { using type = remove_cv_t<T>; };
template <typename T> struct astra_decay<T[]> { using type = T*; };
template <typename T, decltype(sizeof(0)) N> struct astra_decay<T[N]> { using type = T*; };
template <typename T> struct decay : astra_decay<remove_reference_t<T>> {};
template <typename T> using decay_t = typename decay<T>::type;
template <bool B> using bool_constant = integral_constant<bool, B>;
template <typename T, typename... Ts>
inline constexpr bool astra_is_one_of = (is_same_v<remove_cv_t<T>, Ts> || ...);
template <typename T> struct is_floating_point
    : bool_constant<astra_is_one_of<T, float, double, long double>> {};
template <typename T> struct is_integral
    : bool_constant<astra_is_one_of<T, bool, char, signed char, unsigned char, wchar_t, short,
                                    unsigned short, int, unsigned int, long, unsigned long,
                                    long long, unsigned long long>> {};
template <typename T> struct is_arithmetic
    : bool_constant<is_floating_point<T>::value || is_integral<T>::value> {};
template <typename T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <typename T> inline constexpr bool is_integral_v = is_integral<T>::value;
template <typename T> inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <typename T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <typename T>
inline constexpr bool is_trivially_copyable_v = is_trivially_copyable<T>::value;
}
"""

_PRELUDE = """\
#pragma once
#include <cmath>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
// nvcc has these from the host's <sys/types.h>.
typedef unsigned short ushort;
typedef unsigned int uint;
// nvcc takes it for a function of the host: constants may use it, code that runs here may not.
__device__ int builtin_clz_is_for_constants_use_clz();
__host__ __device__ constexpr int __builtin_clz(unsigned int value) {
  int zeros = 32;
  if (!__builtin_is_constant_evaluated()) return builtin_clz_is_for_constants_use_clz();
  for (; value; value >>= 1) --zeros;
  return zeros;
}
// Templates: cuda_device_runtime_api.h, where it is included, has the same as functions.
template <int = 0>
__device__ __forceinline__ void cudaGridDependencySynchronize() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
template <int = 0>
__device__ __forceinline__ void cudaTriggerProgrammaticLaunchCompletion() {
  asm volatile("griddepcontrol.launch_dependents;");
}
"""

_CUB = """\
#pragma once
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>
"""

_EMPTY = "#pragma once\n"

PRELUDE_NAME = "astra_tui_prelude.h"
"""What nvcc includes in every file by itself (through cuda_runtime.h), and NVRTC does not."""

EXTRA_NAME = "astra_tui_extra.h"
"""A header that one compilation may have of its own."""

STAND_INS: dict[str, str] = {
    PRELUDE_NAME: _PRELUDE,
    "stdint.h": _INTEGERS,
    "cstdint": _IN_STD,
    "stddef.h": _SIZES,
    "cstddef": _SIZES_IN_STD,
    "math.h": _MATH,
    "cmath": _MATH_IN_STD,
    "float.h": _FLOAT,
    "cfloat": _FLOAT,
    "limits.h": _LIMITS,
    "climits": _LIMITS,
    "limits": _NUMERIC_LIMITS,
    "assert.h": _ASSERT,
    "cassert": _ASSERT,
    "algorithm": _ALGORITHM,
    "array": _ARRAY,
    "numeric": _NUMERIC,
    "exception": _EMPTY,
    "version": _EMPTY,
    "type_traits": _TYPE_TRAITS,
    "stdio.h": _EMPTY,
    "cstdio": _EMPTY,
    "stdlib.h": _EMPTY,
    "cstdlib": _EMPTY,
    "string.h": _EMPTY,
    "cstring": _EMPTY,
    "utility": _UTILITY,
    "initializer_list": _EMPTY,
    "stdbool.h": _EMPTY,
    "iostream": _EMPTY,
    "cub/cub.cuh": _CUB,
}
"""Header name to text. The empty ones hold what NVRTC knows by itself, or only host code needs;
NVRTC refuses CUB as a whole for the sake of its host code."""
