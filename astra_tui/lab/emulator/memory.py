"""Global, shared and local memory of emulated launches, every access checked."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.lab.device import BASE_ALIGNMENT, RED_ZONE_BYTES, BufferUse, DeviceBuffer
from astra_tui.lab.emulator.address_space import GLOBAL
from astra_tui.lab.emulator.decode import UNSIGNED
from astra_tui.lab.emulator.faults import Fault, first_true
from astra_tui.lab.emulator.ptx.module import Variable
from astra_tui.model.findings import FindingKind

SHARED_ALIGNMENT = 128
_GAP = 128
"""Bytes between shared arrays: a multiple of all banks, so that conflicts stay as on the GPU."""

_RED_ZONE_PATTERN = np.frombuffer(bytes((i * 37 + 11) & 0xFF for i in range(256)), np.uint8)


@dataclass
class Buffer:
    """A range of the heap. `use` is None for constants and `__device__` variables of the source."""

    name: str
    begin: int
    end: int
    use: BufferUse | None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin

    @property
    def tracked(self) -> bool:
        """Whether writes to it are allowed, so that races on it are possible."""
        return self.use in (BufferUse.INOUT, BufferUse.OUT, BufferUse.WORKSPACE)


def views_of(data: Any) -> dict[int, Any]:
    """The same bytes as unsigned integers of each width."""
    return {size: data.view(dtype) for size, dtype in UNSIGNED.items()}


class GlobalMemory:
    """The buffers of one case in one heap, red zones around each."""

    def __init__(
        self, buffers: tuple[DeviceBuffer, ...], variables: tuple[Variable, ...], granule: int
    ):
        self.granule_bits = granule.bit_length() - 1
        self.buffers: list[Buffer] = []
        top = RED_ZONE_BYTES
        # Variables come first, so that their addresses are the same in every case.
        for variable in variables:
            begin = _align(top, max(variable.alignment, BASE_ALIGNMENT))
            self.buffers.append(Buffer(variable.name, begin, begin + variable.size, None))
            top = begin + variable.size + RED_ZONE_BYTES
        for source in buffers:
            begin = _align(top, BASE_ALIGNMENT) + source.misalignment
            end = begin + len(source.content)
            self.buffers.append(Buffer(source.name, begin, end, source.use))
            top = end + RED_ZONE_BYTES
        self.size = _align(top, RED_ZONE_BYTES)
        self.heap = np.resize(_RED_ZONE_PATTERN, self.size)
        self.views = views_of(self.heap)
        self.begins = [b.begin for b in self.buffers]
        self._begins = np.array(self.begins, np.int64)
        self._ends = np.array([b.end for b in self.buffers], np.int64)
        contents = [_initial(v) for v in variables] + [b.content for b in buffers]
        for buffer, content in zip(self.buffers, contents, strict=True):
            self.heap[buffer.begin : buffer.end] = content
        self.defined = np.ones((self.size >> self.granule_bits) + 16, np.bool_)
        self.undefined = [b for b in self.buffers if b.use is not None and b.use.starts_undefined]
        for buffer in self.undefined:
            self.defined[self._granules(buffer)] = False

    def address_of(self, name: str) -> int:
        """The generic address of a buffer or variable."""
        return GLOBAL + next(b.begin for b in self.buffers if b.name == name)

    def content(self, name: str) -> Any:
        """A copy of a buffer's bytes."""
        buffer = next(b for b in self.buffers if b.name == name)
        return self.heap[buffer.begin : buffer.end].copy()

    def locate(self, offsets: Any, size: int, what: str) -> Buffer | None:
        """The buffer that holds all of an access, or None when lanes access several.

        Raises Fault when a lane leaves its buffer. `offsets` are relative to the heap.
        """
        low, high = int(offsets.min()), int(offsets.max())
        index = bisect.bisect_right(self.begins, low) - 1
        if index >= 0 and high + size <= self.buffers[index].end:
            return self.buffers[index]
        owners = np.searchsorted(self._begins, offsets, "right") - 1
        outside = (owners < 0) | (offsets + size > self._ends[np.maximum(owners, 0)])
        if outside.any():
            lane, lanes = first_true(outside)
            place = self.describe_offset(int(offsets[lane]))
            raise Fault(
                FindingKind.GLOBAL_OUT_OF_BOUNDS, f"{what} of {size} bytes at {place}", lane, lanes
            )
        return None

    def owners(self, offsets: Any) -> Any:
        """The index of the buffer that holds each (valid) offset."""
        return np.searchsorted(self._begins, offsets, "right") - 1

    def describe_offset(self, offset: int) -> str:
        """An address in words: "byte 1952 of out, which has 1952"."""
        nearest = min(
            self.buffers,
            key=lambda b: max(b.begin - offset, offset - b.end, 0),
            default=None,
        )
        if nearest is None or not -RED_ZONE_BYTES <= offset - nearest.begin <= (
            nearest.size + RED_ZONE_BYTES
        ):
            absolute = offset + GLOBAL
            near_null = 0 <= absolute < 4096
            return f"address {absolute:#x}, " + (
                "a null pointer" if near_null else "near no buffer"
            )
        return f"byte {offset - nearest.begin} of {nearest.name}, which has {nearest.size}"

    def require_defined(self, offsets: Any, size: int, buffer: Buffer | None) -> None:
        """Raises Fault where a load reads bytes of an output or workspace that nobody wrote."""
        if not self.undefined or (buffer is not None and buffer not in self.undefined):
            return
        words = self.words(offsets, size)
        missing = ~self.defined[words]
        if missing.any():
            index, _ = first_true(missing)
            per_lane = len(words) // len(offsets)
            lane = index // per_lane
            place = self.describe_offset(int(offsets[lane]))
            raise Fault(
                FindingKind.UNINITIALISED_GLOBAL,
                f"load of {size} bytes at {place}: nobody has written them",
                lane,
                int(missing.reshape(-1, per_lane).any(axis=1).sum()),
            )

    def words(self, offsets: Any, size: int) -> Any:
        """The granules of an access, lane by lane."""
        first = offsets >> self.granule_bits
        count = max(size >> self.granule_bits, 1)
        if count == 1:
            return first
        return (first[:, None] + np.arange(count)).reshape(-1)

    def unwritten(self, source: DeviceBuffer) -> tuple[int, int] | None:
        """The first byte of an output that nobody wrote, and how many there are; None if none."""
        buffer = next(b for b in self.buffers if b.name == source.name)
        granules = self.defined[self._granules(buffer)]
        offset = buffer.begin & ((1 << self.granule_bits) - 1)
        missing = np.repeat(~granules, 1 << self.granule_bits)[offset : offset + buffer.size]
        if source.covered is not None:
            missing = missing & source.covered
        if not missing.any():
            return None
        return first_true(missing)

    def red_zones_changed(self) -> Buffer | None:
        """A buffer beside which bytes have changed, or None."""
        pattern = np.resize(_RED_ZONE_PATTERN, self.size)
        changed = self.heap != pattern
        for buffer in self.buffers:
            changed[buffer.begin : buffer.end] = False
        if not changed.any():
            return None
        offset, _ = first_true(changed)
        return min(self.buffers, key=lambda b: max(b.begin - offset, offset - b.end))

    def _granules(self, buffer: Buffer) -> slice:
        size = 1 << self.granule_bits
        return slice(buffer.begin // size, -(-buffer.end // size))


class SharedMemory:
    """Shared memory of the blocks of a chunk: the static arrays, then the dynamic one."""

    def __init__(self, variables: tuple[Variable, ...], dynamic_bytes: int, granule: int):
        self.arrays: list[tuple[int, int, str]] = []
        self.offsets: dict[str, int] = {}
        self.static_size = 0
        top = 0
        for variable in variables:
            if not variable.unsized:
                self.static_size = _align(self.static_size, variable.alignment) + variable.size
                top = _align(top, variable.alignment)
                self.offsets[variable.name] = top
                self.arrays.append((top, top + variable.size, _array_name(variable.name)))
                top += variable.size + _GAP
        top = _align(top, SHARED_ALIGNMENT)
        for variable in variables:
            if variable.unsized:
                self.offsets[variable.name] = top
        if dynamic_bytes:
            self.arrays.append((top, top + dynamic_bytes, "dynamic shared memory"))
            top += dynamic_bytes
        self.stride = max(_align(top, SHARED_ALIGNMENT), SHARED_ALIGNMENT)
        self.granule_bits = granule.bit_length() - 1
        self.words_per_block = self.stride >> self.granule_bits
        self._begins = np.array([a[0] for a in self.arrays], np.int64)
        self._ends = np.array([a[1] for a in self.arrays], np.int64)

    def require_inside(self, offsets: Any, size: int, what: str) -> None:
        """Raises Fault when a lane leaves every array. `offsets` are relative to the block."""
        low, high = int(offsets.min()), int(offsets.max())
        for begin, end, _ in self.arrays:
            if begin <= low and high + size <= end:
                return
        if not self.arrays:
            outside = np.ones(len(offsets), np.bool_)
        else:
            owner = np.searchsorted(self._begins, offsets, "right") - 1
            outside = (owner < 0) | (offsets + size > self._ends[np.maximum(owner, 0)])
        if outside.any():
            lane, lanes = first_true(outside)
            place = self.describe_offset(int(offsets[lane]))
            raise Fault(
                FindingKind.SHARED_OUT_OF_BOUNDS, f"{what} of {size} bytes at {place}", lane, lanes
            )

    def describe_offset(self, offset: int) -> str:
        """An offset in words: "byte 512 of s, which has 512"."""
        if not self.arrays:
            return f"byte {offset} of shared memory, of which the kernel has none"
        begin, end, name = min(self.arrays, key=lambda a: max(a[0] - offset, offset - a[1] + 1, 0))
        return f"byte {offset - begin} of {name}, which has {end - begin}"


class LocalMemory:
    """Arrays in each thread's own memory."""

    def __init__(self, variables: tuple[Variable, ...]):
        self.offsets: dict[str, int] = {}
        top = 0
        for variable in variables:
            top = _align(top, variable.alignment)
            self.offsets[variable.name] = top
            top += variable.size
        self.size = _align(top, 16)
        self.used = top

    def require_inside(self, offsets: Any, size: int, what: str) -> None:
        """Raises Fault when a lane leaves its own arrays."""
        outside = (offsets < 0) | (offsets + size > self.used)
        if outside.any():
            lane, lanes = first_true(outside)
            raise Fault(
                FindingKind.LOCAL_OUT_OF_BOUNDS,
                f"{what} of {size} bytes at byte {int(offsets[lane])} of the thread's arrays, "
                f"which have {self.used}",
                lane,
                lanes,
            )


def require_aligned(offsets: Any, size: int, what: str) -> None:
    """Raises Fault when an address is no multiple of the access's size."""
    if int(np.bitwise_or.reduce(offsets)) & (size - 1):
        lane, lanes = first_true((offsets & (size - 1)) != 0)
        raise Fault(
            FindingKind.MISALIGNED,
            f"{what} of {size} bytes at an address that is no multiple of {size}",
            lane,
            lanes,
        )


def variable_addresses(variables: tuple[Variable, ...]) -> dict[str, int]:
    """The generic addresses that `GlobalMemory` gives to the variables of a module."""
    memory = GlobalMemory((), variables, 1)
    return {v.name: memory.address_of(v.name) for v in variables}


def _initial(variable: Variable) -> Any:
    data = variable.initial if variable.initial is not None else b"\0" * variable.size
    return np.frombuffer(data, np.uint8)


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _array_name(symbol: str) -> str:
    """The source name of a shared array, from its mangled symbol (`_ZZ...E3red` is `red`)."""
    if not symbol.startswith("_ZZ"):
        return symbol
    for match in reversed(list(re.finditer(r"E(\d+)", symbol))):
        name, rest = symbol[match.end() :][: int(match[1])], symbol[match.end() + int(match[1]) :]
        if len(name) == int(match[1]) and re.fullmatch(r"(_\d+)?", rest):
            return name
    return symbol
