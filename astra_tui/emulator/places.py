"""Where the lanes of a group access a memory: in rows of equal steps, where they are such.

Most accesses are: each block, or each warp, touches one stretch of memory. Tables about such places
are read and written as strided views, which costs a fraction of what an index for each lane does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rows:
    """Byte offsets that form `count` rows, each of `length` lanes with equal steps, rows with an
    equal pitch.
    """

    first: int
    count: int
    length: int
    pitch: int
    step: int

    @classmethod
    def of(cls, offsets: Any) -> Rows | None:
        """The rows that offsets form in the order of their lanes; None where they do not."""
        lanes, first = len(offsets), int(offsets[0])
        if lanes == 1:
            return cls(first, 1, 1, 0, 0)
        steps = offsets[1:] - offsets[:-1]
        step = int(steps[0])
        breaks = np.flatnonzero(steps != step)
        if not len(breaks):
            return cls(first, 1, lanes, 0, step)
        length = int(breaks[0]) + 1
        count = len(breaks) + 1
        if count * length != lanes:
            return None
        pitches = np.diff(offsets[::length])
        pitch = int(pitches[0])
        if (pitches != pitch).any() or (np.diff(breaks) != length).any():
            return None
        return cls(first, count, length, pitch, step)

    @property
    def low(self) -> int:
        """The smallest offset."""
        ways = (self.length - 1) * self.step, (self.count - 1) * self.pitch
        return self.first + sum(min(way, 0) for way in ways)

    @property
    def high(self) -> int:
        """The largest offset."""
        ways = (self.length - 1) * self.step, (self.count - 1) * self.pitch
        return self.first + sum(max(way, 0) for way in ways)

    def is_aligned(self, size: int) -> bool:
        """Whether all offsets are multiples of a power of two."""
        return not (self.first | self.pitch | self.step) & (size - 1)

    def are_apart(self, size: int) -> bool:
        """Whether accesses of `size` bytes touch no byte twice."""
        across = self.count == 1 or abs(self.pitch) >= (self.length - 1) * abs(self.step) + size
        return across and (self.length == 1 or abs(self.step) >= size)

    def are_stretches(self, size: int) -> bool:
        """Whether accesses of `size` bytes fill each row without gaps, in the order of lanes."""
        return self.step == size or self.length == 1

    def view(self, table: Any, bits: int, parts: int) -> Any:
        """A table about pieces of `1 << bits` bytes at these offsets: a row, a lane, and `parts`
        neighbouring entries.
        """
        item = table.itemsize
        strides = (self.pitch >> bits) * item, (self.step >> bits) * item, item
        shape = self.count, self.length, parts
        return np.ndarray(shape, table.dtype, table, (self.first >> bits) * item, strides)


class Places:
    """The byte offsets of a group's lanes in a memory."""

    def __init__(self, offsets: Any, rows: Rows | None):
        self.offsets = offsets
        self.rows = rows

    @classmethod
    def of(cls, offsets: Any) -> Places:
        """With the rows that they form."""
        return cls(offsets, Rows.of(offsets))

    def __len__(self) -> int:
        return len(self.offsets)

    def limits(self) -> tuple[int, int]:
        """The smallest and the largest offset."""
        if self.rows is not None:
            return self.rows.low, self.rows.high
        return int(self.offsets.min()), int(self.offsets.max())

    def is_aligned(self, size: int) -> bool:
        """Whether all offsets are multiples of a power of two."""
        if self.rows is not None:
            return self.rows.is_aligned(size)
        return not int(np.bitwise_or.reduce(self.offsets)) & (size - 1)

    def are_apart(self, size: int) -> bool:
        """Whether accesses of `size` bytes are known to touch no byte twice."""
        if self.rows is not None:
            return self.rows.are_apart(size)
        return bool((self.offsets[1:] > self.offsets[:-1]).all())

    def pieces(self, size: int, bits: int) -> Pieces:
        """The pieces of `1 << bits` bytes that aligned accesses of `size` bytes touch."""
        return Pieces(self, size, bits)


class Pieces:
    """What accesses touch of tables that have an entry for each piece of a memory, lane by lane."""

    def __init__(self, places: Places, size: int, bits: int):
        self.places = places
        self.bits = bits
        self.per_lane = max(size >> bits, 1)
        self._rows = places.rows if size >> bits else None
        self.are_apart = self._rows is not None and self._rows.are_apart(size)
        """Whether no entry is known to be touched twice."""

    def __len__(self) -> int:
        return len(self.places) * self.per_lane

    @cached_property
    def array(self) -> Any:
        """The numbers of the pieces."""
        first = self.places.offsets >> self.bits
        if self.per_lane == 1:
            return first
        return (first[:, None] + np.arange(self.per_lane)).reshape(-1)

    def take(self, table: Any) -> Any:
        """A copy of their entries of a table."""
        if self._rows is None:
            return table[self.array]
        return self._rows.view(table, self.bits, self.per_lane).flatten()

    def put(self, table: Any, values: Any) -> None:
        """Sets their entries, to one value or to one for each; of several, the last stays."""
        if not self.are_apart:
            table[self.array] = values
            return
        assert self._rows is not None
        view = self._rows.view(table, self.bits, self.per_lane)
        view[...] = values.reshape(view.shape) if np.ndim(values) else values
