"""Remembers who last touched each word of a memory, to see accesses with nothing between them.

Two accesses of one word by different threads, one of them a write, are a race unless something
orders them: a block barrier, a __syncwarp() within one warp, or, between blocks, a fence and an
atomic on each side. Atomics do not race with each other. A shuffle orders nothing.

For every word the table keeps its last writer, and of its readers since the last barrier: one of
them, whether there was a second in the same warp, in another warp, in another block. That is
enough to answer, for any writer, whether somebody else has read with nothing in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.lab.emulator.faults import Fault, first_true
from astra_tui.model.findings import FindingKind

_NEVER = -1
_WARP_BITS = 5
_ONE_BLOCK = 31


@dataclass(frozen=True)
class Accessors:
    """Who makes an access, one entry a word.

    `thread` counts from 1, its upper bits being the block, its bits above the fifth the warp.
    `epoch` counts the barriers that the thread's block has passed, `sync` those of its warp.
    """

    thread: Any
    epoch: Any
    sync: Any


Acquired = Callable[[Any, Any, Any], Any]
"""Whether the writes of other threads (their ids, at their epochs) are visible to these threads."""


Unchanged = Callable[[], Any]
"""Computes, word by word, whether a store writes the value that is there already."""


class AccessHistory:
    """The table for one memory. An atomic's writer is negative."""

    def __init__(
        self, words: int, kind: FindingKind, block_bits: int, describe: Callable[[int], str]
    ):
        self.kind = kind
        self.block_bits = block_bits
        """Thread ids shifted by this many bits are block numbers; 31 for one block's own memory."""
        self.describe = describe
        """Names a word for a message."""
        self.writer = np.zeros(words, np.int32)
        self.write_epoch = np.zeros(words, np.int32)
        self.write_sync = np.zeros(words, np.int32)
        self.reader = np.zeros(words, np.int32)
        self.read_epoch = np.zeros(words, np.int32)
        self.read_sync = np.zeros(words, np.int32)
        self.second_sync = np.full(words, _NEVER, np.int32)
        self.second_epoch = np.full(words, _NEVER, np.int32)
        self.other_warp_epoch = np.full(words, _NEVER, np.int32)
        self.other_block = np.zeros(words, np.bool_)
        self.any_second_reader = False

    def load(self, words: Any, by: Accessors, acquired: Acquired | None, atomic: bool) -> None:
        """Records reads of `words`; raises Fault, with the index of the word, on a race."""
        self._check_writers(words, by, acquired, atomic, None, "load of {} that {} wrote")
        if not atomic:
            self._record_readers(words, by)

    def store(
        self,
        words: Any,
        by: Accessors,
        acquired: Acquired | None,
        atomic: bool,
        unchanged: Unchanged | None,
    ) -> None:
        """Records writes. `unchanged` tells, when asked, which of them store what is there."""
        self._check_writers(words, by, acquired, atomic, unchanged, "store to {} that {} wrote")
        self._check_readers(words, by, acquired, unchanged)
        self.writer[words] = -by.thread if atomic else by.thread
        self.write_epoch[words] = by.epoch
        self.write_sync[words] = by.sync

    def _record_readers(self, words: Any, by: Accessors) -> None:
        earlier = self.reader[words]
        if earlier.any():
            known = (earlier != 0) & (earlier != by.thread)
            if known.any():
                self._note_earlier(words, by, earlier, known)
        self.reader[words] = by.thread
        self.read_epoch[words] = by.epoch
        self.read_sync[words] = by.sync
        # Lanes of one instruction that read the same word: only one of them is kept.
        kept = self.reader[words]
        lost = kept != by.thread
        if lost.any():
            self._note_earlier(words, by, kept, lost)

    def _note_earlier(self, words: Any, by: Accessors, earlier: Any, which: Any) -> None:
        """Keeps that somebody else has read, as far as nothing has ordered it since."""
        self.any_second_reader = True
        at = np.flatnonzero(which)
        word, other, thread = words[at], earlier[at], by.thread[at]
        same_block = self._same_block(other, thread)
        if not np.all(same_block):
            self.other_block[word[~same_block]] = True
        recent = same_block & (self.read_epoch[word] == by.epoch[at])
        same_warp = self._same_warp(other, thread)
        elsewhere = recent & ~same_warp
        self.other_warp_epoch[word[elsewhere]] = by.epoch[at][elsewhere]
        beside = recent & same_warp & (self.read_sync[word] == by.sync[at])
        self.second_sync[word[beside]] = by.sync[at][beside]
        self.second_epoch[word[beside]] = by.epoch[at][beside]

    def _check_writers(
        self,
        words: Any,
        by: Accessors,
        acquired: Acquired | None,
        atomic: bool,
        unchanged: Unchanged | None,
        text: str,
    ) -> None:
        signed = self.writer[words]
        writer = np.maximum(signed, 0) if atomic else np.abs(signed)
        suspect = (writer != 0) & (writer != by.thread)
        if not suspect.any():
            return
        at = np.flatnonzero(suspect)
        word, other, thread = words[at], writer[at], by.thread[at]
        same_block, same_warp = self._same_block(other, thread), self._same_warp(other, thread)
        ordered = same_block & (self.write_epoch[word] != by.epoch[at])
        ordered |= same_warp & (self.write_sync[word] != by.sync[at])
        if unchanged is not None and not ordered.all():
            ordered |= unchanged()[at] & (signed[at] > 0)
        if acquired is not None and not ordered.all():
            ordered |= acquired(other, thread, self.write_epoch[word])
        if not ordered.all():
            self._raise(text, word, other, at, ordered)

    def _check_readers(
        self, words: Any, by: Accessors, acquired: Acquired | None, unchanged: Unchanged | None
    ) -> None:
        reader = self.reader[words]
        suspect = reader != 0
        if not self.any_second_reader:
            suspect &= reader != by.thread
        if not suspect.any():
            return
        at = np.flatnonzero(suspect)
        word, other, thread = words[at], reader[at], by.thread[at]
        epoch, sync = by.epoch[at], by.sync[at]
        same_block, same_warp = self._same_block(other, thread), self._same_warp(other, thread)
        recent = same_block & (self.read_epoch[word] == epoch)
        racing = recent & ~same_warp
        racing |= recent & (self.other_warp_epoch[word] == epoch)
        beside = recent & same_warp & (self.read_sync[word] == sync)
        second = (self.second_sync[word] == sync) & (self.second_epoch[word] == epoch)
        racing |= beside & ((other != thread) | second)
        if not np.all(same_block):
            far = ~same_block
            if acquired is not None:
                far &= ~acquired(other, thread, self.read_epoch[word])
            racing |= far
        racing |= self.other_block[word]
        if unchanged is not None and racing.any():
            racing &= ~unchanged()[at]
        if racing.any():
            self._raise("store to {} that {} read", word, other, at, ~racing)

    def _same_block(self, a: Any, b: Any) -> Any:
        if self.block_bits >= _ONE_BLOCK:
            return np.True_
        return ((a - 1) >> self.block_bits) == ((b - 1) >> self.block_bits)

    def _same_warp(self, a: Any, b: Any) -> Any:
        return ((a - 1) >> _WARP_BITS) == ((b - 1) >> _WARP_BITS)

    def _raise(self, text: str, words: Any, others: Any, at: Any, ordered: Any) -> None:
        index, count = first_true(~ordered)
        thread = (int(others[index]) - 1) & ((1 << self.block_bits) - 1)
        block = (int(others[index]) - 1) >> self.block_bits
        who = (
            f"thread {thread}"
            if self.block_bits >= _ONE_BLOCK
            else f"thread {thread} of block {block}"
        )
        message = text.format(self.describe(int(words[index])), who)
        raise Fault(self.kind, f"{message} with nothing in between", int(at[index]), count)
