"""Documents as lines: within any width every word is there, and whole where it fits on a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.present.document import Block, Number, fields, paragraphs, table
from astra_tui.present.layout import UNBOUNDED, Layout, line_cells, line_text
from astra_tui.tui.text_layout import Page

WORDS = st.text("abcdefgh", min_size=1, max_size=18)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4)


def lines_of(blocks: list[Block], layout: Layout) -> list[str]:
    layout.blocks(blocks)
    assert all(line_cells(line) <= layout.width for line in layout.lines)
    return [line_text(line).rstrip() for line in layout.lines]


@given(ROWS, st.integers(20, 120), st.booleans(), st.sampled_from([Layout, Page]))
def test_no_word_is_broken_that_fits_on_a_line(
    rows: list[tuple[str, str, str]], width: int, named: bool, layout: type[Layout]
) -> None:
    names = ("first", "second", "third") if named else ("", "", "")
    blocks = [table(names, rows), *paragraphs(*(row[0] for row in rows))]
    said = [word for row in rows for cell in (*row, row[0]) for word in cell.split()]
    told = " ".join(lines_of(blocks, layout(width))).split()
    assert sorted(word for word in told if word not in names) == sorted(said)


def test_numbers_stay_whole_and_follow_by_name_where_columns_have_no_room() -> None:
    found = table(("kernel", "base us", "cand. us"), [("fused", Number(1.5, "1.50 us"), 20)])
    assert lines_of([found], Layout(40)) == [
        "kernel  base us  cand. us",
        "fused   1.50 us        20",
    ]
    assert lines_of([found], Layout(22)) == [
        "kernel  base us  cand.",
        "                    us",
        "fused   1.50 us     20",
    ]
    assert lines_of([found], Layout(21)) == ["fused  base us 1.50", "  us  cand. us 20"]


def test_optional_columns_for_which_there_is_no_room_are_a_table_of_their_own() -> None:
    rows = [("one", "cold", 1, 20), ("two", "warm", 2, None)]
    found = table(("workload", "protocol", "pairs", "launches"), rows, optional=1)
    assert lines_of([found], Layout(30)) == [
        "workload  protocol  pairs",
        "one       cold          1",
        "two       warm          2",
        "",
        "workload  protocol  launches",
        "one       cold            20",
    ]


@pytest.mark.parametrize("width", [30, UNBOUNDED])
def test_a_path_stays_whole_so_that_it_can_be_copied(width: int) -> None:
    path = "/home/ada/sessions/2026-01-31-silu"
    told = Layout(width)
    told.blocks([fields({"task": "silu_and_mul", "session": path})])
    lines = [line_text(line).rstrip() for line in told.lines]
    assert lines[0] == "task     silu_and_mul"
    assert any(line.split()[-1] == path for line in lines)


def test_further_lines_are_set_in() -> None:
    text = "  one two three four"
    assert lines_of([*paragraphs(text)], Layout(14)) == ["  one two", "    three four"]
    assert lines_of([*paragraphs(text)], Page(14)) == ["  one two", "  three four"]
