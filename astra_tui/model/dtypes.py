"""The element types that kernel arguments can have."""

from __future__ import annotations

from enum import Enum


class DType(Enum):
    """An element type, named as in NumPy and PyTorch."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"

    @property
    def size(self) -> int:
        """Size of one element in bytes."""
        return _SIZES[self]

    @property
    def cuda(self) -> str:
        """The type's name in CUDA C++."""
        return _CUDA_NAMES[self]

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return "float" in self.value

    @property
    def is_signed(self) -> bool:
        """Whether this is a signed integer type."""
        return self.value.startswith("int")

    @property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type (bool counts as 0 to 1)."""
        if self is DType.BOOL:
            return 0, 1
        if self.is_float:
            raise ValueError(f"{self.value} is not an integer type")
        bits = 8 * self.size
        return (
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if self.is_signed else (0, (1 << bits) - 1)
        )

    @property
    def largest(self) -> float:
        """The largest finite value of a floating-point type."""
        return _LARGEST[self]

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal value of a floating-point type."""
        return _SMALLEST_NORMAL[self]


_SIZES = {
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.FLOAT32: 4,
    DType.FLOAT64: 8,
    DType.INT8: 1,
    DType.INT16: 2,
    DType.INT32: 4,
    DType.INT64: 8,
    DType.UINT8: 1,
    DType.UINT16: 2,
    DType.UINT32: 4,
    DType.UINT64: 8,
    DType.BOOL: 1,
}

_CUDA_NAMES = {
    DType.FLOAT16: "__half",
    DType.BFLOAT16: "__nv_bfloat16",
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
    DType.INT8: "signed char",
    DType.INT16: "short",
    DType.INT32: "int",
    DType.INT64: "long long",
    DType.UINT8: "unsigned char",
    DType.UINT16: "unsigned short",
    DType.UINT32: "unsigned int",
    DType.UINT64: "unsigned long long",
    DType.BOOL: "bool",
}

_LARGEST = {
    DType.FLOAT16: 65504.0,
    DType.BFLOAT16: 3.3895313892515355e38,
    DType.FLOAT32: 3.4028234663852886e38,
    DType.FLOAT64: 1.7976931348623157e308,
}

_SMALLEST_NORMAL = {
    DType.FLOAT16: 2.0**-14,
    DType.BFLOAT16: 2.0**-126,
    DType.FLOAT32: 2.0**-126,
    DType.FLOAT64: 2.0**-1022,
}
