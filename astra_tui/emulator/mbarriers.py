"""Barriers in shared memory (mbarrier): phases, arrivals, and bytes of copies that are awaited."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.clocks import COPIERS, Clocks
from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.memory import SharedMemory
from astra_tui.model.findings import FindingKind

BYTES = 8
_MOST_BYTES = (1 << 20) - 1
_MOST_ARRIVALS = (1 << 20) - 1
_PHASE_BITS = 32


class Barriers:
    """The barriers of a chunk, by their places in its shared memory, in units of 8 bytes."""

    def __init__(self, shared: SharedMemory, size: int, clocks: Clocks | None):
        """`size` are the bytes of shared memory of all blocks of the chunk."""
        self.shared = shared
        self.clocks = clocks
        places = size // BYTES
        self.expected = np.zeros(places, np.int32)
        """Arrivals of a phase; 0 where there is no barrier."""
        self.pending = np.zeros(places, np.int32)
        self.bytes = np.zeros(places, np.int64)
        """What is expected of copies in this phase, less what has come."""
        self.phase = np.zeros(places, np.int64)
        """Phases that are complete."""
        self.number = np.zeros(places, np.int64)
        self.begun_by = np.zeros(places, np.int64)
        self.begun_at = np.zeros(places, np.int32)
        """Which row of clocks initialised a barrier, and when."""
        self.events = 0
        """Counts what has happened to any of them."""
        width = clocks.width if clocks is not None else 0
        self.released = np.zeros((0, width), np.int32)
        self.completed = np.zeros((0, width), np.int32)
        """What has been released to each barrier, by number; until its last complete phase."""

    def init(self, places: Any, counts: Any, lanes: Any) -> None:
        """Makes barriers of which each phase takes `counts` arrivals."""
        wrong = (counts < 1) | (counts > _MOST_ARRIVALS)
        if wrong.any():
            at, many = first_true(wrong)
            raise _misuse(f"mbarrier.init for {int(counts[at])} arrivals", at, many)
        again = self.expected[places] != 0
        if again.any():
            at, many = first_true(again)
            raise _misuse(f"mbarrier.init of {self.name(places[at])}: it is one already", at, many)
        self.expected[places] = self.pending[places] = counts
        self.bytes[places] = self.phase[places] = 0
        if self.clocks is not None:
            self.number[places] = np.arange(len(places)) + len(self.released)
            more = np.zeros((len(places), self.released.shape[1]), np.int32)
            self.released = np.concatenate([self.released, more])
            self.completed = np.concatenate([self.completed, more])
            self.begun_by[places] = self.clocks.thread[lanes]
            self.begun_at[places] = self.clocks.launch.time
            self.clocks.tick()

    def invalidate(self, places: Any, lanes: Any) -> None:
        """Ends barriers: their memory may be used for something else."""
        self.require(places, lanes)
        self.expected[places] = 0

    def require(self, places: Any, lanes: Any) -> None:
        """Raises Fault for lanes that use what is no barrier, or not known to be one."""
        missing = self.expected[places] == 0
        if missing.any():
            at, many = first_true(missing)
            raise _misuse(f"{self.name(places[at])} is used before mbarrier.init", at, many)
        if self.clocks is None or lanes is None:
            return
        clocks = self.clocks
        by = self.begun_by[places]
        known = clocks.ordered(lanes, by % clocks.members, self.begun_at[places])
        unknown = ~known & (clocks.thread[lanes] != by)
        if unknown.any():
            at, many = first_true(unknown)
            text = "may be used before mbarrier.init: nothing lies between"
            raise _misuse(f"{self.name(places[at])} {text}", at, many)

    def arrive(
        self, places: Any, counts: Any, lanes: Any, *, releases: bool = True, stays: bool = False
    ) -> Any:
        """Lanes arrive, each `counts` times; returns what stands for the phase of each.

        Where it `stays`, it may not complete the phase.
        """
        tokens = self.phase[places] | (self.pending[places].astype(np.int64) << _PHASE_BITS)
        if releases and self.clocks is not None:
            numbers, rows = self.clocks.released(lanes, self.number[places])
            self.released[numbers] = np.maximum(self.released[numbers], rows)
        where, row = np.unique(places, return_inverse=True)
        arriving = np.bincount(row, weights=counts).astype(np.int64)
        too_many = arriving > self.pending[where] - stays
        if too_many.any():
            place = int(where[too_many.argmax()])
            text = (
                f"{int(arriving[too_many][0])} arrivals at once at {self.name(place)}, whose phase "
                f"waits for {int(self.pending[place])} of {int(self.expected[place])}"
            )
            raise _misuse(text, int((places == place).argmax()), int((places == place).sum()))
        self.pending[where] -= arriving.astype(np.int32)
        self._advance(where)
        return tokens

    def drop(self, places: Any, counts: Any) -> None:
        """Later phases take fewer arrivals."""
        np.subtract.at(self.expected, places, counts.astype(np.int32))

    def more_pending(self, places: Any) -> None:
        """One more arrival is awaited in this phase for each place."""
        np.add.at(self.pending, places, 1)

    def expect(self, places: Any, count: Any) -> None:
        """So many more bytes are awaited in this phase, for each place."""
        np.add.at(self.bytes, places, count.astype(np.int64))
        wrong = np.abs(self.bytes[places]) > _MOST_BYTES
        if wrong.any():
            at, many = first_true(wrong)
            text = f"expects {int(self.bytes[places[at]])} bytes: more than {_MOST_BYTES}"
            raise _misuse(f"{self.name(places[at])} {text}", at, many)

    def come(self, places: Any, count: Any) -> None:
        """So many bytes of copies have come, for each place."""
        np.subtract.at(self.bytes, places, count.astype(np.int64))
        self._advance(np.unique(places))

    def copied(self, places: Any) -> Any:
        """The numbers that stand for copies that complete on barriers: see `Clocks`."""
        clocks = self.clocks
        assert clocks is not None
        column = clocks.members + self.number[places] % COPIERS
        self.released[self.number[places], column] = clocks.launch.time + 1
        return column + 1

    def _advance(self, where: Any) -> None:
        """Completes the phases that nothing is missing of."""
        self.events += 1
        done = where[(self.pending[where] == 0) & (self.bytes[where] == 0)]
        self.phase[done] += 1
        self.pending[done] = self.expected[done]
        if self.clocks is not None:
            self.completed[self.number[done]] = self.released[self.number[done]]

    def has_parity_passed(self, places: Any, parity: Any) -> Any:
        """Whether the phase of a parity is complete, the one before the current one."""
        return (self.phase[places] & 1) != (parity & 1)

    def has_phase_passed(self, places: Any, tokens: Any) -> Any:
        """Whether the phases of arrivals are complete. Raises Fault for a token of another."""
        wanted, now = tokens & ((1 << _PHASE_BITS) - 1), self.phase[places]
        wrong = (wanted > now) | (wanted + 1 < now)
        if wrong.any():
            at, many = first_true(wrong)
            text = "was given the state of no arrival at its current phase or the one before"
            raise _misuse(f"{self.name(places[at])} {text}", at, many)
        return wanted < now

    def acquire(self, places: Any, lanes: Any) -> None:
        """Lanes have waited for the last complete phase."""
        if self.clocks is not None:
            self.clocks.acquire(lanes, self.completed, self.number[places])

    def name(self, place: Any) -> str:
        """A barrier in words."""
        offset = int(place) * BYTES % self.shared.stride
        return f"the mbarrier at {self.shared.describe_offset(offset)}"

    def awaits(self, place: Any) -> str:
        """What a barrier waits for, in words."""
        count, missing = int(self.pending[place]), int(self.bytes[place])
        text = f"phase {int(self.phase[place])} of {self.name(place)} waits for "
        text += f"{count} of {int(self.expected[place])} arrivals"
        if missing > 0:
            text += f" and {missing} bytes of copies"
        if missing < 0:
            text += f"; {-missing} bytes more have come than it expects"
        return text


def pending_count(tokens: Any) -> Any:
    """The arrivals that were missing before those that gave these tokens."""
    return (tokens >> _PHASE_BITS) & _MOST_ARRIVALS


def _misuse(text: str, lane: int, lanes: int) -> Fault:
    return Fault(FindingKind.BARRIER_MISUSE, text, lane, lanes)
