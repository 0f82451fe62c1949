"""Which bytes a grid stores, and by which blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from astra_tui.emulator.memory import Buffer, GlobalMemory

_STORED, _WANTED = 1, 2


class StoreMap:
    """Which bytes of the writable buffers are stored, in pieces of `granule` bytes."""

    def __init__(self, memory: GlobalMemory, granule: int):
        self.granule_bits = granule.bit_length() - 1
        self.marks: dict[str, Any] = {
            b.name: np.zeros(-(-max(b.size, 1) // 16) * 16 >> self.granule_bits, np.uint8)
            for b in memory.buffers
            if b.tracked
        }
        self.writers: dict[str, dict[int, set[int]]] = {}
        """Of wanted pieces, by buffer and piece: the blocks that store them."""
        self.wanted: dict[str, Any] = {}

    def want(self, buffer: str, offsets: Any) -> None:
        """Asks for the writers of the pieces that hold some bytes."""
        pieces = np.unique(np.asarray(offsets, np.int64) >> self.granule_bits)
        self.marks[buffer][pieces] |= _WANTED
        self.wanted[buffer] = pieces

    def wants_of(self, buffer: Buffer, low: int, high: int) -> bool:
        """Whether writers are asked for of pieces between two offsets."""
        pieces = self.wanted.get(buffer.name)
        if pieces is None:
            return False
        first = low >> self.granule_bits
        at = int(np.searchsorted(pieces, first))
        return at < len(pieces) and int(pieces[at]) <= (high + 16) >> self.granule_bits

    def mark(
        self, buffer: Buffer, offsets: Any, size: int, blocks: Callable[[], Any] | None
    ) -> None:
        """Marks `size` bytes at offsets into the buffer, whose addresses are aligned.

        `blocks` gives who stores, one for each offset, where a wanted piece may be among them.
        """
        marks, bits = self.marks[buffer.name], self.granule_bits
        count = max(size >> bits, 1)
        step = _common_step(offsets, size) >> bits
        first = int(offsets[0]) >> bits if step else offsets >> bits
        # The base may be aligned to less than 8.
        shared = step | 8 | (first if step else int(np.bitwise_or.reduce(first, axis=None)))
        at_once = min(count, shared & -shared)
        if at_once > 1:
            marks = marks.view(f"u{at_once}")
            first >>= at_once.bit_length() - 1
            step //= at_once
        span = step * (len(offsets) - 1) + 1
        for part in range(count // at_once):
            at = slice(first + part, first + part + span, step) if step else first + part
            self._mark(buffer, marks, at, blocks)

    def _mark(self, buffer: Buffer, marks: Any, at: Any, blocks: Callable[[], Any] | None) -> None:
        """Marks the pieces at places, or at a slice, of `marks`, which may have several in one."""
        at_once = marks.itemsize
        stored = marks.dtype.type(int.from_bytes(bytes([_STORED]) * at_once, "little"))
        if blocks is None:
            marks[at] = stored
            return
        before = marks[at]
        hits = np.flatnonzero(before & marks.dtype.type(stored * _WANTED))
        marks[at] = before | stored
        if not len(hits):
            return
        known, wanted = self.writers.setdefault(buffer.name, {}), self.marks[buffer.name]
        places = at.start + hits * at.step if isinstance(at, slice) else at[hits]
        for place, block in zip(places.tolist(), blocks()[hits].tolist(), strict=True):
            for piece in range(place * at_once, (place + 1) * at_once):
                if wanted[piece] & _WANTED:
                    known.setdefault(piece, set()).add(block)

    def offsets(self, buffer: str) -> Any:
        """The offsets of all stored pieces of a buffer."""
        return np.flatnonzero(self.marks[buffer] & _STORED) << self.granule_bits

    def is_stored(self, buffer: str, offsets: Any) -> Any:
        """Whether the bytes at these offsets are stored."""
        return (self.marks[buffer][offsets >> self.granule_bits] & _STORED) != 0


def _common_step(offsets: Any, size: int) -> int:
    """How far each offset is above the one before, in whole sizes; 0 where that differs."""
    if len(offsets) < 2:
        return 0
    first, second, last = int(offsets[0]), int(offsets[1]), int(offsets[-1])
    step = second - first
    if step <= 0 or step % size or last - first != step * (len(offsets) - 1):
        return 0
    return step if bool((np.diff(offsets) == step).all()) else 0


def first_missing(maps: Sequence[StoreMap], buffer: Buffer) -> tuple[int, int] | None:
    """The first byte of a buffer that no launch stores, and how many there are; None if none."""
    both = maps[0].marks[buffer.name]
    for other in maps[1:]:
        both = both | other.marks[buffer.name]
    bits = maps[0].granule_bits
    pieces = -(-buffer.size // (1 << bits))
    # Nearly always all is stored: looked at in words of 8 pieces, without a copy.
    whole = both[: pieces & ~7].view(np.uint64)
    every = np.uint64(int.from_bytes(bytes([_STORED]) * 8, "little"))
    done = np.bitwise_and.reduce(whole, initial=every) & every == every
    first = len(whole) * 8 if done else 0
    missing = np.flatnonzero((both[first:pieces] & _STORED) == 0)
    if not len(missing):
        return None
    return (first + int(missing[0])) << bits, len(missing) << bits
