"""Bulk copies and asynchronous stores that have been issued and have not ended.

Hardware may end a copy at any time. Here it ends when nothing else can run, or, in runs of another
order, at once. Until then what it reads must not change, and what it writes must not be used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.memory import SharedMemory
from astra_tui.model.findings import FindingKind

GRANULE_BITS = 4
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Place:
    """One side of copies: bytes of a memory, at an offset for each piece."""

    space: str
    """"global" or "shared"."""
    offsets: Any


@dataclass(frozen=True)
class Copies:
    """The copies of one instruction, one for each lane, in pieces of equal size."""

    step: int
    lanes: Any
    owner: Any
    """For each piece, the position in `lanes` of whose it is."""
    size: int
    target: Place
    source: Place | None = None
    data: Any = None
    """What is stored, a row of bytes for each piece, where it does not come from memory."""
    barriers: Any = None
    """Where copies complete: the barrier of each lane; None where they are waited for in groups."""
    groups: Any = None
    update: Callable[[Any, Any], Any] | None = None
    """From the old value and the data to the new one, for reductions."""

    @property
    def bytes(self) -> Any:
        """Of each lane's copy."""
        return np.bincount(self.owner, minlength=len(self.lanes)) * self.size

    def part(self, which: Any) -> Copies:
        """Those of some lanes, by a mask over `lanes`."""
        pieces = which[self.owner]
        source = self.source
        return Copies(
            self.step,
            self.lanes[which],
            (np.cumsum(which) - 1)[self.owner[pieces]],
            self.size,
            Place(self.target.space, self.target.offsets[pieces]),
            Place(source.space, source.offsets[pieces]) if source is not None else None,
            self.data[pieces] if self.data is not None else None,
            self.barriers[which] if self.barriers is not None else None,
            self.groups[which] if self.groups is not None else None,
            self.update,
        )


@dataclass(frozen=True)
class Arrivals:
    """Arrivals of lanes at barriers, once their cp.async copies have ended."""

    lanes: Any
    barriers: Any


class BulkCopies:
    """Copies that the lanes of a chunk have issued, in order."""

    def __init__(self, width: int, words: int, shared: SharedMemory):
        self.shared = shared
        self.arriving = np.zeros(words, np.int16)
        self.leaving = np.zeros(words, np.int16)
        """How many copies write, and read, each word of shared memory."""
        self.queue: list[Copies | Arrivals] = []
        """Those that complete on barriers."""
        self.grouped: list[Copies] = []
        self.read: list[Copies] = []
        """Those that groups are waited for of; of `read` only that they are complete."""
        self.committed = np.zeros(width, np.int64)
        self._loaded, self._stored = NONE, NONE
        """Granules of global memory that copies read and write."""

    def issue(self, copies: Copies) -> None:
        """Adds copies."""
        self._mark(copies.target, copies.size, self.arriving, 1)
        if copies.source is not None:
            self._mark(copies.source, copies.size, self.leaving, 1)
        if copies.barriers is not None:
            self.queue.append(copies)
        else:
            self.grouped.append(copies)
        self.note_global()

    def end(self, copies: Copies, *, target: bool = True, source: bool = True) -> None:
        """Copies that were issued no longer use their target, their source, or both."""
        if target:
            self._mark(copies.target, copies.size, self.arriving, -1)
        if source and copies.source is not None:
            self._mark(copies.source, copies.size, self.leaving, -1)

    def commit(self, lanes: Any) -> None:
        """Closes the lanes' open groups."""
        self.committed[lanes] += 1

    def take(self, lanes: Any, keep: int, *, read: bool) -> tuple[list[Copies], list[Copies]]:
        """What lanes wait for: all groups but the latest `keep`. With `read` only until their
        sources are read. First those that have still to be read, then those that are complete.
        """
        waiting = np.zeros(len(self.committed), np.bool_)
        waiting[lanes] = True

        def split(some: list[Copies]) -> tuple[list[Copies], list[Copies]]:
            going, left = [], []
            for copies in some:
                old = copies.groups < self.committed[copies.lanes] - keep
                which = waiting[copies.lanes] & old
                if which.any():
                    going.append(copies.part(which))
                if not which.all():
                    left.append(copies.part(~which))
            return going, left

        unread, self.grouped = split(self.grouped)
        self.read += unread
        complete: list[Copies] = []
        if not read:
            complete, self.read = split(self.read)
        self.note_global()
        return unread, complete

    def unread_by(self, lanes: Any) -> Copies | None:
        """A copy of lanes, in groups, whose source has not been waited for."""
        for copies in self.grouped:
            which = np.isin(copies.lanes, lanes)
            if which.any():
                return copies.part(which)
        return None

    def writing_to(self, slot: int) -> Copies | None:
        """A copy that has not ended and writes shared memory of a block of the chunk."""
        for copies in self.queue:
            if isinstance(copies, Copies) and copies.target.space == "shared":
                which = np.zeros(len(copies.lanes), np.bool_)
                which[copies.owner[copies.target.offsets // self.shared.stride == slot]] = True
                if which.any():
                    return copies.part(which)
        return None

    def require_unused(self, words: Any, per_lane: int, writes: bool) -> None:
        """Raises Fault where an access touches shared memory that copies use."""
        used = self.arriving[words] != 0
        text = "that an asynchronous copy writes, which has not been waited for"
        if writes and not used.any():
            used = self.leaving[words] != 0
            text = "that an asynchronous copy reads, which has not been waited for"
        if used.any():
            at, _ = first_true(used)
            offset = (int(words[at]) << self.shared.granule_bits) % self.shared.stride
            what = "store to" if writes else "load of"
            raise Fault(
                FindingKind.IN_FLIGHT,
                f"{what} {self.shared.describe_offset(offset)} {text}",
                at // per_lane,
                int(used.reshape(-1, per_lane).any(axis=1).sum()),
            )

    def global_use(self, offsets: Any, writes: bool) -> Any:
        """Which accesses touch global memory that copies write, or, of stores, read."""
        granules = offsets >> GRANULE_BITS
        used = np.isin(granules, self._stored)
        return used | np.isin(granules, self._loaded) if writes else used

    def _mark(self, place: Place, size: int, table: Any, change: int) -> None:
        if place.space == "shared":
            np.add.at(table, self.words(place.offsets, size), np.int16(change))

    def words(self, offsets: Any, size: int) -> Any:
        """The granules of pieces of shared memory, one after another."""
        bits = self.shared.granule_bits
        count = max(size >> bits, 1)
        return ((offsets >> bits)[:, None] + np.arange(count)).reshape(-1)

    def note_global(self) -> None:
        """Notes what global memory copies use, after their number has changed."""
        copies = [c for c in (*self.queue, *self.grouped, *self.read) if isinstance(c, Copies)]
        loads = [c.source for c in copies if c.source is not None]
        self._loaded = _granules(loads)
        self._stored = _granules([c.target for c in copies])


def _granules(places: list[Place]) -> Any:
    offsets = [p.offsets for p in places if p.space == "global"]
    return np.unique(np.concatenate(offsets) >> GRANULE_BITS) if offsets else NONE
