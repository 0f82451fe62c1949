"""What fences and atomics order between blocks: who has released what, and who has acquired it.

A fence and then an atomic of one thread release what that thread wrote before the fence, what its
block wrote before a barrier (or its warp before a __syncwarp) that the fence came after, and what
other threads of its block wrote and fenced themselves before a barrier that the atomic came after.
An atomic on the same address acquires that, and what the releasing thread had acquired itself.
Other threads of the block see it after a barrier, others of the warp after a __syncwarp. No second
fence is asked for: a later access does not overtake a branch on the atomic's result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

_WARP_BITS = 5
_MAX_STEPS = 256
"""Releases that are followed back from one block to another."""


class Fence(NamedTuple):
    """A thread's latest fence: how many it has made, and what had been passed then."""

    number: int
    epoch: int
    sync: int


class Acquisition(NamedTuple):
    """An atomic that came after `length` releases at this address."""

    offset: int
    length: int
    thread: int
    epoch: int
    time: int


@dataclass(frozen=True)
class Release:
    """An atomic after a fence; `via` is what its thread had acquired by then."""

    thread: int
    epoch: int
    fence: Fence
    via: tuple[Acquisition, ...]


@dataclass
class _Address:
    """The releases at one address in order, and their positions by block."""

    releases: list[Release] = field(default_factory=list)
    of_block: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class EarlierAccesses:
    """Earlier accesses, an entry each: the thread, its epoch, the time, its fences by then.

    A read has -1 fences: it needs none.
    """

    thread: Any
    epoch: Any
    time: Any
    fences: Any


class Fences:
    """The fences and atomics of a launch. Threads count from 1, their upper bits are the block."""

    def __init__(self, block_bits: int):
        self.block_bits = block_bits
        self.fences: dict[int, Fence] = {}
        self.addresses: dict[int, _Address] = {}
        self.acquired: dict[int, dict[tuple[int, int, int, int], Acquisition]] = {}

    def fence(self, threads: Any, epochs: Any, syncs: Any) -> None:
        """Threads make a fence that other blocks can see."""
        for thread, epoch, sync in zip(
            threads.tolist(), epochs.tolist(), syncs.tolist(), strict=True
        ):
            known = self.fences.get(thread)
            self.fences[thread] = Fence(known.number + 1 if known else 1, epoch, sync)

    def counts(self, threads: Any) -> Any:
        """How many fences each thread has made."""
        fences = self.fences
        if not fences:
            return np.zeros(len(threads), np.int32)
        counts = [fences[t].number if t in fences else 0 for t in threads.tolist()]
        return np.array(counts, np.int32)

    def atomic(
        self,
        threads: Any,
        epochs: Any,
        time: int,
        offsets: Any,
        *,
        acquires: bool = True,
        releases: bool = True,
    ) -> None:
        """Threads access addresses in this order; see the module's text."""
        for thread, epoch, offset in zip(
            threads.tolist(), epochs.tolist(), offsets.tolist(), strict=True
        ):
            address = self.addresses.get(offset)
            block = (thread - 1) >> self.block_bits
            if acquires and address is not None:
                found = Acquisition(offset, len(address.releases), thread, epoch, time)
                self.acquired.setdefault(block, {})[(offset, thread, epoch, time)] = found
            fence = self.fences.get(thread) if releases else None
            if fence is not None:
                address = self.addresses.setdefault(offset, _Address())
                address.of_block.setdefault(block, []).append(len(address.releases))
                address.releases.append(Release(thread, epoch, fence, self._seen(thread, epoch)))

    def _seen(self, thread: int, epoch: int) -> tuple[Acquisition, ...]:
        """What a thread's block has acquired, as far as the thread sees it."""
        block = (thread - 1) >> self.block_bits
        known = self.acquired.get(block, {}).values()
        return tuple(a for a in known if a.thread == thread or a.epoch < epoch)

    def ordered(self, past: EarlierAccesses, threads: Any, epochs: Any, syncs: Any) -> Any:
        """Whether earlier accesses of other blocks come before what these threads do now."""
        block = (threads - 1).astype(np.int64) >> self.block_bits
        other = (past.thread - 1).astype(np.int64) >> self.block_bits
        result = np.zeros(len(threads), np.bool_)
        pairs, which = np.unique((block << 32) | other, return_inverse=True)
        for number, pair in enumerate(pairs.tolist()):
            at = np.flatnonzero(which == number)
            part = EarlierAccesses(
                *(v[at] for v in (past.thread, past.epoch, past.time, past.fences))
            )
            now = threads[at], epochs[at], syncs[at]
            result[at] = self._pair_ordered(part, now, pair >> 32, pair & 0xFFFF_FFFF)
        return result

    def _pair_ordered(
        self, past: EarlierAccesses, now: tuple[Any, Any, Any], block: int, other: int
    ) -> Any:
        thread, epoch, sync = now
        ordered = np.zeros(len(thread), np.bool_)
        if block == other:
            return ordered
        later = self.counts(past.thread) > past.fences
        for acquisition in self.acquired.get(block, {}).values():
            sees = (thread == acquisition.thread) | (epoch > acquisition.epoch)
            same_warp = (thread - 1) >> _WARP_BITS == (acquisition.thread - 1) >> _WARP_BITS
            sees |= same_warp & (sync > acquisition.time)
            if not (sees & ~ordered).any():
                continue
            for release in self._releases_of(other, acquisition):
                ordered |= sees & _covers(release, past, later)
                if ordered.all():
                    return ordered
        return ordered

    def _releases_of(self, block: int, acquisition: Acquisition) -> list[Release]:
        """What an acquisition brought of a block, directly and through other blocks."""
        found: list[Release] = []
        waiting, known = [acquisition], {acquisition.offset: acquisition.length}
        steps = 0
        while waiting and steps < _MAX_STEPS:
            now = waiting.pop(0)
            address = self.addresses[now.offset]
            found += [
                address.releases[position]
                for position in address.of_block.get(block, ())
                if position < now.length
            ]
            for release in address.releases[: now.length]:
                steps += 1
                for earlier in release.via:
                    if earlier.length > known.get(earlier.offset, 0):
                        known[earlier.offset] = earlier.length
                        waiting.append(earlier)
        return found


def _covers(release: Release, past: EarlierAccesses, fenced_since: Any) -> Any:
    """Whether earlier accesses of the releasing thread's block are part of a release."""
    fence = release.fence
    needs_none = past.fences < 0
    covered = past.epoch < fence.epoch
    covered |= (past.epoch < release.epoch) & (fenced_since | needs_none)
    covered |= (past.thread == release.thread) & ((fence.number > past.fences) | needs_none)
    same_warp = (past.thread - 1) >> _WARP_BITS == (release.thread - 1) >> _WARP_BITS
    covered |= same_warp & (past.time < fence.sync)
    return covered
