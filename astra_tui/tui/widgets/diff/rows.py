"""The rows of a diff: unified or side by side, with unchanged lines folded away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from astra_tui.model.hunks import CONTEXT, Hunk
from astra_tui.model.visible import Range
from astra_tui.tui.text.document import Document
from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark, NoteRow
from astra_tui.tui.widgets.diff.alignment import Alignment, Pair


class DiffView(msgspec.Struct, frozen=True):
    """Two texts, what is known about their lines, and which hunks are accepted.

    `marks` and `new_columns` are about lines of the new text, `old_columns` of the old one, both
    from 1. `accepted` holds the accepted hunks from 0; None means all. `choosable` lets the
    engineer accept and refuse hunks: set it while the diff is being decided.
    """

    old: str
    new: str
    old_name: str = ""
    new_name: str = ""
    marks: tuple[LineMark, ...] = ()
    old_columns: tuple[LineColumn, ...] = ()
    new_columns: tuple[LineColumn, ...] = ()
    accepted: frozenset[int] | None = None
    choosable: bool = False

    def same_texts(self, other: DiffView | None) -> bool:
        """Whether another view is about the same diff, so that place and choice are kept."""
        return other is not None and (self.old, self.new) == (other.old, other.new)


EXPAND = 10
OLD, NEW = 0, 1


class HeaderRow(msgspec.Struct, frozen=True):
    """Stands above a hunk, counted from 0, and shows whether it is accepted."""

    hunk: int


class NeedRow(msgspec.Struct, frozen=True):
    """Stands below the header of a hunk that needs another one: `name` is what it needs of it."""

    hunk: int
    needed: int
    name: str


class FoldRow(msgspec.Struct, frozen=True):
    """Stands for unchanged lines between two hunks; gap `n` comes before hunk `n`.

    `first` is the first hidden line of the new text, from 0.
    """

    gap: int
    hidden: int
    first: int


class CodeRow(NamedTuple):
    """A line of the old text, of the new one or of both; -1 where there is none.

    Unified, a changed line stands on one side only. `part` counts the rows of an overlong line.
    `hunk` is -1 for context.
    """

    old: int
    new: int
    changed: bool = False
    hunk: int = -1
    part: int = 0


Row = HeaderRow | NeedRow | FoldRow | CodeRow | NoteRow


class DiffRows:
    """Lays out a diff. `fold` and `unfold` change what the next `build` shows."""

    def __init__(self, alignment: Alignment, old: Document, new: Document) -> None:
        self.alignment = alignment
        self.documents = (old, new)
        self.gaps = _gaps(alignment.hunks, len(old), len(new))
        self._hidden = [self._folded(gap) for gap in range(len(self.gaps))]
        self._partners = _partners(alignment)
        self._room = 0

    def build(
        self,
        side_by_side: bool,
        notes: Mapping[int, Sequence[NoteRow]],
        room: int = 0,
        needs: Sequence[Mapping[int, str]] = (),
    ) -> list[Row]:
        """All rows, with notes under the lines of the new text, counted from 0, and under each
        header what its hunk needs; lines are broken for so many cells of room.
        """
        self._room = room
        layout = _side_by_side if side_by_side else _unified
        rows: list[Row] = []
        for index, pairs in enumerate(self.alignment.pairs):
            rows += self._gap_rows(index, notes)
            rows.append(HeaderRow(index))
            if needs:
                rows += (NeedRow(index, other, name) for other, name in needs[index].items())
            for code in layout(pairs, index):
                rows += self._with_parts(code, notes)
        rows += self._gap_rows(len(self.gaps) - 1, notes)
        return rows

    def partner(self, side: int, line: int) -> int:
        """The line of the other text that a changed line is compared with, or -1."""
        return self._partners[side].get(line, -1)

    def whole(self) -> Iterator[CodeRow]:
        """All lines of the unified layout, folded or not."""
        for index, pairs in enumerate(self.alignment.pairs):
            yield from self._context(index, 0, self._size(index))
            yield from _unified(pairs, index)
        last = len(self.gaps) - 1
        yield from self._context(last, 0, self._size(last))

    def unfold(self, gap: int, lines: int | None = None) -> None:
        """Shows more of a gap, next to the lines that are shown, or all of it."""
        size = self._size(gap)
        if lines is None:
            self._hidden[gap] = []
        elif self._hidden[gap] == [(0, size)]:
            self._hide(gap, [(lines, size)])
        else:
            trimmed = (
                (begin + lines if begin > 0 else 0, end - lines if end < size else end)
                for begin, end in self._hidden[gap]
            )
            self._hide(gap, trimmed)

    def fold(self, gap: int) -> None:
        """Shows only the context of a gap."""
        self._hidden[gap] = self._folded(gap)

    def unfold_line(self, new_line: int) -> None:
        """Shows an unchanged line of the new text and some around it."""
        for gap, (_, _, first, last) in enumerate(self.gaps):
            if first <= new_line < last:
                line = new_line - first
                self._hide(gap, _without(self._hidden[gap], line - CONTEXT, line + CONTEXT + 1))

    def gap_of(self, row: Row) -> int | None:
        """The gap that a row of context or a fold belongs to."""
        if isinstance(row, FoldRow):
            return row.gap
        if isinstance(row, CodeRow) and row.hunk < 0:
            return next(g for g, (_, _, a, b) in enumerate(self.gaps) if a <= row.new < b)
        return None

    def _gap_rows(self, gap: int, notes: Mapping[int, Sequence[NoteRow]]) -> Iterator[Row]:
        done = 0
        for begin, end in (*self._hidden[gap], (self._size(gap), 0)):
            for row in self._context(gap, done, begin):
                yield from self._with_parts(row, notes)
            if begin < end:
                yield FoldRow(gap, end - begin, self.gaps[gap][2] + begin)
            done = end

    def _context(self, gap: int, begin: int, end: int) -> Iterator[CodeRow]:
        old, _, new, _ = self.gaps[gap]
        return (CodeRow(old + k, new + k) for k in range(begin, end))

    def _with_parts(self, row: CodeRow, notes: Mapping[int, Sequence[NoteRow]]) -> Iterator[Row]:
        yield row
        old, new = self.documents
        parts = max(
            old.parts(row.old, self._room) if row.old >= 0 else 1,
            new.parts(row.new, self._room) if row.new >= 0 else 1,
        )
        if parts > 1:
            yield from (row._replace(part=part) for part in range(1, parts))
        yield from notes.get(row.new, ())

    def _size(self, gap: int) -> int:
        begin, end, _, _ = self.gaps[gap]
        return end - begin

    def _folded(self, gap: int) -> list[Range]:
        """What is hidden of a gap at first: all but the context of the hunks next to it."""
        size = self._size(gap)
        begin = 0 if gap == 0 else CONTEXT
        end = size if gap == len(self.gaps) - 1 else size - CONTEXT
        return [(begin, end)] if end - begin > 1 else []

    def _hide(self, gap: int, ranges: Iterable[Range]) -> None:
        """Hides these ranges of a gap; a fold of one line would save nothing."""
        self._hidden[gap] = [(begin, end) for begin, end in ranges if end - begin > 1]


def _without(ranges: Iterable[Range], begin: int, end: int) -> Iterator[Range]:
    """The ranges with a piece cut out of them."""
    for first, last in ranges:
        yield first, min(last, max(first, begin))
        yield max(first, min(last, end)), last


def _gaps(hunks: Sequence[Hunk], old: int, new: int) -> list[tuple[int, int, int, int]]:
    """The unchanged lines before each hunk and after the last: their ranges in both texts."""
    gaps, old_done, new_done = [], 0, 0
    for hunk in hunks:
        gaps.append((old_done, hunk.old_start, new_done, hunk.new_start))
        old_done, new_done = hunk.old_end, hunk.new_end
    return [*gaps, (old_done, old, new_done, new)]


def _partners(alignment: Alignment) -> tuple[dict[int, int], dict[int, int]]:
    both = [p for pairs in alignment.pairs for p in pairs if p.changed and min(p.old, p.new) >= 0]
    return {p.old: p.new for p in both}, {p.new: p.old for p in both}


def _side_by_side(pairs: Sequence[Pair], hunk: int) -> Iterator[CodeRow]:
    return (CodeRow(p.old, p.new, p.changed, hunk) for p in pairs)


def _unified(pairs: Sequence[Pair], hunk: int) -> Iterator[CodeRow]:
    """Removed lines, then added lines, between the lines that stay."""
    block: list[Pair] = []
    for pair in (*pairs, None):
        if pair is not None and pair.changed:
            block.append(pair)
            continue
        yield from (CodeRow(p.old, -1, True, hunk) for p in block if p.old >= 0)
        yield from (CodeRow(-1, p.new, True, hunk) for p in block if p.new >= 0)
        block = []
        if pair is not None:
            yield CodeRow(pair.old, pair.new, False, hunk)
