"""Marks as rows of text under their lines, and letters in the gutter."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

import msgspec

from astra_tui.model.visible import visible_inline
from astra_tui.present.numbers import pluralised
from astra_tui.tui.widgets.code.annotations import LineMark, MarkKind

_LONGEST = 1000
_NARROWEST = 20
_GRAVITY = list(MarkKind)


class NoteRow(msgspec.Struct, frozen=True):
    """One row of the text of a mark, under its line; `mark` counts from 0."""

    mark: int
    text: str
    first: bool


def notes_of(marks: Sequence[LineMark], lines: int, width: int) -> dict[int, list[NoteRow]]:
    """The notes of each line, counted from 0; those of no line stand under the nearest one."""
    notes: dict[int, list[NoteRow]] = {}
    for index, mark in enumerate(marks):
        line = _place(mark, lines)
        text = f"{mark.kind.value}: {visible_inline(mark.text, _LONGEST)}"
        pieces = textwrap.wrap(text, max(_NARROWEST, width), break_on_hyphens=False) or [text]
        rows = (NoteRow(index, piece, n == 0) for n, piece in enumerate(pieces))
        notes.setdefault(line, []).extend(rows)
    return notes


def count_marks(marks: Sequence[LineMark]) -> str:
    """How many marks of each kind there are, in words."""
    numbers = Counter(mark.kind for mark in marks)
    return ", ".join(pluralised(numbers[kind], kind.value) for kind in MarkKind if numbers[kind])


def most_severe(marks: Sequence[LineMark], lines: int) -> dict[int, MarkKind]:
    """The most severe kind of each marked line, counted from 0."""
    ordered = sorted(marks, key=lambda mark: _GRAVITY.index(mark.kind), reverse=True)
    return {_place(mark, lines): mark.kind for mark in ordered}


def _place(mark: LineMark, lines: int) -> int:
    return min(max(mark.line, 1), max(1, lines)) - 1
