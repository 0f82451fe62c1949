"""Documents as files: HTML that needs nothing else, no script, font, picture or network; Markdown
with GitHub's tables, for pull requests and terminals, without HTML.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.c_like import CudaLexer

import astra_tui
from astra_tui.model.hunks import HEADER, NO_LINE_FEED, diff_lines, unified_diff
from astra_tui.model.visible import harmless
from astra_tui.present import document as doc
from astra_tui.present.tones import sign_of

LONGEST_LINE = 2000
"""A source with longer lines stays plain: Pygments' patterns take quadratic time on some texts."""

_STYLE = (Path(__file__).parent / "templates" / "document.css").read_text(encoding="utf-8")
_MARKED = {"-": Markup("<del>-{}</del>"), "+": Markup("<ins>+{}</ins>"), " ": Markup(" {}")}
_ACTIVE = re.compile(r"[\\`*\[\]<>&|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.")
_OPENS_BLOCK = re.compile(r"^(\s*)(?:([#+=-])|(\d+)(?=[.)]))")


def as_html(document: doc.Document) -> str:
    """The whole file. Every text of the journal in it is escaped, and only the style sheet acts."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    template = _environment().get_template("document.html.jinja")
    return template.render(
        document=document, style=_STYLE, digest=digest, version=astra_tui.__version__
    )


def as_markdown(document: doc.Document) -> str:
    """The whole file; no text in it makes a link, a tag or a list, and drawings are described."""
    return _environment().get_template("document.md.jinja").render(document=document)


def blocks_as_markdown(blocks: Sequence[doc.Block], level: int) -> str:
    """Parts of a document; headings of sections begin at this level."""
    return _environment().get_template("blocks.md.jinja").render(shown=blocks, level=level)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("astra_tui.present"),
        autoescape=lambda name: ".html" in (name or ""),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "kind": lambda part: type(part).__name__,
        "exact": repr,
        "sign": sign_of,
        "inline": doc.inline,
        "spaced": doc.spaced,
        "bounded": doc.bounded,
        "coloured": coloured_lines,
        "diff": _diff_lines,
        "unified": lambda diff: unified_diff(diff.old, diff.new, diff.old_name, diff.new_name),
        "fenced": _fenced,
        "code": _code,
        "escaped": lambda text: _ACTIVE.sub(r"\\\g<0>", text),
        "started": lambda text: _OPENS_BLOCK.sub(_unopened, text),
    }
    return made


def coloured_lines(source: str) -> list[Markup]:
    """One piece of HTML, without line feeds, for each line; tokens have Pygments' short classes."""
    shown = harmless(source)
    if any(len(line) > LONGEST_LINE for line in shown.split("\n")):
        return [Markup.escape(line) for line in shown.split("\n")]
    lexer = CudaLexer(stripnl=False, ensurenl=False)
    made = highlight(shown, lexer, HtmlFormatter(nowrap=True)).split("\n")
    return [Markup(line) for line in made[: shown.count("\n") + 1]]


def _diff_lines(block: doc.Diff) -> list[Markup]:
    """The lines of a diff in colour, after the names of both sources; none where they agree."""
    old, new = coloured_lines(block.old), coloured_lines(block.new)
    rows: list[Markup] = []
    before = after = 0
    for mark, text in diff_lines(block.old, block.new):
        if mark == HEADER:
            before, after = (int(found) - 1 for found in re.findall(r"[-+](\d+)", text))
            rows.append(Markup('<span class="hunk">@@{}</span>').format(text.rstrip("\n")))
            continue
        rows.append(_MARKED[mark].format(old[before] if mark == "-" else new[after]))
        before, after = before + (mark != "+"), after + (mark != "-")
        if not text.endswith("\n"):
            rows.append(Markup.escape(NO_LINE_FEED))
    names = Markup.escape(f"--- {block.old_name}"), Markup.escape(f"+++ {block.new_name}")
    return [*names, *rows] if rows else []


def _fenced(text: str, language: str) -> str:
    """A block of Markdown in which all of a text is as it is."""
    shown = harmless(text).rstrip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _code(text: str, in_table: bool) -> str:
    """The same within a line."""
    fence = "`" * (_longest_run(text) + 1) if text else ""
    room = " " if text.startswith("`") or text.endswith("`") else ""
    # A table takes its cells apart before it looks at code.
    shown = text.replace("|", r"\|") if in_table else text
    return f"{fence}{room}{shown}{room}{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _unopened(match: re.Match[str]) -> str:
    """What begins a line of Markdown without making a heading or a list of it."""
    space, sign, number = match.groups()
    return f"{space}{number}\\" if number else f"{space}\\{sign}"
