"""What is shown, before it is lines, HTML, Markdown or JSON: all are written from the same parts.

Texts may come from anyone; the writers make them harmless.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from astra_tui.model.timing import Ratio
from astra_tui.model.visible import can_act, harmless
from astra_tui.present.numbers import change, count, ratio
from astra_tui.present.tones import Phrase, Tone


class Part(msgspec.Struct, frozen=True, tag_field="kind", tag=str.lower):
    """A part of a document; in JSON it has its kind."""


class Code(Part, frozen=True):
    """A name, hash or command."""

    text: str


class Number(Part, frozen=True):
    """A value of the journal as it is shown; the HTML carries the exact one too."""

    value: float
    text: str
    tone: Tone = Tone.PLAIN


N = TypeVar("N", int, float)
T = TypeVar("T")
P = ParamSpec("P")


def number(
    value: N, write: Callable[Concatenate[N, P], str], *args: P.args, **options: P.kwargs
) -> Number:
    """A value as one of the functions of numbers.py writes it."""
    return Number(value, write(value, *args, **options))


def changed(before: int, after: int) -> Number | None:
    """How much a counter changed, where less is better; None where it did not."""
    if before == after:
        return None
    text = change(after / before) if before else "new"
    tone = Tone.GOOD if after < before else Tone.BAD
    return Number(after / before - 1 if before else math.inf, text, tone)


Inline = str | Code | Number | Phrase
Line = tuple[Inline, ...]
Cell = Inline | Line | int | None
"""What a line is written with: a whole number is a count, and None says nothing."""


def line_of(cell: Cell) -> Line:
    """The line that such a cell is; empty where it says nothing."""
    if isinstance(cell, tuple):
        return cell
    if isinstance(cell, int):
        return (number(cell, count),)
    return (cell,) if cell is not None and cell != "" else ()


def phrases(line: Line) -> list[Phrase]:
    """The texts of a line, each in its tone; a line feed in them begins no other line."""
    texts = (part if isinstance(part, str) else part.text for part in line)
    tones = (getattr(part, "tone", Tone.PLAIN) for part in line)
    return [Phrase(text.replace("\n", " "), tone) for text, tone in zip(texts, tones, strict=True)]


def interval(found: Ratio) -> Line:
    """Both ends of the 95 % interval, with their exact values; nothing where there is none."""
    if not math.isfinite(found.high):
        return ()
    low, high = (number(end, ratio, "") for end in (found.low, found.high))
    return "[", low, ", ", high, "]"


def speedup_line(found: Ratio | None) -> Line:
    """A speedup with its interval, or nothing."""
    return (number(found.value, ratio), " ", *interval(found)) if found else ()


class Paragraph(Part, frozen=True):
    """One paragraph."""

    line: Line


def paragraphs(*texts: Cell) -> list[Block]:
    """One for each text that is not empty."""
    return [Paragraph(line) for line in map(line_of, texts) if line]


class Quote(Part, frozen=True):
    """What a model or an engineer wrote, line by line."""

    text: str


class Items(Part, frozen=True):
    """A list of short lines."""

    lines: tuple[Line, ...]


def first(parts: Sequence[T], most: int) -> tuple[Sequence[T], str]:
    """So many of these parts, and how many more there are in words, where there are more."""
    left = len(parts) - most
    return parts[:most], f"and {left} more" if left > 0 else ""


def items(*texts: Cell) -> list[Block]:
    """A list of these lines; nothing where there are none."""
    return [Items(tuple(map(line_of, texts)))] if texts else []


class Table(Part, frozen=True):
    """Rows of cells, of which the first is the row's header; see `table`.

    Where no column has a name, there is no row of names. `places` names rows of
    numbers that a plan may cite: see `place`. So many columns at the end as `optional` says follow
    in a table of their own, in lines that have no room for them.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]
    places: tuple[str, ...] = ()
    optional: int = 0

    @property
    def numeric(self) -> frozenset[int]:
        """Columns, counted from 0, most of whose cells are numbers: they are set to the right."""
        return frozenset(i for i in range(len(self.columns)) if self._is_numeric(i))

    def _is_numeric(self, column: int) -> bool:
        cells = [row[column] for row in self.rows if row[column]]
        numbers = sum(any(isinstance(part, Number) for part in cell) for cell in cells)
        return 2 * numbers > len(cells)

    def with_columns(self, kept: Sequence[int]) -> Table:
        """The same with these columns alone, counted from 0."""
        return replace(
            self,
            columns=tuple(self.columns[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
            optional=sum(i >= len(self.columns) - self.optional for i in kept),
        )

    def columns_from(self, first: int) -> Table:
        """The columns from one on, next to the first two, where a row has anything in them."""
        rest = self.with_columns([0, 1, *range(first, len(self.columns))])
        rows = tuple(row for row in rest.rows if any(row[2:]))
        return replace(rest, caption="", rows=rows, places=(), optional=0)

    def without_empty_columns(self) -> Table:
        """The same without the columns in which no row has anything."""
        columns = range(len(self.columns))
        return self.with_columns([i for i in columns if any(row[i] for row in self.rows)])


Row = tuple[Cell, ...]
Record = Mapping[str, Cell]
"""Cells by the names of their columns."""


def table(
    columns: Iterable[str],
    rows: Iterable[Iterable[Cell]],
    caption: str = "",
    *,
    places: tuple[str, ...] = (),
    optional: int = 0,
) -> Table:
    """A table of such cells."""
    made = tuple(tuple(map(line_of, row)) for row in rows)
    return Table(caption, tuple(columns), made, places, optional)


def records(
    rows: Iterable[Record],
    caption: str = "",
    *,
    places: tuple[str, ...] = (),
    optional: Collection[str] = (),
) -> Table:
    """A table of rows that have their cells by the names of columns; optional ones stand last."""
    known = list(rows)
    columns = sorted(dict.fromkeys(n for row in known for n in row), key=optional.__contains__)
    cells = ([row.get(name) for name in columns] for row in known)
    left = sum(name in optional for name in columns)
    return table(columns, cells, caption, places=places, optional=left)


class Fields(Part, frozen=True):
    """Names, and what is said under them; what belongs to the line above has no name."""

    rows: tuple[tuple[str, Line], ...]


def fields(rows: Record | Iterable[tuple[str, Cell]]) -> Fields:
    """Those of these fields in which something is said."""
    named = rows.items() if isinstance(rows, Mapping) else rows
    return Fields(tuple((name, line_of(cell)) for name, cell in named if cell))


def place(of: tuple[str, ...], *metrics: str) -> str:
    """The name of a row with these metrics; `of` names its workload or kernel, () all workloads."""
    return "\t".join(["\n".join(of), *metrics])


class Listing(Part, frozen=True):
    """Lines as they are, set in a fixed width. With a heading they are in columns."""

    heading: str
    lines: Sequence[Phrase]


def listing(*lines: str) -> list[Block]:
    """Such lines without a heading."""
    return [Listing("", tuple(map(Phrase, lines)))]


class Entry(Part, frozen=True):
    """A line, and set in below it what belongs to it: on a page folded away where it is `folded`;
    what is `long` stays so in print.
    """

    line: Line
    blocks: Sequence[Block]
    folded: bool = False
    long: bool = False


class Figure(Part, frozen=True):
    """A drawing; `description` says in words what it shows. Its numbers are in a table nearby."""

    title: str
    description: str
    svg: str


class Source(Part, frozen=True):
    """A whole kernel source."""

    text: str


class Diff(Part, frozen=True):
    """How one source became another."""

    old_name: str
    new_name: str
    old: str
    new: str


def folded(summary: str, *blocks: Block, long: bool = False) -> Entry:
    """Parts that are folded away under a line of summary."""
    return Entry((summary,), blocks, True, long)


class Section(Part, frozen=True):
    """A titled part; sections inside of it are one level lower. Links lead to its anchor."""

    title: str
    blocks: Sequence[Block]
    anchor: str = ""


def sections(parts: Mapping[str, Sequence[Block]]) -> list[Block]:
    """One for each of these titles that has blocks."""
    return [Section(title, blocks) for title, blocks in parts.items() if blocks]


Block = (
    Paragraph | Quote | Items | Fields | Table | Listing | Entry | Figure | Source | Diff | Section
)  # fmt: skip


class Document(Part, frozen=True):
    """A whole report."""

    title: str
    subtitle: str
    opening: Sequence[Block]
    sections: Sequence[Section]


# -- texts made harmless ---------------------------------------------------------------------------

LONGEST_TEXT = 4000
"""Longer texts are cut; a hostile journal must not make a page that no browser opens."""

_SPACE = re.compile(r"[\n\t ]+")


def bounded(text: str, limit: int = LONGEST_TEXT) -> str:
    """A text of several lines, visible and at most `limit` characters of the original long."""
    cut = f" ... ({len(text) - limit} more characters)" if len(text) > limit else ""
    return harmless(text[:limit]) + cut


def inline(text: str, limit: int = LONGEST_TEXT) -> str:
    """The same on one line."""
    return spaced(text, limit).strip(" ")


def spaced(text: str, limit: int = LONGEST_TEXT) -> str:
    """On one line, with a space at an end where it has one: a piece between other pieces."""
    return _SPACE.sub(" ", bounded(text, limit))


# -- as plain data --------------------------------------------------------------------------------


def as_json(data: Any) -> str:
    """A document, its parts with their `kind`, or another answer: JSON that acts on no terminal."""
    text = msgspec.json.format(msgspec.json.encode(data, enc_hook=str), indent=2).decode()
    if not text.isascii():
        text = "".join(json.dumps(c)[1:-1] if can_act(c) else c for c in text)
    return text + "\n"
