"""The equal blocks of two sequences: those of `difflib`, found without searching again and again.

`difflib` looks for the longest block between two blocks that it has, and for the next one again
in all that is left; where a source repeats itself these searches are hundreds. Here the runs of
equal items are listed once, and taken from the longest to the shortest. A run that lies only in
part between two blocks comes again, as that part, when its length is due. Runs of one item, which
are most of them, are never listed: once all longer ones are taken, the first that fits is the one.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

Block = tuple[int, int, int]
"""Where it begins in the old sequence and in the new one, and how many items it has."""

MAX_PASSES = 4_000_000
"""Pairs of equal items; with more of them the runs would fill the memory, and `difflib` is used."""


Runs = dict[int, list[int]]
"""By their length, where runs begin: old place times the stride of the matching, plus new place.

One number each: tens of thousands of tuples would make Python look for garbage again and again.
"""


class Gap(NamedTuple):
    """What lies between two blocks: ranges of the old and of the new sequence."""

    old: int
    old_end: int
    new: int
    new_end: int


def matching_blocks(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Block]:
    """The blocks that `difflib.SequenceMatcher(None, old, new, autojunk=False)` finds, in order.

    The last one is empty and stands at the ends.
    """
    if count_passes(old, new) > MAX_PASSES:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        return [(i, j, size) for i, j, size in matcher.get_matching_blocks()]
    return _Matching(old, new).blocks()


def count_passes(old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """How many pairs of an old and a new item are equal: what the work grows with."""
    after = Counter(new)
    return sum(count * after[item] for item, count in Counter(old).items())


class _Matching:
    def __init__(self, old: Sequence[Hashable], new: Sequence[Hashable]) -> None:
        numbers: dict[Hashable, int] = {}
        self._old = [numbers.setdefault(item, len(numbers)) for item in old]
        self._new = [numbers.setdefault(item, len(numbers)) for item in new]
        self._stride = len(new) + 1
        self._places: dict[int, list[int]] = {}
        for place, number in enumerate(self._new):
            self._places.setdefault(number, []).append(place)
        self._gaps = [Gap(0, len(old), 0, len(new))]
        """Disjoint, in order; no block can lie elsewhere."""
        self._begins = [0]
        """Where the gaps begin in the old sequence."""
        self._found: list[Block] = []

    def blocks(self) -> list[Block]:
        due = self._runs()
        while due:
            length = max(due)
            for place in sorted(due.pop(length)):
                self._take(*divmod(place, self._stride), length, due)
        singles = [block for gap in self._gaps for block in self._singles(gap)]
        return [*_joined(sorted(self._found + singles)), (len(self._old), len(self._new), 0)]

    def _runs(self) -> Runs:
        """The runs of two items and more; none of them can be made longer."""
        runs: Runs = {}
        old, new = [*self._old, -1], [*self._new, -2]  # Neither end equals anything.
        pairs: dict[tuple[int, int], list[int]] = {}
        for j, pair in enumerate(pairwise(self._new)):
            pairs.setdefault(pair, []).append(j)
        for i, pair in enumerate(pairwise(self._old)):
            before = old[i - 1]
            for j in pairs.get(pair, ()):
                if new[j - 1] != before:
                    length = 2
                    while old[i + length] == new[j + length]:
                        length += 1
                    runs.setdefault(length, []).append(i * self._stride + j)
        return runs

    def _take(self, i: int, j: int, length: int, due: Runs) -> None:
        """Makes a run a block if it lies in a gap; of another, the parts in gaps come later."""
        for place, begin, end in self._parts(i, j, length):
            if end - begin == length:
                gap = self._gaps[place]
                self._gaps[place] = Gap(gap.old, i, gap.new, j)
                self._gaps.insert(place + 1, Gap(i + length, gap.old_end, j + length, gap.new_end))
                self._begins.insert(place + 1, i + length)
                self._found.append((i, j, length))
                return
            if end - begin > 1:
                due.setdefault(end - begin, []).append(begin * self._stride + begin - i + j)

    def _parts(self, i: int, j: int, length: int) -> list[Block]:
        """The gaps that a run lies in, each with the old items of the run from begin to end."""
        offset, place, parts = i - j, bisect_right(self._begins, i) - 1, []
        while place < len(self._gaps):
            old, old_end, new, new_end = self._gaps[place]
            if old >= i + length:
                break
            begin = max(i, old, new + offset)
            end = min(i + length, old_end, new_end + offset)
            if begin < end:
                parts.append((place, begin, end))
            place += 1
        return parts

    def _singles(self, gap: Gap) -> Iterator[Block]:
        """The equal items of a gap without longer runs: the first that fits, again and again."""
        first = gap.new
        for i in range(gap.old, gap.old_end):
            places = self._places.get(self._old[i], ())
            index = bisect_left(places, first)
            if index < len(places) and places[index] < gap.new_end:
                yield i, places[index], 1
                first = places[index] + 1


def _joined(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks; those that touch in both sequences become one."""
    i = j = size = 0
    for next_i, next_j, next_size in blocks:
        if (i + size, j + size) == (next_i, next_j):
            size += next_size
            continue
        if size:
            yield i, j, size
        i, j, size = next_i, next_j, next_size
    if size:
        yield i, j, size
