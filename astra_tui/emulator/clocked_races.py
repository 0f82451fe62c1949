"""Who last touched each word of shared memory, where clocks tell what comes before what.

The table keeps for every word its last writer, and for every warp of the cluster which of its lanes
have read it since, at two times: the latest, and one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from astra_tui.emulator.clocks import Clocks
from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.places import Pieces
from astra_tui.emulator.races import Accessors, Acquired, Unchanged
from astra_tui.model.findings import FindingKind

_WARP_BITS = 5
_U32 = np.uint32


class ClockedHistory:
    """The table for shared memory of a chunk, used as an `AccessHistory` is.

    Threads count from 1 within their cluster, an atomic's writer is negative; numbers beyond the
    threads are barriers in memory, whose copies have written.
    """

    def __init__(self, clocks: Clocks, words: int, describe: Callable[[int], str]):
        self.clocks = clocks
        self.describe = describe
        warps = clocks.members >> _WARP_BITS
        self.writer = np.zeros(words, np.int32)
        self.write_time = np.zeros(words, np.int32)
        self.readers = np.zeros((2, words, warps), _U32)
        self.read_time = np.zeros((2, words, warps), np.int32)
        self.read_step = np.zeros((2, words, warps), np.int32)

    def load(self, words: Pieces, by: Accessors, acquired: Acquired | None, atomic: bool) -> None:
        """Records reads of `words`; raises Fault, with the index of the word, on a race."""
        self.require_ordered(words, by, acquired, atomic)
        self.note_load(words, by, atomic)

    def require_ordered(
        self, words: Pieces, by: Accessors, acquired: Acquired | None, atomic: bool
    ) -> None:
        """Raises Fault, with the index of the word, where words may not be read now."""
        del acquired
        self._check_writers(words, by, atomic, None, "load of {} that {} wrote")

    def store(
        self,
        words: Pieces,
        by: Accessors,
        acquired: Acquired | None,
        atomic: bool,
        unchanged: Unchanged | None,
    ) -> None:
        """Records writes. `unchanged` tells, when asked, which of them store what is there."""
        del acquired
        self.require_free(words, by, atomic, unchanged)
        self.note_store(words, by, atomic)

    def require_free(
        self, words: Pieces, by: Accessors, atomic: bool = False, unchanged: Unchanged | None = None
    ) -> None:
        """Raises Fault where words may not be written now."""
        self._check_writers(words, by, atomic, unchanged, "store to {} that {} wrote")
        self._check_readers(words, by, unchanged)

    def note_load(self, words: Pieces, by: Accessors, atomic: bool) -> None:
        """Records reads without a check."""
        if atomic or not len(words):
            return
        member = by.thread - 1
        key = words.array * self.readers.shape[2] + (member >> _WARP_BITS)
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        bits = _U32(1) << (member & 31).astype(_U32)
        lanes, key = np.bitwise_or.reduceat(bits[order], first), key[order][first]
        readers, times = self.readers.reshape(2, -1), self.read_time.reshape(2, -1)
        steps = self.read_step.reshape(2, -1)
        moving = (times[0, key] != by.time) & (readers[0, key] & ~lanes != 0)
        at = key[moving]
        readers[1, at] = (readers[0, at] | readers[1, at]) & ~lanes[moving]
        times[1, at], steps[1, at] = times[0, at], steps[0, at]
        readers[1, key] &= ~lanes
        same = times[0, key] == by.time
        readers[0, key] = np.where(same, readers[0, key] | lanes, lanes)
        times[0, key], steps[0, key] = by.time, by.step

    def note_store(self, words: Pieces, by: Accessors, atomic: bool) -> None:
        """Records writes without a check."""
        self.note_write(words.array, -by.thread if atomic else by.thread, by.time)

    def note_write(self, words: Any, writer: Any, time: int) -> None:
        """Records who has written words, and when."""
        self.writer[words], self.write_time[words] = writer, time
        self.readers[:, words] = 0

    def _check_writers(
        self, words: Pieces, by: Accessors, atomic: bool, unchanged: Unchanged | None, text: str
    ) -> None:
        signed = words.take(self.writer)
        writer = np.maximum(signed, 0) if atomic else np.abs(signed)
        at = np.flatnonzero((writer != 0) & (writer != by.thread))
        if not len(at):
            return
        assert by.known is not None
        ordered = by.known(at, writer[at], self.write_time[words.array[at]])
        if unchanged is not None and not ordered.all():
            ordered |= unchanged()[at] & (signed[at] > 0)
        if not ordered.all():
            index, count = first_true(~ordered)
            raise self._race(text, words.array[at[index]], writer[at[index]], int(at[index]), count)

    def _check_readers(self, pieces: Pieces, by: Accessors, unchanged: Unchanged | None) -> None:
        words = pieces.array
        for part in range(2):
            found = self.readers[part, words]
            row, warp = np.nonzero(found)
            if not len(row):
                continue
            lanes = np.unpackbits(
                found[row, warp].astype("<u4").view(np.uint8).reshape(-1, 4),
                axis=1,
                bitorder="little",
            )
            entry, lane = np.nonzero(lanes)
            at, reader = row[entry], (warp[entry] << _WARP_BITS) + lane + 1
            time = self.read_time[part, words[at], warp[entry]]
            ordered = (reader == by.thread[at]) | self._exchanged(part, words, by, at, reader, time)
            assert by.known is not None
            ordered |= by.known(at, reader, time)
            if unchanged is not None and not ordered.all():
                ordered |= unchanged()[at]
            if not ordered.all():
                index, count = first_true(~ordered)
                place = int(at[index])
                raise self._race(
                    "store to {} that {} read", words[place], reader[index], place, count
                )

    def _exchanged(
        self, part: int, words: Any, by: Accessors, at: Any, reader: Any, time: Any
    ) -> Any:
        """Whether a shuffle or vote of the warp brought what is written from what was read."""
        warp = (reader - 1) >> _WARP_BITS
        ordered = (warp == (by.thread[at] - 1) >> _WARP_BITS) & (time < by.exchange[at])
        if by.awaited is not None and ordered.any():
            ordered &= by.awaited()[self.read_step[part, words[at], warp]]
        return ordered

    def _race(self, text: str, word: Any, thread: Any, lane: int, lanes: int) -> Fault:
        message = text.format(self.describe(int(word)), self._name(int(thread) - 1))
        return Fault(FindingKind.SHARED_RACE, f"{message} with nothing in between", lane, lanes)

    def _name(self, member: int) -> str:
        clocks = self.clocks
        if member >= clocks.members:
            return "an asynchronous copy"
        rank, thread = divmod(member, clocks.block_lanes)
        of_block = f" of block {rank} of the cluster" if clocks.members > clocks.block_lanes else ""
        return f"thread {thread}{of_block}"
