"""Stand-ins for the host side of headers that hold kernels and their launchers together.

NVRTC has no C++ standard library. What CUDA's own (libcu++) has is taken from there; of the rest,
which only launchers use, there are the names, so that a header compiles. None of it is ever run.
"""

from __future__ import annotations

_IN_LIBCUDACXX = (
    *("algorithm", "array", "bit", "concepts", "functional", "iterator", "limits", "memory"),
    *("numeric", "optional", "ranges", "ratio", "span", "string_view", "tuple", "type_traits"),
    *("utility", "variant", "source_location", "cstddef", "cstdint", "climits", "cfloat"),
    *("cmath", "cassert", "initializer_list", "atomic"),
)

_ALIASED = """\
#pragma once
#include <cuda/std/{0}>
namespace std {{ using namespace cuda::std; }}
"""

_TYPES = """\
#pragma once
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#include <cuda_runtime.h>
#define ASTRA_HOST(NAME) template <typename... A> cudaError_t NAME(A&&...);
ASTRA_HOST(cudaGetDeviceProperties)
ASTRA_HOST(cudaOccupancyMaxPotentialClusterSize)
ASTRA_HOST(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
ASTRA_HOST(cudaHostGetDevicePointer)
ASTRA_HOST(cudaOccupancyAvailableDynamicSMemPerBlock)
ASTRA_HOST(cudaFuncSetAttribute)
ASTRA_HOST(cudaLaunchKernelEx)
ASTRA_HOST(cudaRuntimeGetVersion)
ASTRA_HOST(cudaDeviceGetAttribute)
ASTRA_HOST(cudaGetLastError)
#undef ASTRA_HOST
template <typename... A> const char* cudaGetErrorString(A&&...);
#define throw (void)
"""

_EXCEPTIONS = """\
#pragma once
namespace std {
struct exception {
  virtual ~exception() {}
  virtual const char* what() const noexcept { return ""; }
};
struct runtime_error : exception { template <typename T> explicit runtime_error(const T&) {} };
struct logic_error : runtime_error { using runtime_error::runtime_error; };
struct invalid_argument : logic_error { using logic_error::logic_error; };
[[noreturn]] void terminate() noexcept;
}
"""

_STRING = """\
#pragma once
#include <cuda/std/string_view>
namespace std {
struct string {
  string() = default;
  string(const char*) {}
  const char* c_str() const { return ""; }
  decltype(sizeof(0)) size() const { return 0; }
  operator cuda::std::string_view() const { return {}; }
  string& operator+=(const string&) { return *this; }
  friend string operator+(const string& a, const string&) { return a; }
  friend bool operator==(const string&, const string&) { return false; }
};
template <typename T> string to_string(const T&) { return {}; }
}
"""

_STREAMS = """\
#pragma once
#include <stdexcept>
#include <string>
namespace std {
struct ostream {
  template <typename T> ostream& operator<<(const T&) { return *this; }
  ostream& operator<<(ostream& (*)(ostream&)) { return *this; }
};
struct ostringstream : ostream { string str() const { return {}; } };
struct stringstream : ostringstream {};
extern ostream cout, cerr;
ostream& endl(ostream&);
}
"""

_VECTOR = """\
#pragma once
namespace std {
template <typename T> struct vector {
  T* data() const { return nullptr; }
  decltype(sizeof(0)) size() const { return 0; }
  T& operator[](decltype(sizeof(0))) const;
  T* begin() const { return nullptr; }
  T* end() const { return nullptr; }
};
}
"""

TYPES_NAME = "astra_tui_types.h"
"""Names that nvcc has from the system's own headers."""

HOST_HEADERS: dict[str, str] = {
    TYPES_NAME: _TYPES,
    **{name: _ALIASED.format(name) for name in _IN_LIBCUDACXX},
    "exception": _EXCEPTIONS,
    "stdexcept": "#pragma once\n#include <exception>\n",
    "string": _STRING,
    "ostream": _STREAMS,
    "iostream": "#pragma once\n#include <ostream>\n",
    "sstream": "#pragma once\n#include <ostream>\n",
    "vector": _VECTOR,
    "version": "#pragma once\n",
}
"""Header name to text."""
