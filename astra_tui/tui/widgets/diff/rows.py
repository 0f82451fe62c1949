"""The rows of a diff: unified or side by side, with unchanged lines folded away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from astra_tui.model.hunks import CONTEXT, Hunk
from astra_tui.tui.text.document import Document
from astra_tui.tui.widgets.code.notes import NoteRow
from astra_tui.tui.widgets.diff.alignment import Alignment, Pair

EXPAND = 10
OLD, NEW = 0, 1


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """Stands above a hunk, counted from 0, and shows whether it is accepted."""

    hunk: int


@dataclass(frozen=True, slots=True)
class FoldRow:
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


Row = HeaderRow | FoldRow | CodeRow | NoteRow


@dataclass(frozen=True, slots=True)
class Shown:
    """How many lines of a gap are shown, at its top and at its bottom."""

    top: int
    bottom: int


class DiffRows:
    """Lays out a diff. `fold` and `unfold` change what the next `build` shows."""

    def __init__(self, alignment: Alignment, old: Document, new: Document) -> None:
        self.alignment = alignment
        self.documents = (old, new)
        self.gaps = _gaps(alignment.hunks, len(old), len(new))
        self._shown = [self._folded(gap) for gap in range(len(self.gaps))]
        self._partners = _partners(alignment)

    def build(self, side_by_side: bool, notes: Mapping[int, Sequence[NoteRow]]) -> list[Row]:
        """All rows, with notes under the lines of the new text, counted from 0."""
        layout = _beside if side_by_side else _unified
        rows: list[Row] = []
        for index, pairs in enumerate(self.alignment.pairs):
            rows += self._gap_rows(index, notes)
            rows.append(HeaderRow(index))
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
        """Shows more of a gap at both of its ends, or all of it."""
        shown, size = self._shown[gap], self._size(gap)
        more = size if lines is None else lines
        at_top = 0 if gap == 0 else more
        at_bottom = 0 if gap == len(self.gaps) - 1 else more
        if len(self.gaps) == 1:
            at_top = more
        self._shown[gap] = Shown(min(size, shown.top + at_top), min(size, shown.bottom + at_bottom))

    def fold(self, gap: int) -> None:
        """Shows only the context of a gap."""
        self._shown[gap] = self._folded(gap)

    def is_folded(self, gap: int) -> bool:
        """Whether lines of a gap are hidden."""
        return self._hidden(gap) > 0

    def unfold_line(self, new_line: int) -> None:
        """Shows the gap that holds an unchanged line of the new text, if one does."""
        for gap, (_, _, begin, end) in enumerate(self.gaps):
            if begin <= new_line < end:
                shown = self._shown[gap]
                if begin + shown.top <= new_line < end - shown.bottom:
                    self.unfold(gap)

    def gap_of(self, row: Row) -> int | None:
        """The gap that a row of context or a fold belongs to."""
        if isinstance(row, FoldRow):
            return row.gap
        if isinstance(row, CodeRow) and row.hunk < 0:
            return next(g for g, (_, _, a, b) in enumerate(self.gaps) if a <= row.new < b)
        return None

    def _gap_rows(self, gap: int, notes: Mapping[int, Sequence[NoteRow]]) -> Iterator[Row]:
        shown, size, hidden = self._shown[gap], self._size(gap), self._hidden(gap)
        if not hidden:
            for row in self._context(gap, 0, size):
                yield from self._with_parts(row, notes)
            return
        for row in self._context(gap, 0, shown.top):
            yield from self._with_parts(row, notes)
        yield FoldRow(gap, hidden, self.gaps[gap][2] + shown.top)
        for row in self._context(gap, size - shown.bottom, size):
            yield from self._with_parts(row, notes)

    def _context(self, gap: int, begin: int, end: int) -> Iterator[CodeRow]:
        old, _, new, _ = self.gaps[gap]
        return (CodeRow(old + k, new + k) for k in range(begin, end))

    def _with_parts(self, row: CodeRow, notes: Mapping[int, Sequence[NoteRow]]) -> Iterator[Row]:
        yield row
        old, new = self.documents
        parts = max(
            old.parts(row.old) if row.old >= 0 else 1, new.parts(row.new) if row.new >= 0 else 1
        )
        if parts > 1:
            yield from (row._replace(part=part) for part in range(1, parts))
        yield from notes.get(row.new, ())

    def _size(self, gap: int) -> int:
        begin, end, _, _ = self.gaps[gap]
        return end - begin

    def _hidden(self, gap: int) -> int:
        shown = self._shown[gap]
        hidden = self._size(gap) - shown.top - shown.bottom
        return hidden if hidden > 1 else 0  # a fold of one line would save nothing

    def _folded(self, gap: int) -> Shown:
        size = self._size(gap)
        top = 0 if gap == 0 else min(CONTEXT, size)
        return Shown(top, 0 if gap == len(self.gaps) - 1 else min(CONTEXT, size - top))


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


def _beside(pairs: Sequence[Pair], hunk: int) -> Iterator[CodeRow]:
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
