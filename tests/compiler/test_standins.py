"""The stand-ins: kernels written for nvcc compile unchanged, also with CUDA's C++ library."""

from __future__ import annotations

import itertools

import pytest

from astra_tui.cuda_source.stand_ins import PRELUDE_NAME, STAND_INS
from astra_tui.lab.compiler import Compiler
from tests.compiler.helpers import messages

# What has to hold at compile time after including a header.
FACTS = {
    PRELUDE_NAME: [
        *("sizeof(ushort) == 2", "sizeof(uint) == 4", "ushort(-1) > 0", "uint(-1) > 0"),
        *("__builtin_clz(1) == 31", "__builtin_clz(0x80000000u) == 0", "__builtin_clz(300) == 23"),
    ],
    "array": [
        *("std::array<int, 3>{{1, 2, 3}}[1] == 2", "std::array<float, 5>{}.size() == 5"),
        *("std::array{4, 5}.back() == 5", "sizeof(std::array<short, 4>) == 8"),
    ],
    "numeric": ["std::gcd(12, 18) == 6", "std::gcd(-4, 0) == 4"],
    "stdint.h": [
        *("sizeof(int8_t) == 1", "sizeof(uint16_t) == 2", "sizeof(int32_t) == 4"),
        *("sizeof(int64_t) == 8", "sizeof(uintptr_t) == 8", "uint8_t(-1) == UINT8_MAX"),
        *("int64_t(-1) < 0", "INT32_MIN < -INT32_MAX", "UINT64_MAX == ~uint64_t(0)"),
        "SIZE_MAX == ~size_t(0)",
    ],
    "cstdint": ["sizeof(std::int64_t) == 8", "sizeof(uint8_t) == 1", "sizeof(std::size_t) == 8"],
    "stddef.h": ["sizeof(size_t) == 8", "ptrdiff_t(-1) < 0", "NULL == 0"],
    "cstddef": ["sizeof(std::size_t) == 8", "std::ptrdiff_t(-1) < 0"],
    "float.h": ["FLT_MAX > 3e38f", "FLT_MIN < 2e-38f", "DBL_MAX > 1e308", "FLT_EPSILON < 2e-7f"],
    "cfloat": ["FLT_MAX > 3e38f"],
    "limits.h": [
        *("INT_MAX == 2147483647", "INT_MIN < 0", "UINT_MAX == ~0u", "CHAR_BIT == 8"),
        *("LLONG_MAX == 0x7fffffffffffffff", "CHAR_MIN < 0", "SHRT_MIN == -32768"),
    ],
    "climits": ["INT_MAX == 2147483647"],
    "limits": [
        "std::numeric_limits<float>::infinity() > std::numeric_limits<float>::max()",
        "-std::numeric_limits<float>::infinity() < std::numeric_limits<float>::lowest()",
        "std::numeric_limits<float>::lowest() == -FLT_MAX",
        "std::numeric_limits<float>::epsilon() == FLT_EPSILON",
        "std::numeric_limits<float>::quiet_NaN() != std::numeric_limits<float>::quiet_NaN()",
        "std::numeric_limits<double>::infinity() > DBL_MAX",
        "std::numeric_limits<int>::min() == INT_MIN",
        "std::numeric_limits<unsigned long long>::max() == ULLONG_MAX",
        "std::numeric_limits<signed char>::lowest() == -128",
        "std::numeric_limits<bool>::max() && std::numeric_limits<char>::max() == 127",
        "std::numeric_limits<int>::is_signed && !std::numeric_limits<unsigned>::is_signed",
        "std::numeric_limits<int>::is_integer && !std::numeric_limits<float>::is_integer",
        "std::numeric_limits<float>::has_infinity && !std::numeric_limits<int>::has_infinity",
    ],
    "algorithm": [
        *("std::min(1, 2) == 1", "std::max(1.0f, 2.0f) == 2.0f", "std::clamp(5, 0, 3) == 3"),
        *("std::max({3, 7, 5}) == 7", "std::min({3, 2, 5}) == 2"),
    ],
    "functional": [
        "sizeof(std::unary_function<int, char>::result_type) == 1",
        "sizeof(std::binary_function<int, char, int>::second_argument_type) == 1",
    ],
    "type_traits": [
        *("std::is_same<int, int>::value", "!std::is_same_v<int, unsigned>"),
        *("std::is_same_v<std::conditional_t<true, int, float>, int>", "std::true_type::value"),
        *("std::is_same_v<std::enable_if_t<true, int>, int>", "std::true_type() && 1"),
        "std::is_same_v<std::remove_reference_t<int&&>, int>",
        "std::is_same_v<std::remove_const_t<const int>, int>",
        "std::is_same_v<std::remove_cv_t<const volatile int>, int>",
        *("std::is_same_v<std::decay_t<const int&>, int>", "std::is_floating_point_v<float>"),
        *("std::is_same_v<std::decay_t<int (&)[3]>, int*>", "std::is_integral_v<const long>"),
        *("!std::is_integral<float>::value", "std::is_arithmetic_v<bool>"),
        "std::is_same_v<std::integral_constant<int, 3>::value_type, int>",
        *("std::is_same_v<std::remove_cvref_t<const int&>, int>", "std::is_unsigned_v<uint8_t>"),
        *("std::is_same_v<std::make_unsigned_t<int>, unsigned>", "!std::is_signed_v<Deep>"),
        *("std::is_convertible_v<int, float>", "!std::is_convertible_v<Deep, int>"),
        *("std::is_enum_v<Kind>", "std::is_same_v<std::underlying_type_t<Kind>, short>"),
        *("std::is_base_of_v<Deep, Deeper>", "!std::is_invocable_v<int>"),
        *("std::is_invocable_v<int (*)(float), int>", "std::is_pod_v<int4>"),
        *("std::conjunction_v<std::true_type, std::is_void<void>>", "std::is_array_v<int[3]>"),
        *("std::is_trivially_copyable_v<float4>", "!std::is_trivially_copyable<Deep>::value"),
    ],
    "utility": [
        *("std::make_pair(1, 2.5f).second == 2.5f", "std::pair(3, 4).first == 3"),
        "sizeof(Same<std::make_index_sequence<3>, std::index_sequence<0, 1, 2>>) == 1",
        *("std::make_index_sequence<900>::size() == 900", "std::index_sequence_for<>::size() == 0"),
    ],
    "cmath": ["-INFINITY < -3e38f", "NAN != NAN", "M_PI > 3.14 && M_PI < 3.15", "M_LOG2E > 1.44"],
}

# What a kernel may do with a header; `o` is float*, `n` is int.
USES = {
    "THC/THCAtomics.cuh": "c10::Half* half = reinterpret_cast<c10::Half*>(o);"
    " gpuAtomicAdd(half, at::opmath_type<c10::Half>(n) * half[0]); atomicAdd(half + 1, half[0]);"
    " if (half[0] < half[1] || half[0] == 0 || 1.0 > half[2] || half[3] >= 2.0f) half[0] = n;",
    "": "size_t a = n; int64_t b = n; *o = INFINITY + NAN + M_PI + INT_MAX + a + b; assert(n);",
    "array": "std::array<float, 4> a{}; a.fill(2.0f); a[n & 3] = o[0];"
    " std::array<int, 2> b = {1, 2}; for (float v : a) *o += v * b[n & 1];",
    "numeric": "*o = std::accumulate(o, o + n, 0.0f); std::iota(o + 1, o + 4, n);",
    "math.h": "*o = sqrtf(o[1]) + -INFINITY + (isnan(o[2]) ? NAN : fmaxf(o[3], HUGE_VALF));",
    "cmath": "*o = std::sqrt(o[1]) + std::exp(o[2]) + std::abs(o[3]) + std::fmax(o[4], 1.0f)"
    " + std::pow(o[5], 2.0f) + std::tanh(o[6]) + std::isinf(o[7]) + std::floor(o[8]);",
    "algorithm": "float a = 1, b = n; std::swap(a, b); *o = std::max(a, o[1]) + std::min(n, 3);",
    "utility": "float a = 1, b = n; std::swap(a, b); *o = std::move(a) + std::forward<float>(b);",
    "cassert": 'assert(n > 0); assert(n > 0 && "positive"); *o = 1;',
    "assert.h": "assert(n > 0); *o = 1;",
    "limits": "*o = n ? -std::numeric_limits<float>::infinity() : o[1];",
    "stdio.h": 'printf("%d\\n", n);',
    "string.h": "memcpy(o, o + 4, 16); memset(o, 0, 4);",
    "initializer_list": "for (int i : {1, 2, 3}) *o += i;",
    "stdbool.h": "bool yes = true; *o = yes;",
}

DEEP = """struct Deep { int x; __device__ Deep(const Deep& other) : x(other.x) {} };
struct Deeper : Deep { using Deep::Deep; };
enum class Kind : short { ONE };
template <typename A, typename B> struct Same;
template <typename A> struct Same<A, A> {};"""


def kernel(headers: tuple[str, ...], body: str = "", facts: list[str] | None = None) -> str:
    lines = [f"#include <{name}>" for name in headers if name]
    lines += [DEEP] if facts else []
    lines += [f"static_assert({fact});" for fact in facts or ()]
    return "\n".join([*lines, f"__global__ void k(float* o, int n) {{ {body} }}", ""])


@pytest.mark.parametrize("header", FACTS)
def test_a_header_states_the_facts_alone_and_twice(compiler: Compiler, header: str) -> None:
    result = compiler.compile(kernel((header, header), facts=FACTS[header]), ("k",))
    assert messages(result) == ""
    assert result.diagnostics == ()


@pytest.mark.parametrize("header", USES)
def test_a_kernel_uses_a_header(compiler: Compiler, header: str) -> None:
    result = compiler.compile(kernel((header,), USES[header]), ("k",))
    assert messages(result) == ""
    assert result.warnings == ()


# Headers that only name another one say nothing new each.
SPOKEN_FOR = {text: header for header, text in STAND_INS.items() if header not in FACTS}


def takes_over(header: str) -> str:
    """The text of a stand-in that has nothing of its own, but CUDA's header of that name."""
    included = f"#include <cuda/std/{header}>"
    return f"#pragma once\n{included}\nnamespace std {{ using namespace cuda::std; }}\n"


OF_CUDA = tuple(header for header in STAND_INS if STAND_INS[header] == takes_over(header))
OWN = [header for header in SPOKEN_FOR.values() if header not in OF_CUDA]


@pytest.mark.parametrize("headers", [OF_CUDA, *((header,) for header in OWN)], ids=lambda h: h[0])
def test_every_header_compiles_alone_and_twice(
    compiler: Compiler, headers: tuple[str, ...]
) -> None:
    """Those of CUDA's that are taken over as they are come in one source."""
    assert len(OF_CUDA) > 5
    assert compiler.compile(kernel(headers * 2), ("k",)).diagnostics == ()


def test_all_headers_compile_together_in_any_order_beside_cudas_own(compiler: Compiler) -> None:
    cuda = ("cuda/std/limits", "cuda/std/cmath", "cuda/std/type_traits", "cuda/std/cstdint")
    more = ("cub/block/block_reduce.cuh", "cooperative_groups.h", "cuda_fp16.h", "cuda_runtime.h")
    body = "*o = cuda::std::numeric_limits<float>::max() - std::numeric_limits<float>::max();"
    names, facts = tuple(STAND_INS), list(itertools.chain(*FACTS.values()))
    for headers in ((*names, *more, *cuda), (*cuda, *more, *names[::-1])):
        result = compiler.compile(kernel(headers, body, facts), ("k",))
        assert messages(result) == ""
        assert result.warnings == (), "clashes of macros in headers are not the candidate's"


def test_the_hosts_clz_is_for_constants_alone(compiler: Compiler) -> None:
    assert compiler.compile(kernel((), "constexpr int a = __builtin_clz(64); *o = a;"), ("k",)).ok
    (error,) = compiler.compile(kernel((), "*o = __builtin_clz(n);"), ("k",)).errors
    assert "builtin_clz_is_for_constants_use_clz" in error.message


def test_assert_stops_a_kernel_and_ndebug_takes_it_out(compiler: Compiler) -> None:
    body = "assert(n > 0); *o = 1;"
    assert "__assertfail" in compiler.compile(kernel(("cassert",), body), ("k",)).ptx
    silent = compiler.compile("#define NDEBUG\n" + kernel(("cassert",), body), ("k",))
    assert silent.ok
    assert "__assertfail" not in silent.ptx


def test_assert_can_be_switched_by_including_it_again(compiler: Compiler) -> None:
    off = "#include <assert.h>\n#define NDEBUG\n" + kernel(("assert.h",), "assert(n); *o = 1;")
    on = "#define NDEBUG\n#include <assert.h>\n#undef NDEBUG\n" + kernel(
        ("assert.h",), "assert(n);"
    )
    assert "__assertfail" not in compiler.compile(off, ("k",)).ptx
    assert "__assertfail" in compiler.compile(on, ("k",)).ptx


def test_infinity_has_its_bits(compiler: Compiler) -> None:
    body = "o[0] = INFINITY; o[1] = -INFINITY;"
    ptx = compiler.compile(kernel((), body), ("k",)).ptx
    bits = ("0f7F800000", "0fFF800000"), ("2139095040", "-8388608")
    assert any(all(one in ptx for one in pair) for pair in bits)


def test_a_mistake_inside_a_stand_in_names_the_line_that_led_there(compiler: Compiler) -> None:
    source = kernel(("algorithm",), "\nconst int a = 1, b = 2;\nstd::swap(a, b);")
    (first, *_) = compiler.compile(source, ("k",)).errors
    assert first.message == "expression must be a modifiable lvalue (in utility)"
    assert first.line == 4
    assert first.source_line == "std::swap(a, b); }"


def test_the_prelude_is_no_secret_way_to_other_headers() -> None:
    lines = STAND_INS[PRELUDE_NAME].splitlines()
    included = {line.split()[1][1:-1] for line in lines if line.startswith("#include")}
    assert included <= set(STAND_INS)


# A file of a framework: what surrounds its kernel is the host's.
LAUNCHER = """
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>
#include <tvm/ffi/container/tensor.h>
#include <cublas_v2.h>
inline std::deque<std::once_flag> flags;
inline std::vector<cudaDeviceProp> devices;
static bool asked() {
  static bool cached = [] {
    const char* set = std::getenv("ASKED");
    return set && std::atoi(set);
  }();
  return cached;
}
struct Sizes { int n; __host__ Sizes(int n) : n(n) {} };
__host__ static int blocks_of(int n) { return (n + 255) / 256; }
template <typename T, typename F> __device__ void each(T* x, int n, F f) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = f(x[i]);
}
template <typename T> __global__ void twice(T* x, int n) {
  each(x, n, [] __device__ (T v) { return T(float(v) * 2); });
}
cudaError_t resident(const void* kernel, int& blocks) {
  struct Entry { const void* kernel; int blocks; };
  static thread_local std::vector<Entry> cache;
  for (const Entry& entry : cache)
    if (entry.kernel == kernel) blocks = entry.blocks;
  cache.push_back({kernel, blocks});
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 0);
}
void launch(torch::Tensor& x, std::optional<at::Tensor> scale) {
  TORCH_CHECK(x.is_contiguous() && x.dim() == 2, "contiguous, not ", x.stride(0));
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (scale.has_value() && asked()) throw std::runtime_error("no " + std::to_string(x.size(0)));
  std::cerr << "n = " << x.numel() << std::endl;
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "twice", [&] {
    twice<scalar_t><<<blocks_of(x.numel()), 256, 0, stream>>>(x.data_ptr<scalar_t>(), x.numel());
  });
  twice<float><<<dim3(blocks_of(x.numel())), 256, 0, stream>>>(x.data_ptr<float>(), x.numel());
  cudaFuncSetAttribute(twice<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("launch", &launch); }
TORCH_LIBRARY_FRAGMENT(ours, m) { m.impl("launch", &launch); }
"""


def test_a_kernel_compiles_with_its_launcher_around_it(compiler: Compiler) -> None:
    names = ("twice<float>", "twice<c10::BFloat16>")
    result = compiler.compile(LAUNCHER, names)
    assert messages(result) == ""
    assert result.warnings == ()
    assert ".func" not in result.ptx, "no host code is left"


HOST_ONLY = {
    "std::vector<int> v; v.resize(n); *o = v.size();": "a kernel calls host code",
    "std::string s; *o = s.size();": "a kernel calls host code",
    '*o = std::atoi("1") + n;': "a kernel calls host code",
    "cudaMemset(o, 0, n);": "a kernel calls host code",
    "leaf<<<1, 32>>>(o);": "only the launch plan can launch kernels",
}


@pytest.mark.parametrize("body", HOST_ONLY)
def test_a_kernel_that_calls_host_code_is_refused(compiler: Compiler, body: str) -> None:
    leaf = "__global__ void leaf(float* o) { *o = 1; }\n"
    headers = ("vector", "string", "cstdlib")
    (error,) = compiler.compile(leaf + kernel(headers, body), ("k",)).errors
    assert HOST_ONLY[body] in error.message
