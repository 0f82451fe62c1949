"""The race table against a direct reading of the rules, on random histories of accesses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.emulator.faults import Fault
from astra_tui.emulator.fences import Fences
from astra_tui.emulator.lanes import Meetings
from astra_tui.emulator.places import Pieces, Places
from astra_tui.emulator.races import AccessHistory, Accessors, LateLoad
from astra_tui.emulator.step import AccessSpec
from astra_tui.model.findings import FindingKind

THREADS = 128
"""Two blocks of 64 threads, each of two warps."""
BLOCK_BITS = 6
WORDS = 3
PLACES = 2
"""Addresses of atomics, which are no words of the history."""


@dataclass(frozen=True)
class Event:
    """What happens at one moment: an access, or what orders accesses.

    `lanes` are the threads that take part.
    """

    kind: str
    lanes: frozenset[int]
    word: int = 0
    write: bool = False
    atomic: bool = False

    @property
    def thread(self) -> int:
        """The only thread of an access, a fence or a flag."""
        return min(self.lanes)


def same_block(a: int, b: int, one_block: bool) -> bool:
    return one_block or a >> BLOCK_BITS == b >> BLOCK_BITS


def follows(events: list[Event], first: int, thread: int, last: int, kinds: set[str]) -> set[int]:
    """The threads that know of a thread's event `first` by `last`, through meetings of `kinds`."""
    knowing = {thread}
    for event in events[first + 1 : last]:
        if event.kind in kinds and event.lanes & knowing:
            knowing |= event.lanes
    return knowing


MEETINGS = {"barrier", "syncwarp"}


def ordered(events: list[Event], i: int, j: int, one_block: bool) -> bool:
    """Whether something lies between two accesses, directly by the rules of races.py."""
    a, b = events[i], events[j]
    if same_block(a.thread, b.thread, one_block):
        if _met(events, i, j, "barrier"):
            return True
        if a.thread >> 5 != b.thread >> 5:
            return False
        kinds = {"syncwarp"} if a.write else {"syncwarp", "exchange"}
        return b.thread in follows(events, i, a.thread, j, kinds)
    return any(
        released(events, i, k) and reaches(events, k, j)
        for k in range(i + 1, j)
        if events[k].kind == "flag"
    )


def _met(events: list[Event], i: int, j: int, kind: str) -> bool:
    """Whether both threads took part in one meeting between two accesses."""
    both = {events[i].thread, events[j].thread}
    return any(e.kind == kind and e.lanes >= both for e in events[i + 1 : j])


def released(events: list[Event], i: int, k: int) -> bool:
    """Whether the flag `k` releases access `i` of the flag's own block."""
    a, t = events[i], events[k].thread
    if a.thread >> BLOCK_BITS != t >> BLOCK_BITS:
        return False
    fences = [n for n in range(k) if events[n].kind == "fence" and events[n].thread == t]
    if not fences:
        return False
    own = [n for n in range(i + 1, len(events)) if events[n] == Event("fence", a.lanes)]
    if a.thread == t:
        return not a.write or fences[-1] > i
    if _passed(events, i, fences[-1], a.thread, t):
        return True
    # A fence of its own counts whenever it was made: the table does not keep when.
    return _at_barrier(events, i, k, t) and (not a.write or bool(own))


def _passed(events: list[Event], i: int, n: int, thread: int, other: int) -> bool:
    """Whether a barrier of the block, or a meeting of the warp, lies between."""
    meeting = {"syncwarp"} if thread >> 5 == other >> 5 else set()
    return any(
        (e.kind == "barrier" or e.kind in meeting) and e.lanes >= {thread, other}
        for e in events[i + 1 : n]
    )


def _at_barrier(events: list[Event], i: int, k: int, thread: int) -> bool:
    return any(e.kind == "barrier" and thread in e.lanes for e in events[i + 1 : k])


def reaches(events: list[Event], k: int, j: int) -> bool:
    """Whether access `j` comes after a flag at the address of `k`, directly or by further flags."""
    b = events[j]
    for q in range(k + 1, j):
        flag = events[q]
        if flag.kind != "flag" or flag.word != events[k].word:
            continue
        x = flag.thread
        if x >> BLOCK_BITS == b.thread >> BLOCK_BITS and (
            x == b.thread or _passed(events, q, j, x, b.thread)
        ):
            return True
        for r in range(q, j):
            other = events[r]
            fenced = any(e == Event("fence", other.lanes) for e in events[:r])
            if other.kind != "flag" or not fenced:
                continue
            sees = other.thread == x or (
                other.thread >> BLOCK_BITS == x >> BLOCK_BITS and _at_barrier(events, q, r, x)
            )
            if sees and reaches(events, r, j):
                return True
    return False


def races(events: list[Event], i: int, j: int, one_block: bool) -> bool:
    """The rule itself."""
    earlier, later = events[i], events[j]
    return (
        earlier.word == later.word
        and earlier.thread != later.thread
        and (earlier.write or later.write)
        and not (earlier.atomic and later.atomic)
        and not ordered(events, i, j, one_block)
    )


def lanes_of(first: int, count: int) -> frozenset[int]:
    return frozenset(range(first * count, (first + 1) * count))


# Few threads, so that they meet: two of each half of a warp.
threads = st.sampled_from([n for w in range(4) for n in (32 * w, 32 * w + 1, 32 * w + 20)])
meetings = st.one_of(
    st.integers(0, 1).map(lambda n: Event("barrier", lanes_of(n, 64))),
    st.integers(0, 3).map(lambda n: Event("syncwarp", lanes_of(n, 32))),
    st.integers(0, 3).map(lambda n: Event("exchange", lanes_of(n, 32))),
)
accesses = st.builds(
    lambda thread, word, write, atomic: Event(
        "access", frozenset({thread}), word, write or atomic, atomic
    ),
    threads,
    st.integers(0, WORDS - 1),
    st.booleans(),
    st.booleans(),
)
parts = st.builds(
    lambda half, kind: Event(kind, lanes_of(half, 16)),
    st.integers(0, 7),
    st.sampled_from(["syncwarp", "exchange"]),
)
flags = st.one_of(
    threads.map(lambda t: Event("fence", frozenset({t}))),
    st.builds(
        lambda t, place: Event("flag", frozenset({t}), place), threads, st.integers(0, PLACES - 1)
    ),
)


def words_at(*numbers: int) -> Pieces:
    """Words of a table by their numbers."""
    return Places.of(np.array(numbers)).pieces(1, 0)


class Table:
    """The history with the parts of the emulator that time and order accesses."""

    def __init__(self, one_block: bool, blocks_order: bool):
        bits = 31 if one_block else BLOCK_BITS
        self.history = AccessHistory(WORDS, FindingKind.SHARED_RACE, bits, str)
        self.fences = Fences(bits)
        self.blocks_order = blocks_order
        self.sync, self.exchange = np.zeros((2, THREADS), np.int32)
        self.epoch = np.ones(THREADS, np.int32)
        self.time = 1
        self.warp = np.arange(THREADS) // 32
        self.meetings: Meetings | None = None

    def take(self, event: Event) -> bool:
        """Whether the table reports an access; other events order what follows."""
        if event.kind == "access":
            return self._access(event)
        lanes = np.array(sorted(event.lanes))
        if event.kind == "barrier":
            self.epoch[lanes] += 1
        elif event.kind == "fence":
            self.fences.fence(lanes + 1, self.epoch[lanes], self.sync[lanes])
        elif event.kind == "flag":
            place = np.array([event.word])
            self.fences.atomic(lanes + 1, self.epoch[lanes], self.time, place)
        else:
            self.time += 1
            if len(lanes) < 32:
                if self.meetings is None:
                    self.meetings = Meetings(self.warp)
                mask = sum(1 << (lane % 32) for lane in event.lanes)
                masks = np.full(len(lanes), mask, np.uint32)
                self.meetings.note(lanes, masks, self.time, event.kind == "syncwarp")
                return False
            self.exchange[lanes] = self.time
            if event.kind == "syncwarp":
                self.sync[lanes] = self.time
        return False

    def _accessors(self, event: Event) -> Accessors:
        at = np.array([event.thread])
        ids = (at + 1).astype(np.int32)
        return Accessors(
            ids,
            self.epoch[at],
            self.time,
            self.sync[at],
            self.exchange[at],
            self.meetings and self.meetings.of(at, 1),
            self.fences.counts(ids) if self.blocks_order else None,
        )

    def _access(self, event: Event) -> bool:
        by = self._accessors(event)
        acquired = self.fences.ordered if self.blocks_order else None
        word = words_at(event.word)
        try:
            if event.write:
                self.history.store(word, by, acquired, event.atomic, None)
            else:
                self.history.load(word, by, acquired, event.atomic)
        except Fault:
            return True
        return False


def compare(events: list[Event], table: Table, one_block: bool, exactly: bool = True) -> None:
    """Runs events up to the first race, by the rules and by the table."""
    if one_block:
        whole = frozenset(range(THREADS))
        events = [replace(e, lanes=whole) if e.kind == "barrier" else e for e in events]
    for j, event in enumerate(events):
        found = table.take(event)
        if event.kind != "access":
            continue
        expected = any(races(events, i, j, one_block) for i in forgotten(events[:j]))
        # A write hides earlier accesses of its word: what races with them races with it too,
        # or was reported when the write came.
        assert found == expected if exactly else not found or expected
        if found or expected:
            return


@settings(max_examples=300, deadline=None)
@given(events=st.lists(st.one_of(accesses, accesses, meetings), max_size=30), one=st.booleans())
def test_table_reports_a_race_exactly_when_the_rules_say_so(events: list[Event], one: bool) -> None:
    compare(events, Table(one, blocks_order=False), one)


@settings(max_examples=250, deadline=None)
@given(events=st.lists(st.one_of(accesses, meetings, flags, flags), max_size=40))
def test_fences_order_blocks_exactly_as_the_rules_say(events: list[Event]) -> None:
    compare(events, Table(False, blocks_order=True), False)


@settings(max_examples=200, deadline=None)
@given(events=st.lists(st.one_of(accesses, accesses, meetings, parts), max_size=30))
def test_parts_of_warps_order_their_lanes_alone(events: list[Event]) -> None:
    """Of several readers of one word the table keeps one: there a race may stay unseen."""
    compare(events, Table(True, blocks_order=False), True, exactly=False)
    writes = [e for e in events if e.kind != "access" or e.write]
    compare(writes, Table(True, blocks_order=False), True)


class LateTable(Table):
    """The same, as shared memory is used: loads that nothing can race with yet are put off, and
    stores that race with nothing are noted alone.
    """

    def _access(self, event: Event) -> bool:
        history, by = self.history, self._accessors(event)
        epoch = int(by.epoch.min())
        if not event.write and history.is_older(epoch):
            if not event.atomic:
                spec, places = AccessSpec(0, 1, "load"), Places.of(np.array([event.word]))
                parts = places, spec, by.thread, by.epoch, np.array([0])
                late = LateLoad(*parts, self.time, False, event.word)
                history.put_off(late, self._oldest)
            return False
        if history.has_late_load(event.word, 1):
            history.settle(self._oldest)
        is_untouched = history.is_untouched(epoch)
        if event.write:
            history.note_epoch(by.epoch)
        else:
            history.note_read_epoch(by.epoch)
        if event.write and is_untouched:
            history.store_untouched(words_at(event.word), by, event.atomic)
            return False
        return super()._access(event)

    def _oldest(self) -> Any:
        return self.epoch.min(keepdims=True)


@settings(max_examples=300, deadline=None)
@given(events=st.lists(st.one_of(accesses, accesses, meetings, parts), max_size=40))
def test_loads_that_are_put_off_are_found_to_race_as_any(events: list[Event]) -> None:
    """Barriers of half the block are among the meetings: then threads stand at other epochs."""
    at_once, late = (kind(True, blocks_order=False) for kind in (Table, LateTable))
    for event in events:
        found = at_once.take(event)
        assert late.take(event) == found
        if found:
            return


def test_loads_of_one_group_leave_what_loads_of_several_do() -> None:
    """Those that its lanes make one after another are noted at once."""
    lanes, stride, words = 3, 64, 4
    thread, epoch = np.ones(lanes, np.int32), np.full(lanes, 2, np.int32)
    begins, block = Places.of(np.arange(lanes) * stride), np.arange(lanes)
    together, apart = (
        AccessHistory(lanes * stride, FindingKind.SHARED_RACE, 31, str, 2) for _ in "ab"
    )
    for number, (local, size) in enumerate([(0, 4), (16, 16), (8, 8), (4, 4)]):
        spec, places = AccessSpec(number, size, "load"), begins.moved(local)
        for history, by in ((together, thread), (apart, thread.copy())):
            load = LateLoad(places, spec, by, epoch, block, 7 + number, False, local)
            history.put_off(load, lambda: epoch)
    for history in (together, apart):
        history.settle(lambda: epoch)
    for name in ("reader", "read_epoch", "read_time", "read_step"):
        found, expected = getattr(together, name), getattr(apart, name)
        assert np.count_nonzero(expected) >= lanes * words
        np.testing.assert_array_equal(found, expected)


def forgotten(seen: list[Event]) -> list[int]:
    """The accesses that the table keeps: of every word the last write, and all reads."""
    last_write = {e.word: n for n, e in enumerate(seen) if e.kind == "access" and e.write}
    return [
        n
        for n, e in enumerate(seen)
        if e.kind == "access" and (not e.write or last_write[e.word] == n)
    ]


def by(thread: Any, epoch: int = 1) -> Accessors:
    ids = np.atleast_1d(np.array(thread, np.int32))
    zeros = np.zeros(len(ids), np.int32)
    return Accessors(ids, zeros + np.int32(epoch), 1, zeros, zeros)


def test_lanes_of_one_instruction_count_as_several_readers() -> None:
    history = AccessHistory(1, FindingKind.SHARED_RACE, 31, str)
    history.load(words_at(0, 0), by([1, 2]), None, False)
    for thread in (1, 2):
        with pytest.raises(Fault) as caught:
            history.store(words_at(0), by(thread), None, False, None)
        assert "read with nothing in between" in caught.value.message


def test_readers_of_before_a_barrier_are_forgotten_after_it() -> None:
    history = AccessHistory(1, FindingKind.SHARED_RACE, 31, str)
    word = words_at(0)
    for thread in (1, 2):
        history.load(word, by(thread), None, False)
    history.load(word, by(1, epoch=2), None, False)
    history.store(word, by(1, epoch=2), None, False, None)
    with pytest.raises(Fault):
        history.load(word, by(2, epoch=2), None, False)


# -- stretches -------------------------------------------------------------------------------------

GRANULE_BITS = 1
AREA = 1 << 9
"""Bytes that the events below touch."""


@dataclass(frozen=True)
class Touch:
    """Lanes of neighbouring warps of two blocks touch neighbouring places, from `first` on."""

    warps: int
    first: int
    size: int
    pitch: int
    first_warp: int
    kind: str

    def access(self) -> tuple[AccessSpec, Places, Any]:
        """The access, its places, and its threads, counted from 1."""
        lane = np.arange(32 * self.warps)
        lanes = (32 * self.first_warp + lane) % BLOCK
        thread = np.concatenate([lanes + 1, lanes + 1 + (1 << BLOCK_BITS)]).astype(np.int32)
        offsets = np.concatenate([lane, lane + self.pitch]) * self.size + self.first
        direction = "load" if self.kind == "load" else "store"
        return AccessSpec(0, self.size, direction), Places.of(offsets), thread


BLOCK = 1 << BLOCK_BITS
touches = st.builds(
    lambda warps, unit, size, pitch, warp, kind: Touch(
        warps, 32 * unit * size, size, 32 * pitch, warp, kind
    ),
    st.integers(1, 2),
    st.sampled_from([0, 0, 0.5, 1, 2]).map(int),
    st.sampled_from([2, 2, 4]),
    st.sampled_from([0, 2, 2, 2, 3]),
    st.integers(0, 1),
    st.sampled_from(["load", "store", "load", "store", "barrier"]),
)


@settings(max_examples=300, deadline=None)
@given(events=st.lists(touches, min_size=2, max_size=12))
def test_stretches_find_what_their_words_would(events: list[Touch]) -> None:
    bits, epoch = BLOCK_BITS, 1
    plain, layered = (
        AccessHistory(4 * AREA, FindingKind.GLOBAL_RACE, bits, str, GRANULE_BITS) for _ in range(2)
    )
    for event in events:
        spec, places, thread = event.access()
        if event.kind == "barrier":
            epoch += 1
            continue
        epochs, zeros = np.full((2, len(thread)), [[epoch], [0]], np.int32)
        words = places.pieces(spec.size, GRANULE_BITS)
        each = [np.repeat(v, words.per_lane) for v in (thread, epochs, zeros)]
        found = [
            _fault(history, words, Accessors(each[0], each[1], 1, each[2], each[2]), spec, known)
            for history, known in (
                (plain, False),
                (layered, layered.stretches.touch(places, spec, thread, epochs, 1)),
            )
        ]
        assert found[0] == found[1]
        if found[0]:
            return


def _fault(
    history: AccessHistory, words: Pieces, by: Accessors, spec: AccessSpec, known: bool
) -> tuple[str, int, int] | None:
    """What an access is reported for; nothing where it is `known` to be right already."""
    try:
        if known:
            return None
        if spec.writes:
            history.store(words, by, None, False, None)
        else:
            history.load(words, by, None, False)
    except Fault as fault:
        return fault.message, fault.lane, fault.lanes
    return None
