"""Where the lanes of a group access a memory: in rows of equal steps, where they are such.

Most accesses are: each block, or each warp, touches one stretch of memory. Tables about such places
are read and written as strided views, which costs a fraction of what an index for each lane does.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

_FAR = 1 << 62


class Shape:
    """`count` rows, each of `length` lanes with equal steps, rows with an equal pitch; in bytes.

    The same for many accesses, so what follows from it is worked out once.
    """

    __slots__ = ("bits", "count", "gap", "high", "length", "low", "pitch", "step")

    def __init__(self, count: int, length: int, pitch: int, step: int):
        self.count, self.length, self.pitch, self.step = count, length, pitch, step
        ways = (length - 1) * step, (count - 1) * pitch
        self.low = sum(min(way, 0) for way in ways)
        """Of the smallest offset, from the first one."""
        self.high = sum(max(way, 0) for way in ways)
        """Of the largest offset, from the first one."""
        self.bits = pitch | step
        """The bits that are set in any distance of lanes."""
        within = abs(step) if length > 1 else _FAR
        across = abs(pitch) - (length - 1) * abs(step) if count > 1 else _FAR
        self.gap = min(within, across)
        """The largest accesses at these offsets that touch no byte twice."""


shape_of = lru_cache(maxsize=4096)(Shape)
"""One shape for each of its sizes."""


class Rows:
    """Byte offsets that form a shape; `first` is the first lane's."""

    __slots__ = ("first", "shape")

    def __init__(self, first: int, shape: Shape):
        self.first = first
        self.shape = shape

    @classmethod
    def of(cls, offsets: Any) -> Rows | None:
        """The rows that offsets form in the order of their lanes; None where they do not."""
        lanes, first = len(offsets), offsets.item(0)
        if lanes == 1:
            return cls(first, shape_of(1, 1, 0, 0))
        steps = offsets[1:] - offsets[:-1]
        step = steps.item(0)
        breaks = (steps != step).nonzero()[0]
        if not breaks.size:
            return cls(first, shape_of(1, lanes, 0, step))
        length, count = breaks.item(0) + 1, breaks.size + 1
        if count * length != lanes:
            return None
        begins = offsets[::length]
        pitch = begins.item(1) - first
        uneven = np.count_nonzero(begins[1:] - begins[:-1] != pitch)
        if uneven or np.count_nonzero(breaks[1:] - breaks[:-1] != length):
            return None
        return cls(first, shape_of(count, length, pitch, step))

    @property
    def begins(self) -> Any:
        """The offsets at which rows begin."""
        return self.first + self.shape.pitch * np.arange(self.shape.count)

    def is_aligned(self, size: int) -> bool:
        """Whether all offsets are multiples of a power of two."""
        return not (self.first | self.shape.bits) & (size - 1)

    def view(self, table: Any, bits: int, parts: int) -> Any:
        """A table about pieces of `1 << bits` bytes at these offsets: a row, a lane, and `parts`
        neighbouring entries.
        """
        item, shape = table.itemsize, self.shape
        strides = (shape.pitch >> bits) * item, (shape.step >> bits) * item, item
        sizes = shape.count, shape.length, parts
        return np.ndarray(sizes, table.dtype, table, (self.first >> bits) * item, strides)


class Places:
    """The byte offsets of a group's lanes in a memory."""

    def __init__(self, offsets: Any, rows: Rows | None, distance: int = 0):
        """`distance` is added to the offsets, whose rows are given with it."""
        self._given, self._distance = offsets, distance
        self.rows = rows

    @classmethod
    def of(cls, offsets: Any) -> Places:
        """With the rows that they form."""
        return cls(offsets, Rows.of(offsets))

    def __len__(self) -> int:
        return len(self._given)

    @cached_property
    def offsets(self) -> Any:
        """The offset of each lane."""
        return self._given + self._distance if self._distance else self._given

    def moved(self, distance: int) -> Places:
        """These places, all so many bytes further."""
        rows = self.rows and Rows(self.rows.first + distance, self.rows.shape)
        return Places(self._given, rows, self._distance + distance)

    def limits(self) -> tuple[int, int]:
        """The smallest and the largest offset."""
        if self.rows is not None:
            first, shape = self.rows.first, self.rows.shape
            return first + shape.low, first + shape.high
        return int(self.offsets.min()), int(self.offsets.max())

    def is_aligned(self, size: int) -> bool:
        """Whether all offsets are multiples of a power of two."""
        if self.rows is not None:
            return self.rows.is_aligned(size)
        return not int(np.bitwise_or.reduce(self.offsets)) & (size - 1)

    def are_apart(self, size: int) -> bool:
        """Whether accesses of `size` bytes are known to touch no byte twice."""
        if self.rows is not None:
            return size <= self.rows.shape.gap
        return bool((self.offsets[1:] > self.offsets[:-1]).all())

    def pieces(self, size: int, bits: int) -> Pieces:
        """The pieces of `1 << bits` bytes that aligned accesses of `size` bytes touch."""
        return Pieces(self, size, bits)


class Pieces:
    """What accesses touch of tables that have an entry for each piece of a memory, lane by lane."""

    def __init__(self, places: Places, size: int, bits: int):
        self.places = places
        self.size = size
        self.bits = bits
        self.per_lane = max(size >> bits, 1)
        self._rows = places.rows if size >> bits else None
        self.are_apart = self._rows is not None and size <= self._rows.shape.gap
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
