"""A report as one HTML file that needs nothing else: no script, no font, no picture, no network."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import singledispatch
from html import escape
from pathlib import Path

import astra_tui
from astra_tui.model.hunks import unified_diff
from astra_tui.present.document import (
    Badge,
    Block,
    Code,
    Details,
    Diff,
    Document,
    Figure,
    Inline,
    Items,
    Line,
    Link,
    Number,
    Paragraph,
    Quote,
    Section,
    Source,
    Strong,
    Table,
)
from astra_tui.present.report.colour import coloured_lines
from astra_tui.present.report.visible import bounded, inline, spaced
from astra_tui.present.tones import sign_of

_STYLE = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def as_html(document: Document) -> str:
    """The whole file. Every text of the journal in it is escaped, and only the style sheet acts."""
    title = escape(inline(document.title))
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="astra-tui {astra_tui.__version__}">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>"
    )
    entries = "".join(
        f'<li><a href="#{s.anchor}">{escape(inline(s.title))}</a></li>' for s in document.sections
    )
    subtitle = f'<p class="subtitle">{escape(inline(document.subtitle))}</p>'
    body = (
        f"<header>\n<h1>{title}</h1>\n{subtitle}\n"
        f"{_blocks(document.opening, 2)}\n</header>\n"
        f'<nav aria-label="Contents"><ul>{entries}</ul></nav>\n'
        f"<main>\n{_blocks(document.sections, 2)}\n</main>\n"
        f"<footer><p>Written by astra-tui {astra_tui.__version__}.</p></footer>"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _blocks(blocks: tuple[Block, ...], level: int) -> str:
    return "\n".join(_block(block, level) for block in blocks)


@singledispatch
def _block(block: Block, _level: int) -> str:
    raise TypeError(f"no HTML for {type(block).__name__}")


@_block.register
def _(block: Paragraph, _level: int) -> str:
    return f"<p>{_line(block.line)}</p>"


@_block.register
def _(block: Quote, _level: int) -> str:
    return f"<blockquote>{escape(bounded(block.text))}</blockquote>"


@_block.register
def _(block: Items, _level: int) -> str:
    return "<ul>" + "".join(f"<li>{_line(line)}</li>" for line in block.lines) + "</ul>"


@_block.register
def _(block: Table, _level: int) -> str:
    heads = "".join(
        f'<th scope="col"{_right(block, i)}>{escape(c)}</th>' for i, c in enumerate(block.columns)
    )
    rows = []
    for number, cells in enumerate(block.rows):
        anchor = f' id="{block.anchors[number]}"' if block.anchors else ""
        first = f'<th scope="row">{_line(cells[0])}</th>'
        others = "".join(
            f"<td{_right(block, i)}>{_line(cell)}</td>" for i, cell in enumerate(cells) if i
        )
        rows.append(f"<tr{anchor}>{first}{others}</tr>")
    caption = escape(inline(block.caption))
    # What scrolls has to be reachable by keyboard.
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"<caption>{caption}</caption>\n<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
    )


def _right(table: Table, column: int) -> str:
    return ' class="number"' if column in table.numeric else ""


@_block.register
def _(block: Figure, _level: int) -> str:
    title, description = escape(inline(block.title)), escape(inline(block.description))
    return (
        f'<figure><div class="wide" tabindex="0" role="region" aria-label="{title}">{block.svg}'
        f"</div>\n<figcaption><strong>{title}.</strong> {description}</figcaption></figure>"
    )


@_block.register
def _(block: Source, _level: int) -> str:
    return _code("\n".join(coloured_lines(block.text)))


@_block.register
def _(block: Diff, _level: int) -> str:
    diff = unified_diff(block.old, block.new, block.old_name, block.new_name)
    if not diff:
        return "<p>Both sources are the same.</p>"
    old, new = coloured_lines(block.old), coloured_lines(block.new)
    rows: list[str] = []
    before = after = 0
    for text in diff.split("\n")[:-1]:
        hunk = _HUNK.match(text)
        if hunk:
            before, after = int(hunk[1]) - 1, int(hunk[2]) - 1
            rows.append(f'<span class="hunk">{escape(text)}</span>')
        elif not rows:
            continue  # The names of the files.
        elif text.startswith("+"):
            rows.append(f"<ins>+{new[after]}</ins>")
            after += 1
        elif text.startswith("-"):
            rows.append(f"<del>-{old[before]}</del>")
            before += 1
        elif text.startswith(" "):
            rows.append(f" {new[after]}")
            before, after = before + 1, after + 1
        else:
            rows.append(escape(text))
    names = f"--- {escape(block.old_name)}\n+++ {escape(block.new_name)}\n"
    return _code(names + "\n".join(rows))


def _code(content: str) -> str:
    label = "source code"
    return f'<pre tabindex="0" role="region" aria-label="{label}"><code>{content}</code></pre>'


@_block.register
def _(block: Details, level: int) -> str:
    kind = ' class="long"' if block.long else ""
    summary = escape(inline(block.summary))
    return (
        f"<details{kind}><summary>{summary}</summary>\n{_blocks(block.blocks, level)}\n</details>"
    )


@_block.register
def _(block: Section, level: int) -> str:
    title = escape(inline(block.title))
    head = f"<h{level}>{title}</h{level}>"
    return f'<section id="{block.anchor}">\n{head}\n{_blocks(block.blocks, level + 1)}\n</section>'


def _line(line: Line) -> str:
    return "".join(map(_inline, line))


def _inline(part: Inline) -> str:
    match part:
        case str():
            return escape(spaced(part))
        case Code(text):
            return f"<code>{escape(inline(text))}</code>"
        case Strong(text):
            return f"<strong>{escape(spaced(text))}</strong>"
        case Number(value, text):
            return f'<data value="{value!r}">{escape(text)}</data>'
        case Badge(text, tone):
            sign = f'<span aria-hidden="true">{sign_of(tone)}</span> '
            return f'<span class="badge {tone.value}">{sign}{escape(inline(text))}</span>'
        case Link(text, anchor):
            return f'<a href="#{anchor}">{escape(inline(text))}</a>'
