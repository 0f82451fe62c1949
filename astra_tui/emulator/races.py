"""Remembers who last touched each word of a memory, to see accesses with nothing between them.

Two accesses of one word by different threads, one of them a write, are a race unless something
orders them: a block barrier, a __syncwarp() within one warp, or, between blocks, what `fences.py`
says. A write after a read is ordered by a shuffle or a vote of the two lanes as well, where what
is written follows from what they exchanged, and that from what was read: then it has arrived.
Atomics do not race with each other.

For every word the table keeps its last writer, and of its readers since the last barrier: one of
them, whether there was a second in the same warp, in another warp, in another block. That is
enough to answer, for any writer, whether someone else has read with nothing in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.fences import EarlierAccesses
from astra_tui.emulator.places import Pieces, Places
from astra_tui.emulator.step import AccessSpec
from astra_tui.emulator.stretches import Stretches
from astra_tui.model.findings import FindingKind

_WARP_BITS = 5
_ONE_BLOCK = 31


def _lane(thread: Any) -> Any:
    return (thread - 1) & ((1 << _WARP_BITS) - 1)


class Accessors(NamedTuple):
    """Who makes an access, one entry a word.

    `thread` counts from 1, its upper bits being the block, its bits above the fifth the warp.
    `epoch` counts the barriers that the thread's block has passed. `time` is that of the launch,
    which advances at each operation of a warp; `sync` is when the whole warp last synchronised,
    `exchange` when it last did or exchanged values.
    """

    thread: Any
    epoch: Any
    time: Any
    sync: Any
    exchange: Any
    partly: PartOfWarp | None = None
    """What parts of warps have done on their own; None where they never have."""
    fences: Any = None
    """How many fences each thread has made; None where nothing orders blocks."""
    step: Any = 0
    """The step of the program that makes the access; as with `time`, one or, where loads are noted
    together, one an entry."""
    awaited: Awaited | None = None
    """None where any exchange of values orders what is written after it."""
    known: Known | None = None
    """What these threads know of others; None where nothing but barriers of a block tells."""


class PartOfWarp(Protocol):
    """When each lane last synchronised, or exchanged values, with each lane of its warp."""

    def sync(self, at: Any, lanes: Any) -> Any:
        """The times for these entries of the accessors with these lanes."""

    def exchange(self, at: Any, lanes: Any) -> Any:
        """The same for exchanges; those count as well that synchronise."""


Awaited = Callable[[], Any]
"""Computes, for each step of the program, whether this one follows from its result, by way of
exchanges of the warp."""


Known = Callable[[Any, Any, Any], Any]
"""Whether accesses of threads at some times come before these entries of the accessors."""


Acquired = Callable[[EarlierAccesses, Any, Any, Any], Any]
"""Whether accesses of other blocks come before those of threads, at their epochs and syncs."""


Unchanged = Callable[[], Any]
"""Computes, word by word, whether a store writes the value that is there already."""


class _Reads(NamedTuple):
    """Reads by lanes of the warp that writes now: when they were, and by which steps."""

    time: Any
    step: Any

    def unordered(self, by: Accessors, at: Any, lanes: Any) -> Any:
        """Whether nothing lies between them and the writes of these accessors."""
        sync, exchange = by.sync[at], by.exchange[at]
        if by.partly is not None:
            sync = np.maximum(sync, by.partly.sync(at, lanes))
            exchange = np.maximum(exchange, by.partly.exchange(at, lanes))
        open_still = self.time >= exchange
        exchanged = ~open_still & (self.time >= sync)
        if by.awaited is not None and exchanged.any():
            open_still |= exchanged & ~by.awaited()[self.step]
        return open_still


class LateLoad(NamedTuple):
    """A load of a block's own memory with a barrier between it and all stores before it.

    Only a store in front of the next barrier can race with it, so it is noted when one comes.
    """

    places: Places
    spec: AccessSpec
    thread: Any
    """As in `Accessors`, but an entry a lane."""
    epoch: Any
    """The same."""
    block: Any
    """Of each lane, its block's number in the chunk."""
    time: int
    in_order: bool
    """Whether it may touch stretches."""
    local: int = -1
    """Where in its block's memory every lane loads, if that is one place."""

    def brief(self) -> LateLoad:
        """A load that leaves the same in the table, where two warps or more in turn read one place:
        by the lane that stays there, another one of its warp, and one of another warp.
        """
        if not self.in_order:
            return self
        offsets, epoch = self.places.offsets, self.epoch
        other = np.flatnonzero((offsets[1:] != offsets[:-1]) | (epoch[1:] != epoch[:-1])) + 1
        first, end = np.append(0, other), np.append(other, len(offsets))
        if int((end - first).min()) < 2 << _WARP_BITS or (first % (1 << _WARP_BITS)).any():
            return self
        kept = np.stack([first, end - 2, end - 1], axis=1).reshape(-1)
        return self.of(kept)._replace(in_order=False)

    def of(self, lanes: Any) -> LateLoad:
        """The load by some of its lanes."""
        places = Places.of(self.places.offsets[lanes])
        thread, epoch, block = self.thread[lanes], self.epoch[lanes], self.block[lanes]
        return self._replace(places=places, thread=thread, epoch=epoch, block=block)


def _since(loads: list[LateLoad], epochs: Any) -> Iterator[LateLoad]:
    """Of loads those, or the parts of those, by threads whose blocks are still at their epochs;
    `epochs` are the blocks'.
    """
    still: Any = None
    epoch = block = None
    for load in loads:
        if load.epoch is not epoch or load.block is not block:  # Loads of one group share them.
            epoch, block = load.epoch, load.block
            still = epoch >= epochs[block]
            count = np.count_nonzero(still)
        if count:
            yield load if count == len(still) else load.of(still)


def _as_one(loads: list[LateLoad], bits: int) -> tuple[Any, Accessors] | None:
    """The words of `1 << bits` bytes that loads by the same lanes touch, and who touches them; None
    where the lanes differ, or one may come near what another one loads.
    """
    thread, epoch = loads[0].thread, loads[0].epoch
    if any(load.thread is not thread or load.epoch is not epoch for load in loads):
        return None
    rows = [load.places.rows for load in loads if load.places.rows is not None]
    if len(rows) < len(loads) or any(each.shape is not rows[0].shape for each in rows):
        return None
    first, time, step = [], [], []
    for load, each in zip(loads, rows, strict=True):
        at = each.first >> bits
        for word in range(at, at + max(load.spec.size >> bits, 1)):
            first.append(word)
            time.append(load.time)
            step.append(load.spec.index)
    near = max(first) - min(first) + 1 << bits
    if near > rows[0].shape.gap or len(set(first)) < len(first):
        return None
    lanes, count = len(thread), len(first)
    begins = (loads[0].places.offsets >> bits) - first[0]
    by = Accessors(
        thread.repeat(count), epoch.repeat(count), np.tile(time, lanes), 0, 0,
        step=np.tile(step, lanes),
    )  # fmt: skip
    return np.add.outer(begins, first).reshape(-1), by


OldestEpochs = Callable[[], Any]
"""By block, the fewest barriers that one of its threads has passed."""

MOST_LATE = 256
"""Loads that are put off at most."""


class AccessHistory:
    """The table for one memory. An atomic's writer is negative; zero is no one's, and no epoch's.

    What is not used yet is zero, and costs nothing: a table begins where it is first asked for.
    """

    writer: Any
    write_epoch: Any
    write_time: Any
    write_fences: Any
    reader: Any
    read_epoch: Any
    read_time: Any
    read_step: Any
    second_time: Any
    second_epoch: Any
    second_step: Any
    other_warp_epoch: Any
    other_block: Any

    def __init__(
        self,
        words: int,
        kind: FindingKind,
        block_bits: int,
        describe: Callable[[int], str],
        granule_bits: int = 0,
    ):
        self.kind = kind
        self.block_bits = block_bits
        """Thread ids shifted by this many bits are block numbers; 31 for one block's own memory."""
        self.describe = describe
        """Names a word for a message."""
        self.stretches = Stretches(words, granule_bits, block_bits)
        """What is known of whole stretches of words; see stretches.py."""
        self.words = words
        self.any_second_reader = False
        self.reads: list[tuple[Any, EarlierAccesses]] = []
        """All reads, where fences may order blocks: of several blocks that read one word the table
        keeps one."""
        self._last_epoch = 0
        """Of a block's own memory: the latest epoch in which anyone has written."""
        self._last_read_epoch = 0
        """The same for what was read, of which what is put off does not count."""
        self._late: list[LateLoad] = []

    def __getattr__(self, name: str) -> Any:
        if name not in AccessHistory.__annotations__:
            raise AttributeError(name)
        table: Any = np.zeros(self.words, np.bool_ if name == "other_block" else np.int32)
        setattr(self, name, table)
        return table

    def reach(self, words: int) -> None:
        """Makes the tables longer where the memory has grown."""
        if words <= self.words:
            return
        self.words = words
        self.stretches.reach(words)
        for name in AccessHistory.__annotations__.keys() & vars(self).keys():
            longer = np.zeros(words, vars(self)[name].dtype)
            longer[: len(vars(self)[name])] = vars(self)[name]
            setattr(self, name, longer)

    def is_older(self, epoch: int) -> bool:
        """Whether all that was written was so before barriers that threads from this epoch on have
        passed, in a block's own memory: then their loads race with none of it.
        """
        return epoch > self._last_epoch

    def is_untouched(self, epoch: int) -> bool:
        """Whether the same holds for all that was read and noted: then nothing races with what the
        threads write.
        """
        return epoch > max(self._last_epoch, self._last_read_epoch)

    def note_epoch(self, epoch: Any) -> None:
        """Threads at these epochs write."""
        self._last_epoch = max(self._last_epoch, int(epoch.max()))

    def note_read_epoch(self, epoch: Any) -> None:
        """Threads at these epochs read what is not put off, or not any more."""
        self._last_read_epoch = max(self._last_read_epoch, int(epoch.max()))

    def put_off(self, load: LateLoad, oldest: OldestEpochs) -> None:
        """Keeps a load, to be noted before the next access that it may have to be compared with."""
        self._late.append(load)
        if len(self._late) >= MOST_LATE:
            self.settle(oldest)

    def has_late_load(self, local: int, size: int) -> bool:
        """Whether a load that was put off may touch a place in a block's memory."""
        return any(
            load.local < 0 or (load.local < local + size and local < load.local + load.spec.size)
            for load in self._late
        )

    def settle(self, oldest: OldestEpochs) -> None:
        """Notes the loads that were put off, but for those after which all threads of their blocks
        have passed a barrier.
        """
        if not self._late:
            return
        late, self._late, epochs = self._late, [], oldest()
        together: list[LateLoad] = []
        for load in _since(late, epochs):
            if not load.in_order and load.places.are_apart(load.spec.size):
                together.append(load)
                continue
            self._note_together(together)
            self._note_late(load)
            together = []
        self._note_together(together)

    def _note_together(self, loads: list[LateLoad]) -> None:
        """Notes loads, at once where they have no word in common."""
        bits = self.stretches.granule_bits
        if len(loads) > 1 and (one := _as_one(loads, bits)) is not None:
            self._record_at_once(*one)
            return
        each = [load.places.pieces(load.spec.size, bits) for load in loads]
        arrays = [words.array for words in each]
        if len(loads) < 2 or len(np.unique(together := np.concatenate(arrays))) < len(together):
            for load in loads:
                self._note_late(load)
            return
        thread, epoch = (
            np.concatenate([v.repeat(w.per_lane) for v, w in zip(values, each, strict=True)])
            for values in ([load.thread for load in loads], [load.epoch for load in loads])
        )
        sizes = [len(array) for array in arrays]
        time, step = (
            np.repeat(values, sizes)
            for values in ([load.time for load in loads], [load.spec.index for load in loads])
        )
        self._record_at_once(together, Accessors(thread, epoch, time, 0, 0, step=step))

    def _record_at_once(self, word: Any, by: Accessors) -> None:
        """Records reads of words by their numbers, each of another one."""
        bits = self.stretches.granule_bits
        words = Places(word << bits, None).pieces(1 << bits, bits)
        self.stretches.turn_into_words(words, self)
        self.note_read_epoch(by.epoch)
        self._record_readers(words, by)

    def _note_late(self, load: LateLoad) -> None:
        parts = load.places, load.spec, load.thread, load.epoch, load.time
        self.note_read_epoch(load.epoch)
        if load.in_order and self.stretches.touch(*parts):
            return
        words = load.places.pieces(load.spec.size, self.stretches.granule_bits)
        self.stretches.turn_into_words(words, self)
        thread, epoch = (np.repeat(v, words.per_lane) for v in (load.thread, load.epoch))
        by = Accessors(thread, epoch, load.time, 0, 0, step=load.spec.index)
        self.note_load(words, by, False)

    def load(self, words: Pieces, by: Accessors, acquired: Acquired | None, atomic: bool) -> None:
        """Records reads of `words`; raises Fault, with the index of the word, on a race."""
        self.require_ordered(words, by, acquired, atomic)
        self.note_load(words, by, atomic)

    def require_ordered(
        self, words: Pieces, by: Accessors, acquired: Acquired | None, atomic: bool
    ) -> None:
        """Raises Fault, with the index of the word, where words may not be read now."""
        self.stretches.turn_into_words(words, self)
        self._check_writers(words, by, acquired, atomic, None, "load of {} that {} wrote")

    def note_load(self, words: Pieces, by: Accessors, atomic: bool) -> None:
        """Records reads without a check."""
        if atomic:
            return
        self._record_readers(words, by)
        if by.fences is not None or by.known is not None:
            times, fences = np.full((2, len(words)), [[by.time], [-1]], np.int32)
            self.reads.append(
                (words.array, EarlierAccesses(by.thread, by.epoch.copy(), times, fences))
            )

    def store(
        self,
        words: Pieces,
        by: Accessors,
        acquired: Acquired | None,
        atomic: bool,
        unchanged: Unchanged | None,
    ) -> None:
        """Records writes. `unchanged` tells, when asked, which of them store what is there."""
        self.stretches.turn_into_words(words, self)
        self._check_writers(words, by, acquired, atomic, unchanged, "store to {} that {} wrote")
        self._check_readers(words, by, acquired, unchanged)
        self.note_store(words, by, atomic)

    def store_untouched(self, words: Pieces, by: Accessors, atomic: bool) -> None:
        """Records writes of what `is_untouched`."""
        self.stretches.turn_into_words(words, self)
        self.note_store(words, by, atomic)

    def note_store(self, words: Pieces, by: Accessors, atomic: bool) -> None:
        """Records writes without a check."""
        words.put(self.writer, -by.thread if atomic else by.thread)
        words.put(self.write_epoch, by.epoch)
        words.put(self.write_time, by.time)
        if by.fences is not None:
            words.put(self.write_fences, by.fences)

    def _record_readers(self, words: Pieces, by: Accessors) -> None:
        earlier = words.take(self.reader)
        if earlier.any():
            known = (earlier != 0) & (earlier != by.thread)
            if known.any():
                self._note_earlier(words, by, earlier, known)
        words.put(self.reader, by.thread)
        words.put(self.read_epoch, by.epoch)
        words.put(self.read_time, by.time)
        words.put(self.read_step, by.step)
        if words.are_apart:
            return
        # Lanes of one instruction that read the same word: only one of them is kept.
        kept = words.take(self.reader)
        lost = kept != by.thread
        if lost.any():
            self._note_earlier(words, by, kept, lost)

    def _note_earlier(self, words: Pieces, by: Accessors, earlier: Any, which: Any) -> None:
        """Keeps that someone else has read, as far as nothing has ordered it since."""
        self.any_second_reader = True
        at = np.flatnonzero(which)
        word, other, thread = words.array[at], earlier[at], by.thread[at]
        same_block = self._same_block(other, thread)
        if not np.all(same_block):
            self.other_block[word[~same_block]] = True
        recent = same_block & (self.read_epoch[word] == by.epoch[at])
        same_warp = self._same_warp(other, thread)
        elsewhere = recent & ~same_warp
        self.other_warp_epoch[word[elsewhere]] = by.epoch[at][elsewhere]
        within = recent & same_warp
        self.second_time[word[within]] = self.read_time[word[within]]
        self.second_step[word[within]] = self.read_step[word[within]]
        self.second_epoch[word[within]] = by.epoch[at][within]

    def _check_writers(
        self,
        words: Pieces,
        by: Accessors,
        acquired: Acquired | None,
        atomic: bool,
        unchanged: Unchanged | None,
        text: str,
    ) -> None:
        signed = words.take(self.writer)
        writer = np.maximum(signed, 0) if atomic else np.abs(signed)
        suspect = (writer != 0) & (writer != by.thread)
        if not suspect.any():
            return
        at = np.flatnonzero(suspect)
        word, other, thread = words.array[at], writer[at], by.thread[at]
        same_block, same_warp = self._same_block(other, thread), self._same_warp(other, thread)
        ordered = same_block & (self.write_epoch[word] != by.epoch[at])
        ordered |= same_warp & (self.write_time[word] < by.sync[at])
        if by.partly is not None and not ordered.all():
            ordered |= same_warp & (self.write_time[word] < by.partly.sync(at, _lane(other)))
        if unchanged is not None and not ordered.all():
            ordered |= unchanged()[at] & (signed[at] > 0)
        if acquired is not None and not ordered.all():
            fences = self.write_fences[word]
            past = EarlierAccesses(other, self.write_epoch[word], self.write_time[word], fences)
            ordered |= acquired(past, thread, by.epoch[at], by.sync[at])
        if by.known is not None and not ordered.all():
            ordered |= by.known(at, other, self.write_time[word])
        if not ordered.all():
            self._raise(text, word, other, at, ordered)

    def _check_readers(
        self, words: Pieces, by: Accessors, acquired: Acquired | None, unchanged: Unchanged | None
    ) -> None:
        reader = words.take(self.reader)
        suspect = reader != 0
        if not self.any_second_reader:
            suspect &= reader != by.thread
        if not suspect.any():
            return
        at = np.flatnonzero(suspect)
        word, other, thread = words.array[at], reader[at], by.thread[at]
        epoch = by.epoch[at]
        same_block, same_warp = self._same_block(other, thread), self._same_warp(other, thread)
        recent = same_block & (self.read_epoch[word] == epoch)
        racing = recent & ~same_warp
        racing |= recent & (self.other_warp_epoch[word] == epoch)
        first = _Reads(self.read_time[word], self.read_step[word])
        second = _Reads(self.second_time[word], self.second_step[word])
        lane = _lane(other)
        unordered = (other != thread) & first.unordered(by, at, lane)
        again = (other == thread) & (self.second_epoch[word] == epoch)
        unordered |= again & second.unordered(by, at, lane)
        racing |= recent & same_warp & unordered
        if acquired is None:
            racing |= ~same_block | self.other_block[word]
        else:
            racing |= self._read_elsewhere(word, by, at, same_block, acquired)
        if unchanged is not None and racing.any():
            racing &= ~unchanged()[at]
        if by.known is not None and racing.any():
            racing[racing] = self._read_unknown(word[racing], by, at[racing], acquired)
        if racing.any():
            self._raise("store to {} that {} read", word, other, at, ~racing)

    def _read_unknown(self, word: Any, by: Accessors, at: Any, acquired: Acquired | None) -> Any:
        """Whether any thread has read words that is not known to have come before."""
        assert by.known is not None
        wanted, first, row = np.unique(word, return_index=True, return_inverse=True)
        who = at[first]
        unknown = np.zeros(len(wanted), np.bool_)
        for words, past in self.reads:
            found = np.flatnonzero(np.isin(words, wanted))
            place = np.searchsorted(wanted, words[found])
            now, reader = who[place], past.thread[found]
            mine, epoch = by.thread[now], past.epoch[found]
            ordered = reader == mine
            ordered |= self._same_block(reader, mine) & (epoch != by.epoch[now])
            ordered |= self._same_warp(reader, mine) & (past.time[found] < by.exchange[now])
            ordered |= by.known(now, reader, past.time[found])
            if acquired is not None and not ordered.all():
                earlier = EarlierAccesses(*(v[found] for v in vars(past).values()))
                ordered |= acquired(earlier, mine, by.epoch[now], by.sync[now])
            unknown[place[~ordered]] = True
        return unknown[row]

    def _read_elsewhere(
        self, word: Any, by: Accessors, at: Any, same_block: Any, acquired: Acquired
    ) -> Any:
        """Whether threads of other blocks have read words, with nothing that orders them."""
        racing = np.zeros(len(word), np.bool_)
        shared = np.flatnonzero(~same_block | self.other_block[word])
        if not len(shared):
            return racing
        for words, past in self.reads:
            for position in shared[np.isin(word[shared], words)]:
                who = at[position : position + 1]
                mine = by.thread[who]
                found = np.flatnonzero(
                    (words == word[position]) & ~self._same_block(past.thread, mine)
                )
                if len(found):
                    earlier = EarlierAccesses(*(v[found] for v in vars(past).values()))
                    now = (np.repeat(v[who], len(found)) for v in (by.thread, by.epoch, by.sync))
                    racing[position] |= not acquired(earlier, *now).all()
        return racing

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
