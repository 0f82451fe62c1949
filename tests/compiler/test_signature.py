"""Parameter types from mangled names: a table, names of the real compiler, and any text at all."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.signature import SignatureError, parse_parameters
from astra_tui.model.dtypes import DType
from tests.compiler.helpers import PATIENT

# Mangled type, then kind, name, size, dtype and const of the parameter.
TYPES = [
    ("b", "bool", "bool", 1, DType.BOOL, False),
    ("c", "integer", "char", 1, DType.INT8, False),
    ("a", "integer", "signed char", 1, DType.INT8, False),
    ("h", "integer", "unsigned char", 1, DType.UINT8, False),
    ("s", "integer", "short", 2, DType.INT16, False),
    ("t", "integer", "unsigned short", 2, DType.UINT16, False),
    ("i", "integer", "int", 4, DType.INT32, False),
    ("j", "integer", "unsigned int", 4, DType.UINT32, False),
    ("l", "integer", "long", 8, DType.INT64, False),
    ("m", "integer", "unsigned long", 8, DType.UINT64, False),
    ("x", "integer", "long long", 8, DType.INT64, False),
    ("y", "integer", "unsigned long long", 8, DType.UINT64, False),
    ("6__half", "float", "__half", 2, DType.FLOAT16, False),
    ("13__nv_bfloat16", "float", "__nv_bfloat16", 2, DType.BFLOAT16, False),
    ("f", "float", "float", 4, DType.FLOAT32, False),
    ("d", "float", "double", 8, DType.FLOAT64, False),
    ("Pf", "pointer", "float", 8, DType.FLOAT32, False),
    ("PKf", "pointer", "float", 8, DType.FLOAT32, True),
    ("PVKf", "pointer", "float", 8, DType.FLOAT32, True),
    ("PVi", "pointer", "int", 8, DType.INT32, False),
    ("PK6__half", "pointer", "__half", 8, DType.FLOAT16, True),
    ("Pv", "pointer", "void", 8, None, False),
    ("PPf", "pointer", "float*", 8, None, False),
    ("PKPf", "pointer", "float*", 8, None, True),
    ("P6float4", "pointer", "float4", 8, None, False),
    ("PN3one3twoE", "pointer", "one::two", 8, None, False),
    ("P4PairIifE", "pointer", "Pair<int, float>", 8, None, False),
]


@pytest.mark.parametrize(("mangled", "kind", "name", "size", "dtype", "const"), TYPES)
def test_types(
    mangled: str, kind: str, name: str, size: int, dtype: DType | None, const: bool
) -> None:
    (parameter,), total = parse_parameters(f"_Z1k{mangled}")
    assert (parameter.kind, parameter.type, parameter.size) == (kind, name, size)
    assert (parameter.dtype, parameter.const) == (dtype, const)
    assert (parameter.offset, total) == (0, size)


# Mangled name, then each parameter's type and offset, and the size of the buffer.
NAMES = [
    ("_Z1kv", [], 0),
    ("_Z1kPfi", [("float", 0), ("int", 8)], 12),
    ("_Z1kIJfiEEvDpT_", [("float", 0), ("int", 4)], 8),
    ("_Z1kIfJEEvPT_DpT0_", [("float", 0)], 8),
    ("_Z1kbPf", [("bool", 0), ("float", 8)], 16),
    ("_Z1kbsid", [("bool", 0), ("short", 2), ("int", 4), ("double", 8)], 16),
    ("_Z1kib6__halfx", [("int", 0), ("bool", 4), ("__half", 6), ("long long", 8)], 16),
    ("_ZN5outer5inner1kEPf", [("float", 0)], 8),
    ("_ZL1kPf", [("float", 0)], 8),
    ("_Z1kIfEvPT_", [("float", 0)], 8),
    ("_Z1kIPfEvT_", [("float", 0)], 8),
    ("_Z1kIKfEvPT_", [("float", 0)], 8),
    ("_Z1kIfLi8ELb1EEvPT_i", [("float", 0), ("int", 8)], 12),
    ("_Z1kI6__halfEvPKT_PS1_S1_", [("__half", 0), ("__half", 8), ("__half", 16)], 18),
    ("_Z1kILi3EEvv", [], 0),
    ("_Z1kIfEvPN6TraitsIT_E4typeE", [("Traits<float>::type", 0)], 8),
    ("_Z1kIfXadL_Z4siluRKfEEEvPT_", [("float", 0)], 8),
    ("_Z1kIL_Z5tableEfEvPT0_", [("float", 0)], 8),
    (
        "_ZN4vllm1kI6__halfLi8EEENSt9enable_ifIXooeqT0_Li0Entsr4vllm1CIT_EE6existsEvE4typeEPS3_PKS3_f",
        [("__half", 0), ("__half", 8), ("float", 16)], 20,
    ),
    (
        "_Z1kIfiENSt9enable_ifIXsrSt7is_sameIT_fE5valueEvE4typeEPS2_PT0_",
        [("float", 0), ("int", 8)], 16,
    ),
]  # fmt: skip

# Activation functions as template arguments, in the names that FlashInfer 0.7 and SGLang 0.4 ship
# and that NVRTC gives; T of the function and T of the kernel are one substitution.
_ACT = "_ZN10flashinfer10activation18act_and_mul_kernelI"
WITH_FUNCTIONS = [
    _ACT + "6__halfXadL_Z7my_siluRKfEEEEvPT_PKS5_i",
    _ACT + "6__halfXadL_Z4siluRKfEELi8EEEvPT_PKS5_i",
    _ACT + "6__halfXadL_Z4siluIfET_RKS4_EEEEvPS4_PS5_i",
    "_Z18act_and_mul_kernelI6__halfXadL_Z11silu_kernelIS0_ET_RKS2_EEEvPS2_PS3_i",
]


@pytest.mark.parametrize(("symbol", "expected", "total"), NAMES)
def test_names(symbol: str, expected: list[tuple[str, int]], total: int) -> None:
    parameters, size = parse_parameters(symbol)
    assert [(p.type, p.offset) for p in parameters] == expected
    assert size == total


@pytest.mark.parametrize("symbol", WITH_FUNCTIONS)
def test_functions_may_be_template_arguments(symbol: str) -> None:
    out, read, size = parse_parameters(symbol)[0]
    assert (out.type, read.type, size.type) == ("__half", "__half", "int")
    assert (out.const, read.const) == (False, True)


def test_const_of_a_template_argument_counts() -> None:
    (parameter,), _ = parse_parameters("_Z1kIKfEvPT_")
    assert parameter.const
    assert parameter.dtype is DType.FLOAT32


REFUSED = [
    ("k", r'extern "C"'),
    ("", r'extern "C"'),
    ("_Z", "could not be read"),
    ("_Z1k", "could not be read"),
    ("_Z9k", "could not be read"),
    ("_ZTI1S", "could not be read"),
    ("_Z1kDF16_", "could not be read"),
    ("_Z1k6float4", "parameter 1 has the type 'float4'"),
    ("_Z1kPf1S", "parameter 2 has the type 'S'"),
    ("_Z1kRf", "parameter 1 has the type 'float&'"),
    ("_Z1kPFvvE", r"parameter 1 has the type 'void \(\*\)\(\)'"),
    ("_Z1kM1Sf", "parameter 1 has the type 'float S::"),
    ("_Z1kz", r"parameter 1 has the type '\.\.\.'"),
    ("_Z1kn", "parameter 1 has the type '__int128'"),
]


@pytest.mark.parametrize(("symbol", "reason"), REFUSED)
def test_refusals_say_why(symbol: str, reason: str) -> None:
    with pytest.raises(SignatureError, match=reason):
        parse_parameters(symbol)


# The same, from the real compiler

REAL = [
    ("void k(float* a, const int* b, bool c, double d) {}", "k", "float* const int* bool double"),
    ("void k(signed char* __restrict__ a, void* b) {}", "k", "signed char* void*"),
    ("void k(S* a, const S* b, S** c) {}", "k", "S* const S* S**"),
    ("void of_t(const T* a, T* const b, const T c) {}", "of_t<float>", "const float* float* float"),
    ("void of_t(T a, T* b) {}", "of_t<__half>", "__half __half*"),
    ("void of_t(T a, T* b) {}", "of_t<const int>", "int const int*"),
    ("void of_t(T a, const T* b) {}", "of_t<float*>", "float* const float**"),
    ("void of_n(int (*a)[3], T* b) {}", "of_n<float, -8, true>", "int[(int)3]* float*"),
    ("void k(E a, S b, F c) {}", "k", "E S F"),
]


@pytest.mark.parametrize(("declaration", "kernel", "types"), REAL)
@pytest.mark.parametrize("around", ["", "namespace some {", "namespace {"])
def test_names_that_the_compiler_makes_are_read(
    compiler: Compiler, declaration: str, kernel: str, types: str, around: str
) -> None:
    template = {"of_t": "template <class T> ", "of_n": "template <class T, int N, bool B> "}
    head = template.get(kernel.partition("<")[0], "")
    source = f"""#include <cuda_fp16.h>
struct S {{ int x; }};
enum E {{ A, B = -1 }};
enum class F : unsigned char {{ C }};
{around}
{head}__global__ {declaration}
{"}" if around else ""}
"""
    name = f"some::{kernel}" if "some" in around else kernel
    result = compiler.compile(source, (name,))
    assert not result.errors
    parameters = result.kernel(name).parameters
    spelled = ["const " * p.const + p.type + "*" * (p.kind == "pointer") for p in parameters]
    assert " ".join(spelled) == types
    kinds = {"E": ("integer", DType.INT32), "F": ("integer", DType.INT8), "S": ("struct", None)}
    by_value = [p for p in parameters if p.kind != "pointer" and p.type in kinds]
    assert all((p.kind, p.dtype) == kinds[p.type] for p in by_value)


PTX = ".visible .entry _Z1kPfi(\n\t.param .u64 .ptr .align 1 _Z1kPfi_param_0,\n{}\n)\n{{\n"


def test_a_name_is_believed_only_if_the_sizes_in_the_ptx_agree() -> None:
    honest = PTX.format("\t.param .u32 _Z1kPfi_param_1")
    assert parse_parameters("_Z1kPfi", honest) == parse_parameters("_Z1kPfi")
    for other in (".u64 p", ".align 4 .b8 p[12]", ".u32 p,\n\t.param .u32 q"):
        with pytest.raises(SignatureError, match="does not take what its name says"):
            parse_parameters("_Z1kPfi", PTX.format(f"\t.param {other}"))


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_sizes_in_real_ptx_agree_with_every_type(compiler: Compiler, width: int) -> None:
    types = [name for _, kind, name, size, _, _ in TYPES if kind != "pointer" and size == width]
    parameters = ", ".join(f"{name} p{n}" for n, name in enumerate(types))
    source = f"#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n__global__ void k({parameters}) {{}}"
    result = compiler.compile(source, ("k",))
    assert not result.errors
    assert [p.type for p in result.kernels[0].parameters] == types


ACTIVATIONS = """#include <cuda_fp16.h>
__device__ float plain(const float& x) { return x; }
static __device__ float hidden(const float& x) { return -x; }
template <class T> __device__ T both(const T& x) { return x + T(1); }
namespace flashinfer::op { __device__ float inner(const float& x) { return 2 * x; } }
namespace flashinfer::activation {
template <class T, float (*Activation)(const float&), int N = 1>
__global__ void of_floats(T* out, const T* in, int n) { out[0] = Activation(in[n]); }
template <class T, T (*Activation)(const T&)>
__global__ void of_any(T* out, const T* in, int n) { out[0] = Activation(in[n]); }
}
template <class T, T (*First)(const T&), float (*Second)(const float&), class U>
__global__ void of_two(T* out, const U* in, int n) { out[0] = First(T(Second(in[n]))); }
"""


@pytest.mark.parametrize(
    "kernel",
    [
        *(f"flashinfer::activation::of_floats<__half, {f}>" for f in ("plain", "hidden", "&plain")),
        "flashinfer::activation::of_floats<__half, both<float>, 8>",
        "flashinfer::activation::of_floats<__half, flashinfer::op::inner, 8>",
        "flashinfer::activation::of_any<__half, both<__half>>",
        "of_two<__half, both<__half>, flashinfer::op::inner, __half>",
        "of_two<__half, both, both, __half>",
    ],
)
def test_kernels_over_functions_are_read(compiler: Compiler, kernel: str) -> None:
    result = compiler.compile(ACTIVATIONS, (kernel,))
    assert not result.errors, result.errors
    out, read, size = result.kernel(kernel).parameters
    assert (out.type, read.type, size.type) == ("__half", "__half", "int")
    assert (out.const, read.const) == (False, True)


# Anything else

PIECES = st.sampled_from(
    [
        *("_Z", "1k", "3foo", "I", "E", "v", "P", "K", "R", "F", "S_", "S0_", "S1_", "T_", "T0_"),
        *("N", "L", "i8", "J", "Dp", "A3_", "M", "1S", "f", "i", "St", "Sa", "X", "pl", "Ut", "Z"),
        *(
            "6__half",
            "13__nv_bfloat16",
            "C1",
            "D0",
            "cv",
            "B",
            "DT",
            "Xad",
            "L_Z",
            "n",
            "-",
            "99",
            "_",
            "\0",
            "é",
        ),
    ]
)


@PATIENT
@given(st.text(max_size=60) | st.lists(PIECES, max_size=25).map("".join))
@example("_Z1k" + "P" * 5_000 + "f")
@example("_Z1k" + "I" * 5_000)
@example("_Z" + "9" * 5_000 + "k")
@example("_Z1kA" + "9" * 5_000 + "_f")
@example("_Z1kIS_EvT_")
def test_any_text_gives_parameters_or_a_signature_error(text: str) -> None:
    for symbol in (text, f"_Z1k{text}", f"_Z1kIfEv{text}"):
        try:
            parameters, size = parse_parameters(symbol, ptx=f".entry {symbol}(.param .u32 p)")
        except SignatureError:
            continue
        assert size >= sum(p.size for p in parameters)


def test_a_type_that_doubles_at_every_level_is_read_at_once(compiler: Compiler) -> None:
    # Spelled out it has two million parts. NVRTC copes, and so must whoever reads its names.
    levels = "".join(f"using L{n + 1} = Pair<L{n}, L{n}>;\n" for n in range(20))
    source = f"""
template <class A, class B> struct Pair {{}};
using L0 = int;
{levels}
template <class T> __global__ void k(L20* huge, const T* in, Pair<L20, T>* both) {{}}
"""
    result = compiler.compile(source, ("k<float>",))
    huge, plain, both = result.kernel("k<float>").parameters
    assert huge.type == both.type == "(a very long name)"
    assert (plain.type, plain.const, plain.offset) == ("float", True, 8)
