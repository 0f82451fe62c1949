"""Draws the rows of a diff: headers, folds, notes, and lines unified or side by side."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from astra_tui.model.hunks import LineChange
from astra_tui.model.visible import Range
from astra_tui.present.numbers import pluralised
from astra_tui.present.tones import Tone
from astra_tui.tui.colours import tone_rule
from astra_tui.tui.text.document import Document, document_of
from astra_tui.tui.widgets.code.annotations import (
    Columns,
    MarkKind,
    NoteRow,
    column_segments,
    column_titles,
)
from astra_tui.tui.widgets.code.painting import Layer, code_strip, fit
from astra_tui.tui.widgets.code.view import CodeView
from astra_tui.tui.widgets.diff.alignment import Alignment, Pair
from astra_tui.tui.widgets.diff.rows import (
    NEW,
    OLD,
    CodeRow,
    DiffRows,
    DiffView,
    FoldRow,
    HeaderRow,
    NeedRow,
    Row,
)

CLASSES = {
    "diff--header",
    "diff--header-refused",
    "diff--fold",
    "diff--absent",
    *(
        f"diff--{side}{suffix}"
        for side in ("added", "removed")
        for suffix in ("", "-emphasis", "-refused", "-sign")
    ),
}

CSS = """
DiffCanvas > .diff--header { color: $text-primary; text-style: bold; }
DiffCanvas > .diff--fold { color: $foreground 55%; }
DiffCanvas > .diff--absent { background: $foreground 4%; }
DiffCanvas > .diff--added { background: $success 14%; }
DiffCanvas > .diff--removed { background: $error 14%; }
DiffCanvas > .diff--added-emphasis { background: $success 42%; text-style: bold; }
DiffCanvas > .diff--removed-emphasis { background: $error 42%; text-style: bold; }
DiffCanvas > .diff--added-refused { background: $foreground 6%; text-style: dim strike; }
DiffCanvas > .diff--removed-refused { background: $foreground 6%; }
DiffCanvas:ansi > .diff--fold { color: ansi_default; text-style: dim; }
DiffCanvas:ansi > .diff--absent { background: ansi_default; }
DiffCanvas:ansi > .diff--added { background: ansi_default; }
DiffCanvas:ansi > .diff--removed { background: ansi_default; }
DiffCanvas:ansi > .diff--added-emphasis { background: ansi_default; text-style: reverse; }
DiffCanvas:ansi > .diff--removed-emphasis { background: ansi_default; text-style: reverse; }
DiffCanvas:ansi > .diff--added-refused { background: ansi_default; text-style: dim strike; }
DiffCanvas:ansi > .diff--removed-refused { background: ansi_default; text-style: dim; }
"""
CSS += tone_rule("DiffCanvas", "> .diff--header-refused", Tone.CAUTION, bold=True)
CSS += tone_rule("DiffCanvas", "> .diff--added-sign", Tone.GOOD, bold=True)
CSS += tone_rule("DiffCanvas", "> .diff--removed-sign", Tone.BAD, bold=True)


_SIDES = ("removed", "added")
_DIVIDER = "│"

_MIN_CODE = 48
"""Cells of code; columns that would leave fewer are shown when someone asks for them."""


class DiffCanvas(CodeView):
    """Knows a diff and its layout, and draws one row of it. `DiffLines` adds what keys do."""

    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    WRAPS = True
    DEFAULT_CSS = CSS

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.view = DiffView("", "")
        self.accepted: frozenset[int] = frozenset()
        self.left_out: frozenset[LineChange] = frozenset()
        """Changes that are refused within accepted hunks."""
        self.needs: tuple[Mapping[int, str], ...] = ()
        """What the hunks need of each other, where they can be chosen."""
        self.side_by_side = False
        self.columns_wanted: bool | None = None
        """Whether someone asked for columns, or for none; until then the room decides."""
        self._rows: list[Row] = []
        self._texts = (document_of(""), document_of(""))
        self._layout = DiffRows(Alignment((), ()), *self._texts)
        self._letters: dict[int, MarkKind] = {}
        self._column_widths: list[int] = []

    @property
    def hunk_count(self) -> int:
        """How many hunks the diff has."""
        return len(self._layout.alignment.hunks)

    @property
    def line_counts(self) -> tuple[int, int]:
        """How many lines are added and removed."""
        return _count_lines(p for pairs in self._layout.alignment.pairs for p in pairs)

    @property
    def row_count(self) -> int:
        """Rows, with folds, headers and notes."""
        return len(self._rows)

    @property
    def documents(self) -> Sequence[Document]:
        """The old and the new text."""
        return self._texts

    @property
    def rows(self) -> Sequence[Row]:
        """What is on each row."""
        return self._rows

    @property
    def columns_shown(self) -> bool:
        """Whether columns stand next to the lines: not where they would leave too little code."""
        if self.columns_wanted is not None:
            return self.columns_wanted
        width = min(self._halves()) if self.side_by_side else self.view_width - 1
        return width - self._narrow_gutter_width(NEW) - self._columns_width() >= _MIN_CODE

    # Drawing

    def text_room(self) -> int:
        """Cells that a line of code has on the screen; side by side, in the narrower half."""
        if self.side_by_side:
            return max(0, min(self._halves()) - self._gutter_width(NEW))
        return max(0, self.view_width - 1 - self._gutter_width(NEW))

    @property
    def wrap_room(self) -> int:
        """What is approved is never cut: lines continue below."""
        return self.text_room()

    def draw_row(self, index: int, at_cursor: bool) -> Strip:
        """One row."""
        row = self._rows[index]
        match row:
            case HeaderRow(hunk=hunk):
                return self._draw_header(hunk, at_cursor)
            case NeedRow(hunk=hunk, needed=needed, name=name):
                refused = "" if hunk in self.accepted else "-refused"
                text = f"    needs hunk {needed + 1}: {name} "
                return self._draw_bar(text, f"diff--header{refused}", at_cursor, " ")
            case FoldRow(hidden=hidden):
                text = f" {hidden} unchanged lines (enter shows them) "
                return self._draw_bar(text, "diff--fold", at_cursor, "·")
            case NoteRow():
                return self._draw_note(row, at_cursor)
            case CodeRow() if self.side_by_side:
                return self._draw_side_by_side(row, at_cursor)
            case CodeRow():
                return self._draw_unified(row, at_cursor)

    def _draw_header(self, hunk: int, at_cursor: bool) -> Strip:
        ranges = self._layout.alignment.hunks[hunk]
        refused = hunk not in self.accepted
        partial = len(self.accepted) < self.hunk_count
        box = ("[ ] " if refused else "[x] ") if self.view.choosable or partial else ""
        text = f"{box}Hunk {hunk + 1} of {self.hunk_count}"
        text += f", line {ranges.old_start + 1} → {ranges.new_start + 1}"
        added, removed = _count_lines(self._layout.alignment.pairs[hunk])
        text += f", +{added} −{removed}"
        if refused:
            text += ", refused: the old lines stay"
        elif kept := sum(change.hunk == hunk for change in self.left_out):
            text += f", {pluralised(kept, 'line')} refused"
        name = "diff--header-refused" if refused else "diff--header"
        return self._draw_bar(text + " ", name, at_cursor, "─")

    def _draw_bar(self, text: str, name: str, at_cursor: bool, fill: str) -> Strip:
        style = self.style_of(name)
        rest = max(0, self.view_width - 1 - len(text))
        return Strip([self.cursor_mark(at_cursor), Segment(text + fill * rest, style)])

    def _draw_note(self, row: NoteRow, at_cursor: bool) -> Strip:
        mark = self.view.marks[row.mark]
        style = self.style_of(f"pane--{mark.kind.value}")
        before = self._halves()[0] + 1 if self.side_by_side else 0
        indent = " " * (before + self._gutter_width(NEW) - 2) + ("└ " if row.first else "  ")
        return Strip([self.cursor_mark(at_cursor), Segment(indent + row.text, style)])

    def _draw_unified(self, row: CodeRow, at_cursor: bool) -> Strip:
        side = OLD if row.new < 0 else NEW
        width = self.view_width - 1
        return Strip.join([Strip([self.cursor_mark(at_cursor)]), self._draw_half(row, side, width)])

    def _draw_side_by_side(self, row: CodeRow, at_cursor: bool) -> Strip:
        left, right = self._halves()
        divider = Segment(_DIVIDER, self.style_of("pane--divider"))
        halves = (
            self._draw_half(row, OLD, left),
            Strip([divider]),
            self._draw_half(row, NEW, right),
        )
        return Strip.join([Strip([self.cursor_mark(at_cursor)]), *halves])

    def _draw_half(self, row: CodeRow, side: int, width: int) -> Strip:
        """A line with its gutter, without the cursor; unified, it has both line numbers."""
        line = (row.old, row.new)[side]
        if line < 0 or row.part >= self._texts[side].parts(line, self.wrap_room):
            return Strip.blank(width, self.style_of("diff--absent"))
        base = self.style_of(f"diff--{_SIDES[side]}") if row.changed else Style.null()
        if row.changed and self._is_refused(row, side):
            base = self.style_of(f"diff--{_SIDES[side]}-refused")
        gutter = Strip(self._gutter(row, side, base))
        code = self._draw_code(row, side, base)
        body = fit(code, self.scroll_offset.x, max(0, width - gutter.cell_length), base)
        return Strip.join([gutter, body]).adjust_cell_length(width, base)

    def _draw_code(self, row: CodeRow, side: int, base: Style) -> Strip:
        line = (row.old, row.new)[side]
        document = self._texts[side]
        self.await_colours(side, line)
        layers: list[Layer] = []
        if row.changed and not self._is_refused(row, side):
            style = self.style_of(f"diff--{_SIDES[side]}-emphasis")
            layers.append((self._emphasis(side, line), style))
        searched = (NEW, row.new) if row.new >= 0 and not row.changed else (side, line)
        layers += self.match_layers(*searched)
        return code_strip(document, line, row.part, self.style_of, base, layers, self.wrap_room)

    def _is_refused(self, row: CodeRow, side: int) -> bool:
        if row.hunk not in self.accepted:
            return True
        line = (row.old, row.new)[side]
        return any((c.old, c.new)[side] == line for c in self.left_out)

    def _emphasis(self, side: int, line: int) -> Sequence[Range]:
        partner = self._layout.partner(side, line)
        if partner < 0:
            return ()
        old, new = (line, partner) if side == OLD else (partner, line)
        return emphasis_of(self._texts[OLD].raw(old), self._texts[NEW].raw(new))[side]

    def _gutter(self, row: CodeRow, side: int, base: Style) -> Iterator[Segment]:
        """Mark, line numbers, columns and sign; as wide as `_gutter_width` says."""
        lines = (row.old, row.new)
        yield self._mark_letter(row.new if side == NEW else -1)
        for each in self._numbered(side):
            number = f"{lines[each] + 1}" if lines[each] >= 0 else ""
            if row.part:
                number = "↪" if each == side else ""
            text = f"{number:>{self._number_width(each)}} "
            yield Segment(text, self.style_of("pane--gutter"))
        if self.columns_shown:
            line = lines[side] + 1 if not row.part else 0
            style = self.style_of("pane--column")
            yield from column_segments(self._columns(side), self._column_widths, line, style)
        sign = "-+"[side] if row.changed else " "
        yield Segment(f"{sign} ", base + self.style_of(f"diff--{_SIDES[side]}-sign"))

    def _gutter_width(self, side: int) -> int:
        columns = self._columns_width() if self.columns_shown else 0
        return self._narrow_gutter_width(side) + columns

    def _narrow_gutter_width(self, side: int) -> int:
        """Without columns."""
        return 3 + sum(self._number_width(each) + 1 for each in self._numbered(side))

    def _columns_width(self) -> int:
        return sum(w + 1 for w in self._column_widths)

    def _numbered(self, side: int) -> tuple[int, ...]:
        return (side,) if self.side_by_side else (OLD, NEW)

    def _number_width(self, side: int) -> int:
        return max(2, len(str(len(self._texts[side]))))

    def _columns(self, side: int) -> Columns:
        return self.view.old_columns if side == OLD else self.view.new_columns

    def _mark_letter(self, line: int) -> Segment:
        kind = self._letters.get(line)
        if kind is None:
            return Segment(" ", self.style_of("pane--gutter"))
        return Segment(kind.letter, self.style_of(f"pane--{kind.value}"))

    def _halves(self) -> tuple[int, int]:
        """The widths left and right of the divider, without the cursor's column."""
        left = max(0, self.view_width - 2) // 2
        return left, max(0, self.view_width - 2 - left)

    def column_titles(self) -> str:
        """What stands above the columns, or nothing where none are shown."""
        if not self.columns_shown or not self._column_widths:
            return ""
        sides = (OLD, NEW) if self.side_by_side else (NEW,)
        titles = []
        for side, width in zip(sides, self._halves(), strict=False):
            before = " " * (self._gutter_width(side) - 2 - self._columns_width())
            columns = self._columns(side) or self._columns(OLD + NEW - side)
            text = before + column_titles(columns, self._column_widths)
            titles.append(f"{text:{width}}")
        return " " + " ".join(titles)


def _count_lines(pairs: Iterable[Pair]) -> tuple[int, int]:
    changed = [pair for pair in pairs if pair.changed]
    return sum(pair.new >= 0 for pair in changed), sum(pair.old >= 0 for pair in changed)


MAX_TOKENS = 120
"""Longer lines are not compared: the comparison takes quadratic time."""

_LIKE = 0.4
"""Lines less alike have nothing in common worth showing."""

_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")

Emphasis = tuple[tuple[Range, ...], tuple[Range, ...]]
_NONE: Emphasis = ((), ())


@lru_cache(maxsize=4096)
def emphasis_of(old: str, new: str) -> Emphasis:
    """The ranges of characters that differ: in the old line and in the new one.

    Nothing where the lines are too long, or so different that all of them would be marked.
    """
    if max(len(old), len(new)) > 20 * MAX_TOKENS:
        return _NONE
    before, after = _TOKENS.findall(old), _TOKENS.findall(new)
    if not before or not after or max(len(before), len(after)) > MAX_TOKENS:
        return _NONE
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if matcher.quick_ratio() < _LIKE or matcher.ratio() < _LIKE:
        return _NONE
    changes = [op for op in matcher.get_opcodes() if op[0] != "equal"]
    return (
        _ranges(before, [(i, i_end) for _, i, i_end, _, _ in changes]),
        _ranges(after, [(j, j_end) for _, _, _, j, j_end in changes]),
    )


def _ranges(tokens: list[str], pieces: list[Range]) -> tuple[Range, ...]:
    begins = [0]
    for token in tokens:
        begins.append(begins[-1] + len(token))
    return tuple((begins[a], begins[b]) for a, b in pieces if a < b)
