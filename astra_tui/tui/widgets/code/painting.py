"""Turns a line of a document into styled segments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from astra_tui.model.visible import Range
from astra_tui.tui.text.document import Document

Layer = tuple[Sequence[Range], Style]
"""Ranges of a drawn text and what is laid over them."""


def code_strip(
    document: Document,
    line: int,
    part: int,
    style_of: Callable[[str], Style],
    base: Style,
    over: Iterable[Layer] = (),
    room: int = 0,
) -> Strip:
    """One row of a source line: its colours, its marks, and layers in characters of the source.

    `part` counts the rows of a line that is broken for so many cells of `room`. The strip is as
    wide as the text.
    """
    shown = document.visible(line)
    layers: list[Layer] = [
        ([(shown.column(begin), shown.column(end))], style_of(f"code--{role}"))
        for begin, end, role in document.spans(line)
    ]
    for ranges, style in over:
        layers.append(([(shown.column(a), shown.column(b)) for a, b in ranges], style))
    layers.append((shown.marks, style_of("pane--mark")))
    size = document.part_of(line, room)
    begin, end = part * size, (part + 1) * size
    if len(shown.text) > size:
        layers = [(_clip(ranges, begin, end), style) for ranges, style in layers]
    return Strip(paint(shown.text[begin:end], base, layers))


def paint(text: str, base: Style, layers: Iterable[Layer]) -> list[Segment]:
    """Segments of a text: the base style, and later layers over earlier ones."""
    flat = [(a, b, style) for ranges, style in layers for a, b in ranges if a < b]
    cuts = sorted({0, len(text), *(min(c, len(text)) for a, b, _ in flat for c in (a, b))})
    styles = [base] * (len(cuts) - 1)
    for begin, end, style in flat:
        for index in range(bisect_left(cuts, begin), bisect_left(cuts, min(end, len(text)))):
            styles[index] = styles[index] + style
    pieces = zip(cuts, cuts[1:], styles, strict=False)
    return [Segment(text[a:b], style) for a, b, style in pieces]


def fit(strip: Strip, offset: int, width: int, base: Style) -> Strip:
    """The cells of a strip from an offset on, cut or filled up to a width."""
    if offset:
        strip = strip.crop(min(offset, strip.cell_length))
    return strip.adjust_cell_length(width, base)


def _clip(ranges: Sequence[Range], begin: int, end: int) -> list[Range]:
    return [
        (max(a, begin) - begin, min(b, end) - begin) for a, b in ranges if a < end and b > begin
    ]
