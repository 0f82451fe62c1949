"""Counts what launches do, by instruction; summed up by source line at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from astra_tui.emulator.places import Places, Rows
from astra_tui.emulator.ptx.module import Location
from astra_tui.emulator.step import Flow, Step
from astra_tui.model.counters import Counters, CounterSums

SECTOR_BITS = 5
_PIECE_BITS = 7
_BANKS = 32


class Tally:
    """Counts of one kernel over its launches. Memory is keyed by instruction, space and width."""

    def __init__(self, steps: tuple[Step, ...]):
        self.steps = steps
        self.warp_hits = [0] * len(steps)
        self.lane_hits = [0] * len(steps)
        self.memory: dict[tuple[int, str, str, int], list[int]] = {}

    def count_global(self, index: int, direction: str, width: int, access: Any) -> None:
        """Adds one access to global memory by the lanes of a group (see `GroupAccess`)."""
        self._add(
            (index, "global", direction, width),
            access.requests,
            access.sectors(width),
            access.n * width,
            0,
        )

    def count_shared(self, index: int, direction: str, width: int, access: Any) -> None:
        """Adds one access to shared memory."""
        conflicts = access.bank_conflicts(width)
        key = (index, "shared", direction, width)
        self._add(key, access.requests, 0, access.n * width, conflicts)

    def count_cluster(self, index: int, direction: str, width: int, access: Any) -> None:
        """Adds one access to shared memory of other blocks of the cluster."""
        key = (index, "cluster", direction, width)
        self._add(key, access.requests, 0, access.n * width, 0)

    def count_bulk(self, index: int, space: str, direction: str, first: Any, size: Any) -> None:
        """Adds copies of `size` bytes each, from or to offsets `first` of a memory.

        A copy moves in pieces of 128 bytes from its beginning, so that what begins within a sector
        moves the sectors between its pieces twice (measured on an H200).
        """
        sectors = (first + size - 1 >> SECTOR_BITS) - (first >> SECTOR_BITS) + 1
        again = np.where(first & (1 << SECTOR_BITS) - 1, (size - 1) >> _PIECE_BITS, 0)
        of_global = int((sectors + again)[size > 0].sum()) if space == "global" else 0
        key = (index, "bulk" if space == "global" else "cluster", direction, 16)
        self._add(key, len(first), of_global, int(size.sum()), 0)

    def _add(
        self, key: tuple[int, str, str, int], requests: int, sectors: int, size: int, conflicts: int
    ) -> None:
        sums = self.memory.get(key)
        if sums is None:
            sums = self.memory[key] = [0, 0, 0, 0]
        sums[0] += requests
        sums[1] += sectors
        sums[2] += size
        sums[3] += conflicts


def counters_of(tallies: list[Tally], compiler: str) -> Counters:
    """The counts of several kernels of one source, by line."""
    sums = CounterSums()
    for tally in tallies:
        for (index, space, direction, width), (a, b, c, d) in tally.memory.items():
            place = tally.steps[index].location
            sums.add_access(place.line, place.header, (space, direction, width), (a, b, c, d))
        for place, counts in _by_place(tally):
            if counts[0]:
                sums.add_line(place.line, place.header, counts)
    return sums.counters(compiler)


def _by_place(tally: Tally) -> Iterator[tuple[Location, tuple[int, int, int, int]]]:
    """Instructions of warps and of threads, barriers and shuffles of steps that follow each other
    and have one place.
    """
    last, warps, lanes, barriers, shuffles = Location(), 0, 0, 0, 0
    for step, by_warp, by_lane in zip(tally.steps, tally.warp_hits, tally.lane_hits, strict=True):
        if not by_warp:
            continue
        if step.location is not last:
            yield last, (warps, lanes, barriers, shuffles)
            last, warps, lanes, barriers, shuffles = step.location, 0, 0, 0, 0
        warps += by_warp
        lanes += by_lane
        if step.flow is Flow.BARRIER:
            barriers += by_warp
        if step.is_shuffle:
            shuffles += by_warp
    yield last, (warps, lanes, barriers, shuffles)


def reached_lines(tallies: list[Tally]) -> dict[str, tuple[int, ...]]:
    """The source lines of instructions that ran, by what they leave to hardware."""
    found: dict[str, set[int]] = {}
    for tally in tallies:
        for step, warps in zip(tally.steps, tally.warp_hits, strict=True):
            if warps:
                for trait in step.traits:
                    found.setdefault(trait, set()).add(step.location.line)
    return {trait: tuple(sorted(lines)) for trait, lines in found.items()}


class GroupAccess:
    """The addresses of one access by the lanes of a group, for counting.

    `warps` is the warp of each lane, `requests` how many warps take part.
    """

    def __init__(
        self, places: Places, warps: Any, requests: int, whole_warps: bool, lanes_in_warp: Any
    ):
        self.places = places
        self.offsets = places.offsets
        self.warps = warps
        self.requests = requests
        self.whole_warps = whole_warps
        self.lanes_in_warp = lanes_in_warp
        self.n = len(places)

    def of(self, lanes: Any) -> GroupAccess:
        """The access by some of the lanes, a mask."""
        if lanes.all():
            return self
        places, warps = Places(self.offsets[lanes], None), self.warps[lanes]
        requests = int(np.count_nonzero(warps[1:] != warps[:-1])) + 1
        return GroupAccess(places, warps, requests, False, self.lanes_in_warp[lanes])

    def _rows(self, width: int) -> Rows | None:
        """The rows of the access where the lanes of each warp fill one stretch of memory, or are
        all at one place.
        """
        rows = self.places.rows
        if rows is None or rows.shape.step not in (0, width):
            return None
        length = rows.shape.length
        if self.whole_warps and not length % 32:
            return rows
        one_row = self.warps[length::length] != self.warps[length - 1 : -1 : length]
        return rows if one_row.all() else None

    def sectors(self, width: int) -> int:
        """Distinct 32-byte sectors, counted in each warp.

        An aligned access of at most 32 bytes lies in one sector.
        """
        rows = self._rows(width)
        if rows is not None and self.whole_warps and not rows.shape.length % 32:
            # A warp of 32 lanes next to each other moves `width` sectors, one more where it begins
            # within one.
            shape, part = rows.shape, (1 << SECTOR_BITS) - 1
            if not shape.step:
                return self.n // 32
            if shape.pitch & part:
                within = int(np.count_nonzero(rows.begins & part))
            else:
                within = shape.count if rows.first & part else 0
            return (shape.count * width + within) * (shape.length // 32)
        sector = self.offsets >> SECTOR_BITS
        if rows is not None:
            another = (sector[1:] != sector[:-1]) | (self.warps[1:] != self.warps[:-1])
            return int(np.count_nonzero(another)) + 1
        if self.whole_warps:
            table = sector.reshape(-1, 32)
            steps = table[:, 1:] - table[:, :-1]
            if steps.size and steps.min() < 0:
                table = np.sort(table, axis=1)
                steps = table[:, 1:] - table[:, :-1]
            return int(np.count_nonzero(steps)) + len(table)
        return len(np.unique((self.warps.astype(np.int64) << 44) | sector))

    def bank_conflicts(self, width: int) -> int:
        """Passes beyond the fewest, for accesses of `width` bytes a lane.

        Hardware serves 8-byte accesses by half warps and 16-byte accesses by quarter warps; in
        one pass each of the 32 banks gives one 4-byte word, to all lanes that want that word.
        """
        if self.requests == self.n or self._rows(width) is not None:
            return 0
        words = max(width // 4, 1)
        lanes_a_pass = 32 // words
        word = (self.offsets >> 2)[:, None] + np.arange(words) if words > 1 else self.offsets >> 2
        if self.whole_warps:
            rows = np.sort(word.reshape(-1, lanes_a_pass * words), axis=1)
            distinct = np.ones(rows.shape, bool)
            distinct[:, 1:] = rows[:, 1:] != rows[:, :-1]
            where = np.arange(len(rows))[:, None] * _BANKS + (rows & (_BANKS - 1))
            hits = np.bincount(where[distinct], minlength=len(rows) * _BANKS).reshape(-1, _BANKS)
            return int((hits.max(axis=1) - 1).sum())
        passes = self.warps.astype(np.int64) * words + self.lanes_in_warp // lanes_a_pass
        key = np.repeat(passes, words) if words > 1 else passes
        pairs = np.unique(np.stack([key, word.reshape(-1)]), axis=1)
        ids, row = np.unique(pairs[0], return_inverse=True)
        hits = np.bincount(row * _BANKS + (pairs[1] & (_BANKS - 1)), minlength=len(ids) * _BANKS)
        return int((hits.reshape(-1, _BANKS).max(axis=1) - 1).sum())
