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
from astra_tui.model.hunks import unified_diff
from astra_tui.present.document import Diff, Document, bounded, inline, spaced, visible
from astra_tui.present.tones import sign_of

LONGEST_LINE = 2000
"""A source with longer lines stays plain: Pygments' patterns take quadratic time on some texts."""

_STYLE = (Path(__file__).parent / "templates" / "document.css").read_text(encoding="utf-8")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def as_html(document: Document) -> str:
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
        "inline": inline,
        "spaced": spaced,
        "bounded": bounded,
        "coloured": coloured_lines,
        "diff": _diff_lines,
    }
    return made


def coloured_lines(source: str) -> list[Markup]:
    """One piece of HTML a line, without line feeds; as many as the text has line feeds, and one.

    Tokens have Pygments' short classes, which the style sheet colours.
    """
    shown = visible(source)
    if any(len(line) > LONGEST_LINE for line in shown.split("\n")):
        return [Markup.escape(line) for line in shown.split("\n")]
    lexer = CudaLexer(stripnl=False, ensurenl=False)
    made = highlight(shown, lexer, HtmlFormatter(nowrap=True)).split("\n")
    return [Markup(line) for line in made[: shown.count("\n") + 1]]


def _diff_lines(block: Diff) -> list[Markup]:
    """The lines of a diff in colour, after the names of both sources; none where they agree."""
    diff = unified_diff(block.old, block.new, block.old_name, block.new_name)
    old, new = coloured_lines(block.old), coloured_lines(block.new)
    rows: list[Markup] = []
    before = after = 0
    for text in diff.split("\n")[:-1]:
        hunk = _HUNK.match(text)
        if hunk:
            before, after = int(hunk[1]) - 1, int(hunk[2]) - 1
            rows.append(Markup('<span class="hunk">{}</span>').format(text))
        elif not rows:
            continue  # The names of the files.
        elif text.startswith("+"):
            rows.append(Markup("<ins>+{}</ins>").format(new[after]))
            after += 1
        elif text.startswith("-"):
            rows.append(Markup("<del>-{}</del>").format(old[before]))
            before += 1
        elif text.startswith(" "):
            rows.append(Markup(" {}").format(new[after]))
            before, after = before + 1, after + 1
        else:
            rows.append(Markup.escape(text))
    names = Markup.escape(f"--- {block.old_name}"), Markup.escape(f"+++ {block.new_name}")
    return [*names, *rows] if rows else []
