"""The race table against a direct reading of the rules, on random histories of accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.lab.emulator.faults import Fault
from astra_tui.lab.emulator.races import AccessHistory, Accessors
from astra_tui.model.findings import FindingKind

THREADS = 128
"""Two blocks of 64 threads, each of two warps."""
BLOCK_BITS = 6
WORDS = 3


@dataclass(frozen=True)
class Access:
    """One access of one thread, with what had been passed when it happened."""

    thread: int
    word: int
    write: bool
    atomic: bool
    epoch: int
    sync: int


def ordered(a: Access, b: Access, one_block: bool) -> bool:
    """Whether something lies between two accesses of different threads."""
    same_block = one_block or a.thread >> BLOCK_BITS == b.thread >> BLOCK_BITS
    same_warp = a.thread >> 5 == b.thread >> 5
    return same_block and (a.epoch != b.epoch or (same_warp and a.sync != b.sync))


def races(earlier: Access, later: Access, one_block: bool) -> bool:
    """The rule itself."""
    return (
        earlier.word == later.word
        and earlier.thread != later.thread
        and (earlier.write or later.write)
        and not (earlier.atomic and later.atomic)
        and not ordered(earlier, later, one_block)
    )


events = st.lists(
    st.one_of(
        st.tuples(
            st.just("access"),
            st.integers(0, THREADS - 1),
            st.integers(0, WORDS - 1),
            st.booleans(),
            st.booleans(),
        ),
        st.tuples(st.just("barrier"), st.integers(0, 1)),
        st.tuples(st.just("syncwarp"), st.integers(0, 3)),
    ),
    max_size=30,
)


@settings(max_examples=600, deadline=None)
@given(events=events, one_block=st.booleans())
def test_table_reports_a_race_exactly_when_the_rules_say_so(events: list, one_block: bool) -> None:
    bits = 31 if one_block else BLOCK_BITS
    history = AccessHistory(WORDS, FindingKind.SHARED_RACE, bits, str)
    epochs, syncs = np.zeros(THREADS, np.int32), np.zeros(THREADS, np.int32)
    seen: list[Access] = []
    for event in events:
        if event[0] == "barrier":
            of_block = slice(None) if one_block else slice(event[1] * 64, event[1] * 64 + 64)
            epochs[of_block] += 1
            continue
        if event[0] == "syncwarp":
            syncs[event[1] * 32 : event[1] * 32 + 32] += 1
            continue
        _, thread, word, write, atomic = event
        write = write or atomic
        access = Access(thread, word, write, atomic, int(epochs[thread]), int(syncs[thread]))
        by = Accessors(
            np.array([thread + 1], np.int32),
            epochs[thread : thread + 1].copy(),
            syncs[thread : thread + 1].copy(),
        )
        expected = any(races(old, access, one_block) for old in forgotten(seen))
        try:
            if write:
                history.store(np.array([word]), by, None, atomic, None)
            else:
                history.load(np.array([word]), by, None, atomic)
            found = False
        except Fault:
            found = True
        # A write hides earlier accesses of its word: whoever races with them races with it too,
        # or was reported when the write came.
        assert found == expected
        if found:
            return
        seen.append(access)


def forgotten(seen: list[Access]) -> list[Access]:
    """The accesses that the table keeps: of every word the last write, and all reads."""
    last_write: dict[int, int] = {a.word: n for n, a in enumerate(seen) if a.write}
    return [a for n, a in enumerate(seen) if not a.write or last_write[a.word] == n]


def test_lanes_of_one_instruction_count_as_several_readers() -> None:
    history = AccessHistory(1, FindingKind.SHARED_RACE, 31, str)
    zeros = np.zeros(2, np.int32)
    both = Accessors(np.array([1, 2], np.int32), zeros, zeros)
    history.load(np.array([0, 0]), both, None, False)
    for thread in (1, 2):
        writer = Accessors(np.array([thread], np.int32), zeros[:1], zeros[:1])
        with pytest.raises(Fault) as caught:
            history.store(np.array([0]), writer, None, False, None)
        assert "read with nothing in between" in caught.value.message


def test_readers_of_before_a_barrier_are_forgotten_after_it() -> None:
    history = AccessHistory(1, FindingKind.SHARED_RACE, 31, str)
    word, sync, before = np.array([0]), np.zeros(1, np.int32), np.zeros(1, np.int32)
    after = before + 1
    for thread in (1, 2):
        history.load(word, Accessors(np.array([thread], np.int32), before, sync), None, False)
    alone = Accessors(np.array([1], np.int32), after, sync)
    history.load(word, alone, None, False)
    history.store(word, alone, None, False, None)
    with pytest.raises(Fault):
        history.load(word, Accessors(np.array([2], np.int32), after, sync), None, False)
