"""Remembers who last touched each stretch of a memory, where warps touch whole stretches in order.

Most accesses do: the lanes of a warp next to each other, each a few bytes. Then one entry tells
what `races.py` keeps for each of its words, as long as the same threads come again in the same
way, or others of their block after a barrier. Whatever else touches a stretch turns the entry into
those of its words first, so what is found is the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from astra_tui.emulator.places import Pieces, Places, Shape
from astra_tui.emulator.step import AccessSpec
from astra_tui.model.occupancy import WARP

_WARP_BITS = 5
_LARGEST_BITS = 7
"""Of a stretch: 128 bytes, to which arrays in shared memory are aligned."""
_SIZE_BITS = 3
_SIZES = (1 << _SIZE_BITS) - 1
_IN_WORDS = -1
_STORE, _LOAD = range(2)
_WRITE_TABLES = "writer", "write_epoch", "write_time"
_READ_TABLES = "reader", "read_epoch", "read_time", "read_step"


_KEY, _EPOCH, _TIME, _STEP = range(4)


class _StretchAccess(NamedTuple):
    """Who touches stretches: keys and epochs, a row and a stretch each."""

    key: Any
    epoch: Any
    time: int
    step: int


class Stretches:
    """The entries about a memory whose words have `1 << granule_bits` bytes.

    For each stretch the last store and the last load: a key that tells the first thread, as
    `Accessors` do, and how many bytes each lane touches; then epoch, time and step. A key of 0
    stands for none.
    """

    def __init__(self, words: int, granule_bits: int, block_bits: int):
        self.granule_bits = granule_bits
        self.bits = min(granule_bits + _WARP_BITS, _LARGEST_BITS)
        self._words_bits = self.bits - granule_bits
        self._key_bits = block_bits + _SIZE_BITS
        self._one_block = block_bits >= 31
        self._last = np.zeros(((words >> self._words_bits) + 1, 2, 4), np.int64)
        self._in_words: set[tuple[int, Shape, int]] = set()
        """What has been turned into words."""

    def reach(self, words: int) -> None:
        """Makes room for more words."""
        count = (words >> self._words_bits) + 1
        if count > len(self._last):
            longer = np.zeros((count, 2, 4), np.int64)
            longer[: len(self._last)] = self._last
            self._last = longer

    def touch(self, places: Places, spec: AccessSpec, thread: Any, epoch: Any, time: int) -> bool:
        """Records a plain access of whole warps; False where the words have to tell, and nothing
        is recorded. `thread` and `epoch` are those of `Accessors`.
        """
        rows = places.rows
        if rows is None or rows.shape.step != spec.size:
            return False
        unit, shape = 1 << self.bits, rows.shape
        if (rows.first | shape.pitch) & (unit - 1) or shape.length % WARP:
            return False
        lanes = unit // spec.size
        if not lanes or spec.size > shape.gap:
            return False
        entry = self._last.itemsize * 8
        strides = (shape.pitch >> self.bits) * entry, entry, entry // 2, entry // 8
        sizes, begin = (shape.count, shape.length // lanes, 2, 4), rows.first >> self.bits
        last = np.ndarray(sizes, np.int64, self._last, begin * entry, strides)
        if spec.non_coherent and last[:, :, _STORE, _KEY].any():
            return False
        key = (thread[::lanes].astype(np.int64) << _SIZE_BITS) | (spec.size.bit_length() - 1)
        by = _StretchAccess(
            key.reshape(sizes[:2]), epoch[::lanes].reshape(sizes[:2]), time, spec.index
        )
        return self._note(last, by, _STORE if spec.writes else _LOAD)

    def _note(self, last: Any, by: _StretchAccess, direction: int) -> bool:
        before, key = last[:, :, :, _KEY], by.key
        other = before != key[:, :, None]
        if np.count_nonzero(other) and not self._are_ordered(other, before, last, by):
            return False
        now = last[:, :, direction]
        now[:, :, _KEY], now[:, :, _EPOCH] = key, by.epoch
        now[:, :, _TIME], now[:, :, _STEP] = by.time, by.step
        return True

    def _are_ordered(self, other: Any, before: Any, last: Any, by: _StretchAccess) -> bool:
        """Whether all that others touched, they touched before a barrier of their block."""
        other &= before != 0
        if not np.count_nonzero(other):
            return True
        if np.count_nonzero(before < 0):
            return False
        other &= last[:, :, :, _EPOCH] == by.epoch[:, :, None]
        if np.count_nonzero(other):
            return False
        elsewhere = self._block(before) != self._block(by.key)[:, :, None]
        return self._one_block or not np.count_nonzero(elsewhere & (before != 0))

    def _block(self, key: Any) -> Any:
        return (key - (1 << _SIZE_BITS)) >> self._key_bits

    def turn_into_words(self, words: Pieces, history: Any) -> None:
        """Lets the history of words tell about the stretches that hold these, from now on."""
        rows = words.places.rows
        if rows is not None:
            if (place := (rows.first, rows.shape, words.size)) in self._in_words:
                return
            self._in_words.add(place)
        at = self._around(words)
        known = self._last[at, :, _KEY] > 0
        if np.count_nonzero(known):
            for direction, tables in ((_STORE, _WRITE_TABLES), (_LOAD, _READ_TABLES)):
                self._spread(at[known[:, direction]], direction, history, tables)
        self._last[at, :, _KEY] = _IN_WORDS

    def _around(self, words: Pieces) -> Any:
        """The stretches that hold words, and some others around them."""
        rows = words.places.rows
        if rows is not None and abs(rows.shape.step) <= 1 << self.bits:
            way = (rows.shape.length - 1) * rows.shape.step
            begin = rows.begins + min(way, 0)
            first, last = begin >> self.bits, (begin + abs(way) + words.size - 1) >> self.bits
            return np.unique(first[:, None] + np.arange(int((last - first).max()) + 1))
        return np.unique(words.array >> self._words_bits)

    def _spread(self, at: Any, direction: int, history: Any, tables: tuple[str, ...]) -> None:
        if not len(at):
            return
        within = np.arange(1 << self._words_bits)
        words = (at[:, None] << self._words_bits) + within
        key, *times = (self._last[at, direction, part][:, None] for part in range(len(tables)))
        lane = (within << self.granule_bits) >> (key & _SIZES)
        for table, value in zip(tables, ((key >> _SIZE_BITS) + lane, *times), strict=True):
            getattr(history, table)[words] = value
