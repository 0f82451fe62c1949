"""What a generated launch plan is written with: plain Python, without torch or CUDA."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BASE_ALIGNMENT = 256
"""Alignment beyond this is not seen: `aligned(x, 512)` is false."""

POINTER_BYTES = 8
MAX_WORKSPACE_BYTES = 1 << 30
GRID_LIMITS = ((1 << 31) - 1, 65_535, 65_535)
BLOCK_LIMITS = (1024, 1024, 64)

SIZES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "bool": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
}  # fmt: skip

CUDA_NAMES = {
    "float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double",
    "float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2",
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "bool": "bool",
}  # fmt: skip


class Refused(Exception):
    """A call outside of what the kernels do; the message says why."""


class PlanFault(Exception):
    """The launch plan makes no sense for this call, such as a division by zero."""


@dataclass(frozen=True)
class Layout:
    """Where a tensor lies: its address, and its strides in elements."""

    address: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Buffer:
    """A kernel argument: an address so many bytes from a tensor or workspace of this name."""

    name: str
    distance: int = 0


Value = Buffer | int | float | bool | None
"""What a kernel takes: an address, a number, or None for a null pointer."""


@dataclass(frozen=True)
class Struct:
    """A structure by value: offset, element type ("" for a pointer) and value of each member."""

    size: int
    alignment: int
    members: tuple[tuple[int, str, Value], ...]


@dataclass(frozen=True)
class Workspace:
    """Scratch memory of a call, in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel, named by its C++ expression."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: tuple[Value | Struct, ...]
    # <attributes>
    pdl: bool = False
    """Whether it may begin before what runs before it on the stream has ended."""
    cluster: tuple[int, int, int] = (1, 1, 1)
    """Blocks of a thread block cluster."""
    # </attributes>


@dataclass(frozen=True)
class Plan:
    """What one call launches, in order."""

    workspaces: tuple[Workspace, ...]
    launches: tuple[Launch, ...]


def ceil_div(a: int, b: int) -> int:
    """`a / b` rounded up."""
    if a < 0 or b <= 0:
        raise PlanFault(f"ceil_div({a}, {b}) needs a >= 0 and b > 0")
    return -(-a // b)


def aligned(tensor: Layout, count: int) -> bool:
    """Whether a tensor's address is a multiple of a power of two."""
    if count < 1 or count & (count - 1):
        raise PlanFault(f"aligned() needs a power of two, not {count}")
    return count <= BASE_ALIGNMENT and tensor.address % count == 0


def stride(tensor: Layout, axis: int) -> int:
    """The distance in elements between neighbours along an axis."""
    return tensor.strides[axis]


def sqrt(value: float) -> float:
    """The square root."""
    if value < 0:
        raise PlanFault(f"sqrt({value}) is not a number")
    return math.sqrt(value)


def rsqrt(value: float) -> float:
    """`1 / sqrt(value)`."""
    return 1.0 / sqrt(value)


def struct(alignment: int, *members: Buffer | Struct | tuple[str, float] | None) -> Struct:
    """A structure by value, laid out by the rules of C; a pair is a type and a number."""
    end = 0
    placed: list[tuple[int, str, Value]] = []
    for member in members:
        inner = member if isinstance(member, Struct) else _of_one(member)
        offset = -(-end // inner.alignment) * inner.alignment
        placed += [(offset + o, dtype, value) for o, dtype, value in inner.members]
        end = offset + inner.size
        alignment = max(alignment, inner.alignment)
    return Struct(max(-(-end // alignment) * alignment, 1), alignment, tuple(placed))


def _of_one(member: Buffer | tuple[str, float] | None) -> Struct:
    if isinstance(member, tuple):
        dtype, value = member
        return Struct(SIZES[dtype], SIZES[dtype], ((0, dtype, value),))
    return Struct(POINTER_BYTES, POINTER_BYTES, ((0, "", member),))


def sizeof(dtype: str) -> int:
    """Bytes of one element."""
    return SIZES[dtype]


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def workspace(
    before: Sequence[Workspace], name: str, dtype: str, shape: tuple[int, ...]
) -> tuple[Workspace, Layout]:
    """Scratch memory with its layout, in addition to what there is already."""
    size = SIZES[dtype]
    for length in shape:
        size *= length
    if min(shape) < 0 or size + sum(w.size for w in before) > MAX_WORKSPACE_BYTES:
        raise PlanFault(f"workspace {name} would have the shape {list(shape)}")
    return Workspace(name, size), Layout(0, contiguous(shape))


def cpp(value: object) -> str:
    """A value as a template argument."""
    if isinstance(value, bool):
        return str(value).lower()
    return CUDA_NAMES.get(value, value) if isinstance(value, str) else str(value)


def grid(*sizes: int) -> tuple[int, int, int]:
    """The three sizes of a grid, which may be empty."""
    return _three("grid", sizes, GRID_LIMITS, 0)


def block(device: Mapping[str, int], *sizes: int) -> tuple[int, int, int]:
    """The three sizes of a block."""
    found = _three("block", sizes, BLOCK_LIMITS, 1)
    threads = found[0] * found[1] * found[2]
    if threads > device["max_threads_per_block"]:
        raise PlanFault(f"a block of {threads} threads does not fit")
    return found


# <attributes>
def cluster(grid: tuple[int, int, int], *sizes: int) -> tuple[int, int, int]:
    """The three sizes of a cluster of a grid's blocks."""
    found = _three("cluster", sizes, (16, 16, 16), 1)
    blocks = found[0] * found[1] * found[2]
    if blocks > 16 or any(g % c for g, c in zip(grid, found, strict=True)):
        raise PlanFault(f"a grid {grid} cannot be launched in clusters of {found} blocks")
    return found


# </attributes>
def shared(device: Mapping[str, int], count: int) -> int:
    """Dynamic shared memory in bytes."""
    if not 0 <= count <= device["max_shared_memory_per_block"]:
        raise PlanFault(f"{count} bytes of shared memory are not to be had")
    return count


def _three(
    what: str, sizes: tuple[int, ...], limits: tuple[int, int, int], smallest: int
) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    for size, limit in zip((x, y, z), limits, strict=True):
        if not smallest <= size <= limit:
            raise PlanFault(f"{what} {size} is not between {smallest} and {limit}")
    return x, y, z
