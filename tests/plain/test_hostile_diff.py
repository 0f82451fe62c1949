"""The diff at the gate in lines: no text can draw a line of the diff's own, or shift a number.

What the screen shows of the same texts is the measure.
"""

from __future__ import annotations

import re
from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from astra_tui.model.visible import can_act, harmless, visible_line
from astra_tui.present.document import Diff
from astra_tui.present.layout import UNBOUNDED, diff_text
from astra_tui.tui.text.document import document_of
from astra_tui.tui.widgets.diff.alignment import align
from astra_tui.tui.widgets.diff.rows import CodeRow, DiffRows, HeaderRow

ENDS = ["\u2028", "\u2029", "\r", "\x0b", "\x0c", "\x85", "\x1c", "\x1d", "\x1e", "\r\n", "\x1b[1G"]
FORGED = [
    "@@ -1,3 +1,3 @@  (hunk 7)",
    "@@ -1 +1 @@",
    "--- a",
    "+++ b",
    "\\ No newline at end",
    "-x",
]
PIECES = st.sampled_from(
    [*ENDS, *FORGED, "\n", "\n", "\n", "a", "b", "  ", "\t", "«ESC»", "·", "а", "\u202e", "x" * 90]
)
TEXT = st.lists(PIECES, max_size=30).map("".join)
FIXED = [f"// {end}{line}\nint a;\n" for end, line in product(ENDS, FORGED)]

Changes = list[tuple[list[str], list[str]]]
"""Removed and added lines of each hunk, made visible."""


def in_lines(old: str, new: str, columns: int = UNBOUNDED) -> Changes:
    """What the gate in lines shows, read as a terminal draws it."""
    shown = harmless(diff_text(Diff("o", "n", old, new), columns))  # The console does it again.
    assert not any(map(can_act, shown))
    found: Changes = []
    lines = shown.split("\n")[2:] if shown else []
    for line in lines:
        assert len(line) <= columns
        if line.startswith("@@"):
            found.append(([], []))
            assert re.fullmatch(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@  \(hunk \d+\)", line)
            assert line.endswith(f"(hunk {len(found)})")
        elif line[:1] in ("-", "+"):
            kept = found[-1][line[0] == "+"]
            if columns < UNBOUNDED and line[1:3] == "> ":
                kept[-1] += line[3:]
            else:
                kept.append(line[1:])
        else:
            assert line[:1] in (" ", "\\"), line
    return found


def on_screen(old: str, new: str) -> Changes:
    """What the diff pane shows."""
    documents = document_of(old), document_of(new)
    found: Changes = []
    for row in DiffRows(align(old, new), *documents).build(False, {}):
        if isinstance(row, HeaderRow):
            assert row.hunk == len(found)
            found.append(([], []))
        elif isinstance(row, CodeRow) and row.changed and row.part == 0:
            for side, line in enumerate((row.old, row.new)):
                if line >= 0:
                    raw = documents[side].raw(line)
                    found[-1][side].append(visible_line(raw, ()).text)
    return found


def test_a_forged_header_is_a_part_of_its_line() -> None:
    for text in FIXED:
        assert in_lines("int a;\n", text) == on_screen("int a;\n", text)


@settings(max_examples=200)
@given(TEXT, TEXT)
@example("a\nb\nc\nd\ne\nf\ng\nh\ni\n", "A\nb\nc\nd\ne\nf\ng\nh\nI\u2028@@ -1 +1 @@\n")
def test_both_gates_show_the_same_hunks(old: str, new: str) -> None:
    assert in_lines(old, new) == on_screen(old, new)


@settings(max_examples=50)
@given(TEXT, st.integers(30, 80))
def test_a_line_that_a_terminal_would_break_is_broken_behind_its_mark(
    new: str, columns: int
) -> None:
    long = f"int a;{' ' * 70}@@ -1 +1 @@  (hunk 2){new}"
    assert len(in_lines("", long, columns)) == 1
