"""Asynchronous copies (cp.async) that no one has waited for: they happen at the wait.

So a missing wait shows: until then the words they will write count as not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Copy:
    """One instruction's copies: for each lane where to, what, and in which of its groups."""

    lanes: Any
    targets: Any
    words: Any
    data: Any
    groups: Any


class PendingCopies:
    """The copies of a chunk's lanes, in the order of issue."""

    def __init__(self, width: int, words: int):
        self.words = np.zeros(words, np.bool_)
        """Words of shared memory that a pending copy will write."""
        self.committed = np.zeros(width, np.int64)
        """Groups that each lane has committed so far."""
        self.queue: list[Copy] = []

    def issue(self, lanes: Any, targets: Any, words: Any, data: Any) -> None:
        """Adds copies to each lane's open group. `words` and `data` have a row a lane."""
        self.words[words.reshape(-1)] = True
        self.queue.append(Copy(lanes, targets, words, data, self.committed[lanes].copy()))

    def commit(self, lanes: Any) -> None:
        """Closes the lanes' open groups."""
        self.committed[lanes] += 1

    def complete(self, lanes: Any, keep: int, uncommitted_too: bool) -> list[Copy]:
        """Takes out what the lanes have to wait for: all groups but the latest `keep`."""
        waiting = np.zeros(len(self.committed), np.bool_)
        waiting[lanes] = True
        done: list[Copy] = []
        left: list[Copy] = []
        for copy in self.queue:
            limit = self.committed[copy.lanes] - keep
            old_enough = copy.groups < limit
            if uncommitted_too:
                old_enough = np.ones(len(copy.lanes), np.bool_)
            going = waiting[copy.lanes] & old_enough
            if going.any():
                done.append(_part(copy, going))
            if not going.all():
                left.append(_part(copy, ~going))
        self.queue = left
        for copy in done:
            self.words[copy.words.reshape(-1)] = False
        return done


def _part(copy: Copy, which: Any) -> Copy:
    return Copy(
        copy.lanes[which],
        copy.targets[which],
        copy.words[which],
        copy.data[which],
        copy.groups[which],
    )
