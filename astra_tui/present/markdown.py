"""A report as Markdown with GitHub's tables, for pull requests and terminals; no HTML in it."""

from __future__ import annotations

import re
import textwrap
from functools import singledispatch

from astra_tui.model.hunks import unified_diff
from astra_tui.present.document import (
    Badge,
    Block,
    Code,
    Details,
    Diff,
    Document,
    Entry,
    Figure,
    Inline,
    Items,
    Line,
    Link,
    Listing,
    Number,
    Paragraph,
    Quote,
    Section,
    Source,
    Strong,
    Table,
    bounded,
    inline,
    spaced,
    visible,
)
from astra_tui.present.tones import sign_of

_ACTIVE = re.compile(r"[\\`*\[\]<>&|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.")
_OPENS_BLOCK = re.compile(r"^(\s*)([#+=-]|\d+(?=[.)]))")


def as_markdown(document: Document) -> str:
    """The whole file. Texts of the journal in it are escaped: none makes a link, a tag or a list.

    Drawings are described; their numbers are in the tables.
    """
    parts = [f"# {_plain(document.title)}", _plain(document.subtitle)]
    parts += [_block(block, 2) for block in (*document.opening, *document.sections)]
    return "\n\n".join(parts) + "\n"


def _blocks(blocks: tuple[Block, ...], level: int) -> str:
    return "\n\n".join(_block(block, level) for block in blocks)


@singledispatch
def _block(block: Block, _level: int) -> str:
    raise TypeError(f"no Markdown for {type(block).__name__}")


@_block.register
def _(block: Paragraph, _level: int) -> str:
    return _started(_line(block.line))


@_block.register
def _(block: Quote, _level: int) -> str:
    lines = bounded(block.text).split("\n")
    return "\n".join(f"> {_started(_escaped(text.strip()))}  ".rstrip(" ") for text in lines)


@_block.register
def _(block: Items, _level: int) -> str:
    return "\n".join(f"- {_started(_line(line))}" for line in block.lines)


@_block.register
def _(block: Table, _level: int) -> str:
    columns = range(len(block.columns))
    rule = "|".join(" ---: " if i in block.numeric else " --- " for i in columns)
    rows = ["| " + " | ".join(map(_plain, block.columns)) + " |", f"|{rule}|"]
    rows += ["| " + " | ".join(map(_cell, cells)) + " |" for cells in block.rows]
    caption = f"**{_plain(block.caption)}**\n\n" if block.caption else ""
    return caption + "\n".join(rows)


@_block.register
def _(block: Listing, _level: int) -> str:
    lines = [block.heading] * bool(block.heading) + [line.words for line in block.lines]
    return _fenced("\n".join(lines), "")


@_block.register
def _(block: Entry, level: int) -> str:
    inner = textwrap.indent(_blocks(block.blocks, level), "  ")
    return f"- {_line(block.line)}\n\n{inner}" if inner else f"- {_line(block.line)}"


@_block.register
def _(block: Figure, _level: int) -> str:
    return f"Drawn in the HTML file: **{_plain(block.title)}**. {_plain(block.description)}"


@_block.register
def _(block: Source, _level: int) -> str:
    return _fenced(block.text, "cuda")


@_block.register
def _(block: Diff, _level: int) -> str:
    diff = unified_diff(block.old, block.new, block.old_name, block.new_name)
    return _fenced(diff, "diff") if diff else "Both sources are the same."


@_block.register
def _(block: Details, level: int) -> str:
    return f"**{_plain(block.summary)}**\n\n{_blocks(block.blocks, level)}"


@_block.register
def _(block: Section, level: int) -> str:
    return f"{'#' * level} {_plain(block.title)}\n\n{_blocks(block.blocks, level + 1)}"


def _fenced(text: str, language: str) -> str:
    shown = visible(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _cell(line: Line) -> str:
    return "".join(_inline(part, in_table=True) for part in line)


def _line(line: Line) -> str:
    return "".join(map(_inline, line)).strip(" ")


def _inline(part: Inline, in_table: bool = False) -> str:
    match part:
        case str():
            return _escaped(spaced(part))
        case Code(text):
            return _code(inline(text), in_table)
        case Strong(text):
            after = " " if text.endswith(" ") else ""
            return f"**{_plain(text)}**{after}"
        case Number(_, text):
            return _escaped(text)
        case Badge(text, tone):
            return f"{sign_of(tone)} {_plain(text)}"
        case Link(text, _):
            return _escaped(text)


def _code(text: str, in_table: bool) -> str:
    if not text:
        return ""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    room = " " if text.startswith("`") or text.endswith("`") else ""
    # A table takes its cells apart before it looks at code.
    shown = text.replace("|", r"\|") if in_table else text
    return f"{fence}{room}{shown}{room}{fence}"


def _plain(text: str) -> str:
    return _escaped(inline(text))


def _escaped(text: str) -> str:
    return _ACTIVE.sub(r"\\\g<0>", text)


def _started(text: str) -> str:
    """Text at the beginning of a block, where some characters would make a heading or a list."""
    return _OPENS_BLOCK.sub(_unopened, text)


def _unopened(match: re.Match[str]) -> str:
    space, sign = match.groups()
    return f"{space}{sign}\\" if sign.isdigit() else f"{space}\\{sign}"
