"""A document as one HTML file that needs nothing else: no script, font, picture or network."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.c_like import CudaLexer

import astra_tui
from astra_tui.model.hunks import HEADER, NO_LINE_FEED, diff_lines
from astra_tui.model.visible import harmless
from astra_tui.present import document as doc
from astra_tui.present.tones import sign_of

LONGEST_LINE = 2000
"""A source with longer lines stays plain: Pygments' patterns take quadratic time on some texts."""

_STYLE = (Path(__file__).parent / "templates" / "document.css").read_text(encoding="utf-8")
_MARKED = {"-": Markup("<del>-{}</del>"), "+": Markup("<ins>+{}</ins>"), " ": Markup(" {}")}


def as_html(document: doc.Document) -> str:
    """The whole file. Every text of the journal in it is escaped, and only the style sheet acts."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    template = _environment().get_template("document.html.jinja")
    return template.render(
        document=document, style=_STYLE, digest=digest, version=astra_tui.__version__
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("astra_tui.present"),
        autoescape=True,
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
    }
    return made


def coloured_lines(source: str) -> list[Markup]:
    """One piece of HTML a line, without line feeds; as many as the text has line feeds, and one.

    Tokens have Pygments' short classes, which the style sheet colours.
    """
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
