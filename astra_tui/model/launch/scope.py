"""What a launch plan can name, and the values that those names have for one case."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from astra_tui.model.dtypes import DType
from astra_tui.model.occupancy import H100_MULTIPROCESSORS, MULTIPROCESSORS, WARP

MAX_INTEGER = (1 << 63) - 1

FUNCTIONS = {
    "min": "min(a, b, ...): the smallest",
    "max": "max(a, b, ...): the largest",
    "ceil_div": "ceil_div(a, b): a / b rounded up, for a >= 0 and b > 0",
    "aligned": "aligned(argument, bytes): whether the argument's address is a multiple of bytes",
    "stride": "stride(argument, axis): distance in elements between neighbours along an axis",
    "sizeof": "sizeof(T): bytes of one element",
    "sqrt": "sqrt(x): the square root",
    "rsqrt": "rsqrt(x): 1 / sqrt(x)",
}

_H100 = MULTIPROCESSORS["sm_90"]
DEVICE_ATTRIBUTES: Mapping[str, int] = MappingProxyType(
    {
        "sm_count": H100_MULTIPROCESSORS,
        "warp_size": WARP,
        "max_threads_per_block": 1024,
        "max_threads_per_sm": _H100.warps * WARP,
        "max_shared_memory_per_block": _H100.shared_bytes - _H100.reserved_shared_bytes,
        "max_shared_memory_per_sm": _H100.shared_bytes,
        "l2_cache_bytes": 52_428_800,
    }
)
"""Device attributes that a plan can read, with the H100 SXM's values (the emulator's own)."""

ELEMENT_TYPE = "T"

TRUTH_VALUES: Mapping[str, bool] = MappingProxyType({"true": True, "false": False})

NULL = "null"
"""A pointer argument that a launch leaves out."""

_KEYWORDS = {"if", "else", "and", "or", "not", "when", "otherwise", "workspace", "tune", "let"}

RESERVED_NAMES = frozenset(
    {
        *(ELEMENT_TYPE, NULL, "refuse", *_KEYWORDS, *FUNCTIONS, *DEVICE_ATTRIBUTES, *TRUTH_VALUES),
        *(d.value for d in DType),
        *keyword.kwlist,
    }
)
"""Names that dimensions and arguments cannot have: the plan's own, and Python's keywords, since
reference.py takes arguments by name."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor argument before any case: `dtype` None means `T`."""

    dtype: DType | None
    rank: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a task gives to a plan."""

    dims: frozenset[str]
    tensors: Mapping[str, TensorType]
    scalars: Mapping[str, DType]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tensor lies: the largest power of two that divides its address, and its strides."""

    alignment: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bindings:
    """The values that a plan's names have for one case on one device."""

    element: DType
    dims: Mapping[str, int]
    layouts: Mapping[str, Layout]
    scalars: Mapping[str, int | float] = field(default_factory=dict)
    device: Mapping[str, int] = field(default_factory=lambda: DEVICE_ATTRIBUTES)
