"""Global, shared and local memory of emulated launches, every access checked."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from astra_tui.emulator.address_space import GLOBAL
from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.operands import UNSIGNED
from astra_tui.emulator.places import Pieces, Places
from astra_tui.emulator.ptx.module import PtxError, Variable
from astra_tui.model.device import BASE_ALIGNMENT, RED_ZONE_BYTES, ArgumentRole, DeviceBuffer
from astra_tui.model.findings import FindingKind

SHARED_ALIGNMENT = 128
_GAP = 128
"""Bytes between shared arrays: a multiple of all banks, so that conflicts stay as on the GPU."""

_PAGE_BITS = 9
PAGE = 1 << _PAGE_BITS
"""Bytes of a page: small, since threads of sampled blocks touch little pieces far apart."""

_FIRST = np.ones(1, np.bool_)

LOADED, ATOMIC = 1, 2

MAX_WORDS = 1 << 24
"""Granules that paged memory may hold. The race table needs some 40 bytes for each."""

_RED_ZONE_PATTERN = np.frombuffer(bytes((i * 37 + 11) & 0xFF for i in range(256)), np.uint8)


@dataclass(eq=False)
class Buffer:
    """A range of the heap. `use` is None for constants and `__device__` variables of the source."""

    name: str
    begin: int
    end: int
    use: ArgumentRole | None
    number: int
    """Its place among the buffers of its memory."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin

    @cached_property
    def tracked(self) -> bool:
        """Whether writes to it are allowed, so that races on it are possible."""
        return self.use in (ArgumentRole.INOUT, ArgumentRole.OUT, ArgumentRole.WORKSPACE)


def _red_zone(begin: int, end: int) -> Any:
    """What red zones hold from one offset to another."""
    first = begin % len(_RED_ZONE_PATTERN)
    return np.resize(_RED_ZONE_PATTERN, first + end - begin)[first:]


def views_of(data: Any) -> dict[int, Any]:
    """The same bytes as unsigned integers of each width."""
    return {size: data.view(dtype) for size, dtype in UNSIGNED.items()}


class GlobalMemory:
    """The buffers of one case in one heap, red zones around each."""

    def __init__(
        self,
        buffers: tuple[DeviceBuffer, ...],
        variables: tuple[Variable, ...],
        granule: int,
        *,
        base: int = GLOBAL,
    ):
        self.base = base
        """The generic address of the heap; another one also puts buffers in another order."""
        self.origin = np.uint64(base)
        if base != GLOBAL:
            buffers = buffers[::-1]
        self.granule_bits = granule.bit_length() - 1
        self.buffers: list[Buffer] = []
        top = RED_ZONE_BYTES
        # Variables come first, so that their addresses are the same in every case.
        for variable in variables:
            begin = _align(top, max(variable.alignment, BASE_ALIGNMENT))
            self.buffers.append(
                Buffer(variable.name, begin, begin + variable.size, None, len(self.buffers))
            )
            top = begin + variable.size + RED_ZONE_BYTES
        for source in buffers:
            begin = _align(top, BASE_ALIGNMENT) + source.misalignment
            end = begin + len(source.content)
            self.buffers.append(Buffer(source.name, begin, end, source.use, len(self.buffers)))
            top = end + RED_ZONE_BYTES
        self.size = _align(top, RED_ZONE_BYTES)
        self.begins = [b.begin for b in self.buffers]
        self._begins = np.array(self.begins, np.int64)
        self._ends = np.array([b.end for b in self.buffers], np.int64)
        self.undefined = [b for b in self.buffers if b.use is not None and b.use.starts_undefined]
        names = frozenset(v.name for v in variables)
        self.contents = [self._initial(v, names) for v in variables]
        self.contents += [b.content for b in buffers]
        self._make()

    def _make(self) -> None:
        self.heap = np.empty(self.size, np.uint8)
        self.views = views_of(self.heap)
        for begin, end in self._red_zones():
            self.heap[begin:end] = _red_zone(begin, end)
        for buffer, content in zip(self.buffers, self.contents, strict=True):
            self.heap[buffer.begin : buffer.end] = content
        self.defined = np.ones((self.size >> self.granule_bits) + 16, np.bool_)
        for buffer in self.undefined:
            self.defined[self._granules(buffer)] = False

    def _initial(self, variable: Variable, names: frozenset[str]) -> Any:
        """What a variable begins with. Raises PtxError for the address of none of those named."""
        data = _initial(variable).copy()
        for offset, name, behind in variable.addresses:
            if name not in names:
                raise PtxError(
                    f"'{variable.name}' begins with the address of '{name}', which is no variable "
                    "of global memory; a call through a pointer is not emulated"
                )
            address = np.array([self.address_of(name) + behind], np.uint64)
            data[offset : offset + 8] = address.view(np.uint8)
        return data

    def physical(self, places: Places) -> Places:
        """Where the bytes at these offsets lie in `heap`, whose words the tables are about."""
        return places

    def describe_physical(self, offset: int) -> str:
        """As `describe_offset`, for a place in `heap`."""
        return self.describe_offset(offset)

    def note_loads(self, words: Pieces, atomic: bool) -> None:
        """Told of every checked load of a buffer that may be written."""

    def note_stores(self, words: Pieces) -> None:
        """Told of every checked store."""
        words.put(self.defined, True)

    def address_of(self, name: str) -> int:
        """The generic address of a buffer or variable."""
        return self.base + next(b.begin for b in self.buffers if b.name == name)

    def content(self, name: str) -> Any:
        """A copy of a buffer's bytes."""
        buffer = next(b for b in self.buffers if b.name == name)
        return self.heap[buffer.begin : buffer.end].copy()

    def holder(self, low: int, high: int, size: int) -> Buffer | None:
        """The one buffer that holds accesses of `size` bytes at offsets from `low` to `high`."""
        index = bisect.bisect_right(self.begins, low) - 1
        return (
            self.buffers[index] if index >= 0 and high + size <= self.buffers[index].end else None
        )

    def locate(self, places: Places, size: int, what: str) -> Buffer | None:
        """The buffer that holds all of an access, or None when lanes access several.

        Raises Fault when a lane leaves its buffer. Places are relative to the heap.
        """
        buffer = self.holder(*places.limits(), size)
        if buffer is not None:
            return buffer
        offsets = places.offsets
        owners = np.searchsorted(self._begins, offsets, "right") - 1
        outside = (owners < 0) | (offsets + size > self._ends[np.maximum(owners, 0)])
        if outside.any():
            lane, lanes = first_true(outside)
            place = self.describe_offset(int(offsets[lane]))
            raise Fault(
                FindingKind.GLOBAL_OUT_OF_BOUNDS, f"{what} of {size} bytes at {place}", lane, lanes
            )
        return None

    def near(self, offsets: Any, size: int) -> bool:
        """Whether all of an access lies in buffers and the red zones around them."""
        return bool((offsets >= 0).all() and (offsets + size <= self.size).all())

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
            absolute = offset + self.base
            near_null = 0 <= absolute < 4096
            return f"address {absolute:#x}, " + (
                "a null pointer" if near_null else "near no buffer"
            )
        return f"byte {offset - nearest.begin} of {nearest.name}, which has {nearest.size}"

    def require_defined(self, places: Places, size: int, buffer: Buffer | None) -> None:
        """Raises Fault where a load reads bytes of an output or workspace that no one wrote.

        Places are those in `heap`.
        """
        if not self.undefined or (buffer is not None and buffer not in self.undefined):
            return
        words = self.words(places, size)
        missing = ~words.take(self.defined)
        if missing.any():
            index, _ = first_true(missing)
            per_lane = words.per_lane
            lane = index // per_lane
            place = self.describe_physical(int(places.offsets[lane]))
            raise Fault(
                FindingKind.UNINITIALISED_GLOBAL,
                f"load of {size} bytes at {place}: nothing has written them",
                lane,
                int(missing.reshape(-1, per_lane).any(axis=1).sum()),
            )

    def words(self, places: Places, size: int) -> Pieces:
        """The granules of an access, lane by lane."""
        return places.pieces(size, self.granule_bits)

    def unwritten(self, source: DeviceBuffer) -> tuple[int, int] | None:
        """The first byte of an output that no one wrote, and how many there are; None if none."""
        buffer = next(b for b in self.buffers if b.name == source.name)
        granules = self.defined[self._granules(buffer)]
        if granules.all():
            return None
        offset = buffer.begin & ((1 << self.granule_bits) - 1)
        missing = np.repeat(~granules, 1 << self.granule_bits)[offset : offset + buffer.size]
        if source.covered is not None:
            missing = missing & source.covered
        if not missing.any():
            return None
        return first_true(missing)

    def red_zones_changed(self) -> Buffer | None:
        """A buffer whose red zones have changed, or None."""
        for begin, end in self._red_zones():
            changed = self.heap[begin:end] != _red_zone(begin, end)
            if changed.any():
                offset = begin + first_true(changed)[0]
                return min(self.buffers, key=lambda b: max(b.begin - offset, offset - b.end))
        return None

    def _red_zones(self) -> Iterator[tuple[int, int]]:
        """What lies before, between and behind the buffers."""
        begins, ends = (*self.begins, self.size), (0, *(b.end for b in self.buffers))
        return zip(ends, begins, strict=True)

    def _granules(self, buffer: Buffer) -> slice:
        size = 1 << self.granule_bits
        return slice(buffer.begin // size, -(-buffer.end // size))


class PagedMemory(GlobalMemory):
    """The same, of which only pages exist that something touches.

    Places in `heap` follow from the order in which pages were first touched. Raises Fault when
    more is touched than MAX_WORDS granules.
    """

    def _make(self) -> None:
        self.pages = np.zeros(-(-self.size // PAGE), np.int32)
        """For each page of the address space, 1 + the page of the heap that holds it, or 0."""
        self.stored: Any = np.zeros(0, np.bool_)
        """Which granules of the heap something has stored."""
        self.used = 0
        """Pages of the heap in use."""
        self.places = np.zeros(0, np.int64)
        """Where in the address space each page of the heap is."""
        self.loaded: Any = None
        """LOADED and ATOMIC for each granule of the heap; None where nothing asks."""
        self.lenient = False
        """Whether bytes that nothing wrote may be read."""
        self._resize(256)

    def _resize(self, pages: int) -> None:
        """Makes room. What is not used yet is zero, and costs nothing."""
        old, words = self.used, (pages * PAGE >> self.granule_bits) + 16
        heap, defined = np.zeros(pages * PAGE, np.uint8), np.zeros(words, np.bool_)
        stored = np.zeros(words, np.bool_)
        if old:
            used = old * PAGE
            heap[:used] = self.heap[:used]
            defined[: used >> self.granule_bits] = self.defined[: used >> self.granule_bits]
            stored[: used >> self.granule_bits] = self.stored[: used >> self.granule_bits]
        places = np.zeros(pages, np.int64)
        places[:old] = self.places[:old]
        self.heap, self.defined, self.stored, self.places = heap, defined, stored, places
        self.views = views_of(heap)

    def physical(self, places: Places) -> Places:
        """Makes pages that were never touched."""
        offsets = places.offsets
        pages = offsets >> _PAGE_BITS
        held = self.pages[pages]
        if not held.all():
            self._touch(_distinct(pages[held == 0]))
            held = self.pages[pages]
        return Places.of((held.astype(np.int64) - 1 << _PAGE_BITS) | (offsets & (PAGE - 1)))

    def virtual(self, places: Any) -> Any:
        """The other way round: offsets for places in `heap`."""
        return self.places[places >> _PAGE_BITS] + (places & (PAGE - 1))

    def describe_physical(self, offset: int) -> str:
        """As `describe_offset`, for a place in `heap`."""
        return self.describe_offset(int(self.virtual(np.int64(offset))))

    def note_loads(self, words: Pieces, atomic: bool) -> None:
        """Keeps which granules were loaded, where that was asked for."""
        if self.loaded is not None:
            if len(self.loaded) < len(self.defined):
                more = np.zeros(len(self.defined) - len(self.loaded), np.uint8)
                self.loaded = np.concatenate([self.loaded, more])
            self.loaded[words.array] |= ATOMIC if atomic else LOADED

    def require_defined(self, places: Places, size: int, buffer: Buffer | None) -> None:
        """As in `GlobalMemory`, unless it is lenient."""
        if not self.lenient:
            super().require_defined(places, size, buffer)

    def note_stores(self, words: Pieces) -> None:
        """Keeps which granules were stored; those of buffers with contents are defined before."""
        words.put(self.defined, True)
        words.put(self.stored, True)

    def read(self, name: str, first: Any, size: int) -> tuple[Any, Any]:
        """`size` bytes at offsets into a buffer, and which of them something has stored.

        Both have a row for each offset; places that were never touched read as zeros.
        """
        buffer = next(b for b in self.buffers if b.name == name)
        offsets = (first[:, None] + np.arange(size)) + buffer.begin
        held = self.pages[offsets >> _PAGE_BITS].astype(np.int64) - 1
        places = (np.maximum(held, 0) << _PAGE_BITS) | (offsets & (PAGE - 1))
        stored = self.stored[places >> self.granule_bits] & (held >= 0)
        return np.where(stored, self.heap[places], np.uint8(0)), stored

    def granules(self, buffer: Buffer, marks: Any) -> Any:
        """Offsets into a buffer of the granules that are marked in a table about the heap."""
        used = self.used * PAGE >> self.granule_bits
        offsets = self.virtual(np.flatnonzero(marks[:used]) << self.granule_bits)
        inside = (offsets >= buffer.begin) & (offsets < buffer.end)
        return offsets[inside] - buffer.begin

    def _touch(self, pages: Any) -> None:
        old = self.used
        new = old + len(pages)
        if new * PAGE >> self.granule_bits > MAX_WORDS:
            raise Fault(
                FindingKind.BUDGET,
                f"more than {MAX_WORDS << self.granule_bits >> 20} MiB of global memory were "
                "touched, which is all that is kept for sampled blocks",
            )
        if new > len(self.places):
            self._resize(max(new, 2 * len(self.places)))
        places = pages.astype(np.int64) << _PAGE_BITS
        self.places[old:new] = places
        self.used = new
        self.pages[pages] = np.arange(old + 1, new + 1, dtype=np.int32)
        granule = 1 << self.granule_bits
        words = slice(old * PAGE >> self.granule_bits, new * PAGE >> self.granule_bits)
        buffer = self.holder(int(places[0]), int(places[-1]), PAGE)
        if buffer is not None:
            content = self.contents[self.buffers.index(buffer)]
            data = _bytes_of(content, places - buffer.begin, PAGE)
            self.defined[words] = buffer not in self.undefined
        else:
            data = np.tile(np.resize(_RED_ZONE_PATTERN, PAGE), (len(pages), 1))
            known = np.ones((len(pages), PAGE), np.bool_)
            for buffer, content in zip(self.buffers, self.contents, strict=True):
                self._fill(buffer, content, places, data, known)
            self.defined[words] = known.reshape(-1, granule).all(axis=1)
        self.heap[old * PAGE : new * PAGE] = data.reshape(-1)

    def _fill(self, buffer: Buffer, content: Any, places: Any, data: Any, known: Any) -> None:
        """Puts a buffer's content into new pages, and whether it is defined."""
        within = np.flatnonzero((places + PAGE > buffer.begin) & (places < buffer.end))
        whole = (places[within] >= buffer.begin) & (places[within] + PAGE <= buffer.end)
        rows = within[whole]
        defined = buffer not in self.undefined
        if len(rows):
            data[rows] = _bytes_of(content, places[rows] - buffer.begin, PAGE)
            known[rows] = defined
        for row in within[~whole].tolist():
            begin = max(int(places[row]), buffer.begin)
            end = min(int(places[row]) + PAGE, buffer.end)
            part = slice(begin - int(places[row]), end - int(places[row]))
            first = np.array([begin - buffer.begin])
            data[row, part] = _bytes_of(content, first, end - begin)[0]
            known[row, part] = defined


def _distinct(numbers: Any) -> Any:
    """As `np.unique`, quicker where they rise in few steps, as the places of lanes mostly do."""
    rises = numbers[1:] - numbers[:-1]
    if len(rises) and int(rises.min()) < 0:
        return np.unique(numbers)
    return numbers[np.concatenate([_FIRST, rises != 0])]


def _bytes_of(content: Any, first: Any, size: int) -> Any:
    if isinstance(content, np.ndarray):
        return content[first[:, None] + np.arange(size)]
    return content.read(first, size)


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
        self._begin_list = [a[0] for a in self.arrays]
        self._begins = np.array(self._begin_list, np.int64)
        self._ends = np.array([a[1] for a in self.arrays], np.int64)

    def holds(self, offset: int, size: int) -> bool:
        """Whether one array holds some bytes."""
        index = bisect.bisect_right(self._begin_list, offset) - 1
        return index >= 0 and offset + size <= self.arrays[index][1]

    def require_inside(self, offsets: Any, size: int, what: str) -> None:
        """Raises Fault when a lane leaves every array. `offsets` are relative to the block."""
        low, high = int(offsets.min()), int(offsets.max())
        if self.holds(low, high - low + size):
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


def require_aligned(places: Places, size: int, what: str) -> None:
    """Raises Fault when an address is no multiple of the access's size."""
    if not places.is_aligned(size):
        lane, lanes = first_true((places.offsets & (size - 1)) != 0)
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
