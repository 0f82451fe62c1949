"""A report as Markdown with GitHub's tables, for pull requests and terminals; no HTML in it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from astra_tui.model.hunks import unified_diff
from astra_tui.model.visible import harmless
from astra_tui.present import document as doc
from astra_tui.present.tones import Phrase, Tone, sign_of

_ACTIVE = re.compile(r"[\\`*\[\]<>&|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.")
_OPENS_BLOCK = re.compile(r"^(\s*)([#+=-]|\d+(?=[.)]))")


def as_markdown(document: doc.Document) -> str:
    """The whole file. Texts of the journal in it are escaped: none makes a link, a tag or a list.

    Drawings are described; their numbers are in the tables.
    """
    parts = [f"# {_plain(document.title)}", _plain(document.subtitle)]
    parts += [_block(block, 2) for block in (*document.opening, *document.sections)]
    return "\n\n".join(parts) + "\n"


def blocks_as_markdown(blocks: Iterable[doc.Block], level: int) -> str:
    """Parts of a document; headings of sections begin at this level."""
    return "\n\n".join(_block(block, level) for block in blocks)


def _block(block: doc.Block, level: int) -> str:
    match block:
        case doc.Paragraph(line):
            return _started(_line(line))
        case doc.Quote(text):
            quoted = (_started(_escaped(t.strip())) for t in doc.bounded(text).split("\n"))
            return "\n".join(f"> {text}  ".rstrip(" ") for text in quoted)
        case doc.Items(lines):
            return "\n".join(f"- {_started(_line(line))}" for line in lines)
        case doc.Fields(rows):
            return "\n".join(f"- {_field(name, _line(said))}" for name, said in rows)
        case doc.Table():
            return _table(block)
        case doc.Listing(heading, lines):
            return _fenced("\n".join([heading] * bool(heading) + [p.text for p in lines]), "")
        case doc.Entry(line, blocks):
            inner = textwrap.indent(blocks_as_markdown(blocks, level), "  ")
            return f"- {_line(line)}\n\n{inner}" if inner else f"- {_line(line)}"
        case doc.Figure(title, description):
            return f"Drawn in the HTML file: **{_plain(title)}**. {_plain(description)}"
        case doc.Source(text):
            return _fenced(text, "cuda")
        case doc.Diff(old_name, new_name, old, new):
            diff = unified_diff(old, new, old_name, new_name)
            return _fenced(diff, "diff") if diff else "Both sources are the same."
        case doc.Details(summary, blocks):
            return f"**{_plain(summary)}**\n\n{blocks_as_markdown(blocks, level)}"
        case doc.Section(title, blocks):
            return f"{'#' * level} {_plain(title)}\n\n{blocks_as_markdown(blocks, level + 1)}"


def _field(name: str, said: str) -> str:
    return f"**{_plain(name)}:** {said}" if name else _started(said)


def _table(block: doc.Table) -> str:
    columns = range(len(block.columns))
    rule = "|".join(" ---: " if i in block.numeric else " --- " for i in columns)
    rows = ["| " + " | ".join(map(_plain, block.columns)) + " |", f"|{rule}|"]
    rows += ["| " + " | ".join(map(_cell, cells)) + " |" for cells in block.rows]
    caption = f"**{_plain(block.caption)}**\n\n" if block.caption else ""
    return caption + "\n".join(rows)


def _fenced(text: str, language: str) -> str:
    shown = harmless(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _cell(line: doc.Line) -> str:
    return "".join(_inline(part, in_table=True) for part in line)


def _line(line: doc.Line) -> str:
    return "".join(map(_inline, line)).strip(" ")


def _inline(part: doc.Inline, in_table: bool = False) -> str:
    match part:
        case str():
            return _escaped(doc.spaced(part))
        case doc.Code(text):
            return _code(doc.inline(text), in_table)
        case Phrase(text, Tone.TITLE):
            after = " " if text.endswith(" ") else ""
            return f"**{_plain(text)}**{after}"
        case Phrase(text, tone):
            return f"{sign_of(tone)} {_plain(text)}"
        case doc.Number(_, text):
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
    return _escaped(doc.inline(text))


def _escaped(text: str) -> str:
    return _ACTIVE.sub(r"\\\g<0>", text)


def _started(text: str) -> str:
    """Text at the beginning of a block, where some characters would make a heading or a list."""
    return _OPENS_BLOCK.sub(_unopened, text)


def _unopened(match: re.Match[str]) -> str:
    space, sign = match.groups()
    return f"{space}{sign}\\" if sign.isdigit() else f"{space}\\{sign}"
