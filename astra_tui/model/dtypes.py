"""The element types of tensors and kernel arguments: one table, from which all else follows.

A new type is a member of `DType` and its row in `_ROWS`. How values become bits and come back
(bit_patterns.py), how they are drawn (gpu/drawing.py with gpu/tools.cu), compared, declared in C++
and written in a launch plan is computed from its row.

What a row cannot say has to be written as well: of more than 8 bits, how bit_patterns.py packs it
and both halves of drawing draw it; the PTX instructions that convert it
(emulator/ops/conversion.py, and cvt's modifiers in emulator/opcode_table.py) and compute with it
(emulator/numerics.py); sizes and names in what packages carry (export/templates/_host.py and
astra_host.hpp) and in headers that stand in for others (cuda_source/headers/); torch's names for
generators of kernels (cuda_source/generator_run.py).
tests/model/test_dtypes.py lists every file that may name a type, with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class DType(Enum):
    """An element type, named as in NumPy and PyTorch (ml_dtypes, where they have no name)."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT4_E2M1FN = "float4_e2m1fn"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"

    __hash__ = object.__hash__  # Enum's own is Python code, and checks ask for it very often.

    @property
    def kind(self) -> NumberKind:
        """What its bits mean."""
        return _ROWS[self].kind

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return _ROWS[self].bits

    @property
    def per_item(self) -> int:
        """Elements that one item of memory holds: 2 of a type of four bits, else 1.

        Sizes, strides, offsets and addresses count items; a tensor's shape counts elements.
        """
        return max(8 // self.bits, 1)

    @property
    def size(self) -> int:
        """Bytes of one item: of one element, or of the pair that shares a byte."""
        return _SIZES[self]

    def bytes_of(self, elements: int) -> int:
        """Bytes of so many elements, which are whole items."""
        return elements // self.per_item * self.size

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind is NumberKind.FLOAT

    @property
    def is_signed(self) -> bool:
        """Whether this is a signed integer type."""
        return self.kind is NumberKind.SIGNED

    @property
    def is_narrow(self) -> bool:
        """Whether this is a float of at most 8 bits, whose rounding outweighs all other errors."""
        return self.is_float and self.bits <= 8

    @property
    def short(self) -> str:
        """A name for narrow columns."""
        return _ROWS[self].short

    @property
    def torch(self) -> str:
        """The name of PyTorch's dtype, one of whose elements is an item."""
        return self.value if self.per_item == 1 else f"{self.value}_x{self.per_item}"

    # -- C++ -----------------------------------------------------------------------------------

    @property
    def cuda(self) -> str:
        """The C++ type of one item."""
        return _ROWS[self].cuda

    @property
    def torch_cuda(self) -> str:
        """PyTorch's C++ type of one item, "" where it is CUDA's own."""
        return _ROWS[self].torch_cuda

    @property
    def cpp_types(self) -> tuple[str, ...]:
        """All distinct C++ types of one item, `cuda` first, as the compiler prints them."""
        row = _ROWS[self]
        return (row.cuda, *row.same)

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names that C++ sources have for one item."""
        return (*self.cpp_types, *_ROWS[self].typedefs)

    @property
    def vectors(self) -> Mapping[str, int]:
        """C++ types that hold some of its elements, or their bits, and how many."""
        return _ROWS[self].vectors

    @property
    def header(self) -> str:
        """The CUDA header that declares its C++ type, "" where the language has it."""
        return _ROWS[self].header

    # -- numbers -------------------------------------------------------------------------------

    @property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type (bool counts as 0 to 1)."""
        if self.kind is NumberKind.BOOL:
            return 0, 1
        if self.is_float:
            raise ValueError(f"{self.value} is not an integer type")
        half = 1 << (self.bits - 1)
        return (-half, half - 1) if self.is_signed else (0, 2 * half - 1)

    @property
    def exponent_bits(self) -> int:
        """Bits of a float's exponent."""
        return _float(self).exponent

    @property
    def mantissa_bits(self) -> int:
        """Bits of a float's mantissa, the hidden one not counted."""
        return _float(self).mantissa

    @property
    def bias(self) -> int:
        """What is added to a float's exponent to store it."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def has_infinity(self) -> bool:
        """Whether a float type has infinities; of one without, larger numbers are its largest."""
        return _float(self).has_infinity

    @property
    def has_nan(self) -> bool:
        """Whether a float type has NaN."""
        return _float(self).has_nan

    @property
    def specials(self) -> frozenset[str]:
        """Those of "nan", "inf" and "-inf" that a float type has."""
        infinities = ("inf", "-inf") if self.has_infinity else ()
        return frozenset((*infinities, "nan") if self.has_nan else infinities)

    @property
    def largest(self) -> float:
        """The largest finite value of a floating-point type."""
        # Infinities take the last exponent, a NaN alone the last mantissa of it.
        exponent = (1 << self.exponent_bits) - 1 - self.bias - self.has_infinity
        lost = 2 if self.has_nan and not self.has_infinity else 1
        return (2.0 - lost * 2.0**-self.mantissa_bits) * 2.0**exponent

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal value of a floating-point type."""
        return 2.0 ** (1 - self.bias)

    @property
    def smallest_step(self) -> float:
        """The distance between a float type's smallest values (subnormals)."""
        return self.smallest_normal * 2.0**-self.mantissa_bits

    @property
    def common_tolerance(self) -> tuple[float, float, float]:
        """Bounds in use for outputs of a float type: atol, rtol and relative L2."""
        return _float(self).tolerance


class NumberKind(Enum):
    """What an element's bits mean."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class _Row:
    short: str
    kind: NumberKind
    bits: int
    cuda: str
    same: tuple[str, ...] = ()
    """Other C++ types of the same values."""
    typedefs: tuple[str, ...] = ()
    vectors: Mapping[str, int] = field(default_factory=dict)
    header: str = ""
    torch_cuda: str = ""
    exponent: int = 0
    mantissa: int = 0
    tolerance: tuple[float, float, float] = (0.0, 0.0, 0.0)
    has_infinity: bool = True
    has_nan: bool = True


_ROWS = {
    DType.FLOAT16: _Row(
        "f16", NumberKind.FLOAT, 16, "__half", (), ("half",),
        {"__half2": 2, "half2": 2, "__half_raw": 1, "__half2_raw": 2},
        "cuda_fp16.h", "c10::Half", 5, 10, (1e-3, 1e-3, 2e-3),
    ),
    DType.BFLOAT16: _Row(
        "bf16", NumberKind.FLOAT, 16, "__nv_bfloat16", (), ("nv_bfloat16",),
        {"__nv_bfloat162": 2, "nv_bfloat162": 2, "__nv_bfloat16_raw": 1, "__nv_bfloat162_raw": 2},
        "cuda_bf16.h", "c10::BFloat16", 8, 7, (1e-2, 1.6e-2, 1.6e-2),
    ),
    DType.FLOAT32: _Row(
        "f32", NumberKind.FLOAT, 32, "float", (), (), {"float2": 2, "float3": 3, "float4": 4},
        "", "", 8, 23, (1e-5, 1e-5, 1e-5),
    ),
    DType.FLOAT64: _Row(
        "f64", NumberKind.FLOAT, 64, "double", (), (), {"double2": 2},
        "", "", 11, 52, (1e-12, 1e-12, 1e-12),
    ),
    DType.FLOAT8_E4M3FN: _Row(
        "e4m3", NumberKind.FLOAT, 8, "__nv_fp8_e4m3", (), (),
        {"__nv_fp8x2_e4m3": 2, "__nv_fp8x4_e4m3": 4},
        "cuda_fp8.h", "c10::Float8_e4m3fn", 4, 3, (1e-5, 1e-3, 1e-2), has_infinity=False,
    ),
    DType.FLOAT8_E5M2: _Row(
        "e5m2", NumberKind.FLOAT, 8, "__nv_fp8_e5m2", (), (),
        {"__nv_fp8x2_e5m2": 2, "__nv_fp8x4_e5m2": 4},
        "cuda_fp8.h", "c10::Float8_e5m2", 5, 2, (1e-5, 1e-3, 1e-2),
    ),
    DType.FLOAT4_E2M1FN: _Row(
        "e2m1", NumberKind.FLOAT, 4, "__nv_fp4x2_e2m1", (), (), {"__nv_fp4x4_e2m1": 4},
        "cuda_fp4.h", "", 2, 1, (1e-5, 1e-3, 1e-2), has_infinity=False, has_nan=False,
    ),
    DType.INT8: _Row(
        "i8", NumberKind.SIGNED, 8, "signed char", ("char",), ("int8_t",),
        {"char2": 2, "char3": 3, "char4": 4},
    ),
    DType.INT16: _Row(
        "i16", NumberKind.SIGNED, 16, "short", (), ("int16_t", "short int"),
        {"short2": 2, "short3": 3, "short4": 4},
    ),
    DType.INT32: _Row(
        "i32", NumberKind.SIGNED, 32, "int", (), ("int32_t", "signed", "signed int"),
        {"int2": 2, "int3": 3, "int4": 4},
    ),
    DType.INT64: _Row(
        "i64", NumberKind.SIGNED, 64, "long long", ("long",),
        ("int64_t", "long int", "long long int", "ptrdiff_t", "ssize_t"),
        {"longlong2": 2, "longlong3": 3, "longlong4": 4, "long2": 2, "long3": 3, "long4": 4},
    ),
    DType.UINT8: _Row(
        "u8", NumberKind.UNSIGNED, 8, "unsigned char", (), ("uint8_t",),
        {"uchar2": 2, "uchar3": 3, "uchar4": 4},
    ),
    DType.UINT16: _Row(
        "u16", NumberKind.UNSIGNED, 16, "unsigned short", (), ("uint16_t",),
        {"ushort2": 2, "ushort3": 3, "ushort4": 4},
    ),
    DType.UINT32: _Row(
        "u32", NumberKind.UNSIGNED, 32, "unsigned int", (), ("uint32_t", "unsigned", "uint"),
        {"uint2": 2, "uint3": 3, "uint4": 4},
    ),
    DType.UINT64: _Row(
        "u64", NumberKind.UNSIGNED, 64, "unsigned long long", ("unsigned long",),
        ("uint64_t", "unsigned long int", "unsigned long long int", "size_t"),
        {"ulonglong2": 2, "ulonglong3": 3, "ulonglong4": 4, "ulong2": 2, "ulong3": 3, "ulong4": 4},
    ),
    DType.BOOL: _Row("bool", NumberKind.BOOL, 8, "bool"),
}  # fmt: skip
_SIZES = {dtype: max(row.bits // 8, 1) for dtype, row in _ROWS.items()}

TENSOR_ONLY = frozenset(dtype for dtype in DType if dtype.per_item > 1)
"""Types that only a whole tensor can have: one element of them has no address."""

PLAN_TYPES = {dtype.value: dtype for dtype in DType if dtype not in TENSOR_ONLY}
"""The types that a launch plan can name, for workspaces, `sizeof` and template arguments."""

FLOATS = {name: dtype for name, dtype in PLAN_TYPES.items() if dtype.is_float}
"""The types that `T` can be."""

NUMBERS = {name: dtype for name, dtype in PLAN_TYPES.items() if not dtype.is_narrow}
"""The types of a number that is passed by value."""

OF_CPP_TYPE = {
    name: dtype for dtype in DType for name in (*dtype.cpp_types, dtype.torch_cuda) if name
}
"""The element type of a C++ type, as the compiler prints it."""

OF_SPELLING = {name: dtype for dtype in DType for name in dtype.spellings}
"""The element type of a C++ type, as sources name it."""


def _float(dtype: DType) -> _Row:
    row = _ROWS[dtype]
    if row.kind is not NumberKind.FLOAT:
        raise ValueError(f"{dtype.value} is not a floating-point type")
    return row


def item_shape(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """The shape of a tensor's bit patterns; a last item that is not full has room all the same."""
    return (*shape[:-1], -(-shape[-1] // dtype.per_item)) if dtype.per_item > 1 else shape
