"""Rows of a diff: nothing is lost by folding, and folds open and close."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.hunks import CONTEXT, split_lines
from astra_tui.tui.text.document import PART, document_of
from astra_tui.tui.widgets.diff.alignment import align
from astra_tui.tui.widgets.diff.rows import CodeRow, DiffRows, FoldRow, HeaderRow, Row

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "x = y;\n", "x = z;\n"]), max_size=60)
TEXT = LINES.map("".join)


def layout(old: str, new: str) -> DiffRows:
    return DiffRows(align(old, new), document_of(old), document_of(new))


def hidden(rows: list[Row]) -> int:
    return sum(row.hidden for row in rows if isinstance(row, FoldRow))


def code(rows: list[Row]) -> list[CodeRow]:
    return [row for row in rows if isinstance(row, CodeRow)]


@given(TEXT, TEXT, st.booleans())
def test_each_line_is_shown_once_or_folded(old: str, new: str, side_by_side: bool) -> None:
    rows = layout(old, new).build(side_by_side, {})
    for side, text in enumerate((old, new)):
        lines = [(row.old, row.new)[side] for row in code(rows)]
        shown = [line for line in lines if line >= 0]
        assert shown == sorted(set(shown))
        assert len(shown) + hidden(rows) == len(split_lines(text))


@given(TEXT, TEXT, st.booleans())
def test_unfolded_it_is_the_whole_of_both_texts(old: str, new: str, side_by_side: bool) -> None:
    rows = layout(old, new)
    for gap in range(len(rows.gaps)):
        rows.unfold(gap)
    built = code(rows.build(side_by_side, {}))
    assert [r.old for r in built if r.old >= 0] == list(range(len(split_lines(old))))
    assert [r.new for r in built if r.new >= 0] == list(range(len(split_lines(new))))
    if not side_by_side:
        assert built == list(rows.whole())


@given(TEXT, TEXT)
def test_removed_lines_stand_above_added_ones(old: str, new: str) -> None:
    rows = layout(old, new).build(False, {})
    for above, below in pairwise(rows):
        if isinstance(above, CodeRow) and isinstance(below, CodeRow) and above.changed:
            assert not (above.old < 0 and below.changed and below.new < 0)


def test_folding_leaves_context_and_unfolding_goes_step_by_step() -> None:
    lines = [f"{n}\n" for n in range(100)]
    changed = [*lines[:50], "new\n", *lines[51:]]
    rows = layout("".join(lines), "".join(changed))
    first = rows.build(False, {})
    assert [type(row) for row in first[:1]] == [FoldRow]
    assert hidden(first) == 50 - CONTEXT + 49 - CONTEXT
    rows.unfold(0, 10)
    assert hidden(rows.build(False, {})) == 50 - CONTEXT - 10 + 49 - CONTEXT
    rows.unfold(0)
    assert hidden(rows.build(False, {})) == 49 - CONTEXT
    rows.fold(0)
    assert rows.build(False, {}) == first


@given(st.integers(0, 98), st.integers(0, 98))
def test_a_hidden_line_is_shown_with_its_context_and_no_more(one: int, other: int) -> None:
    lines = [f"{n}\n" for n in range(100)]
    rows = layout("".join(lines), "".join([*lines[:99], "new\n"]))
    rows.unfold_line(one)
    rows.unfold_line(other)
    built = rows.build(False, {})
    shown = {row.new for row in code(built) if row.hunk < 0}
    near = {n for line in (one, other) for n in range(line - CONTEXT, line + CONTEXT + 1)}
    assert near & set(range(99)) <= shown
    assert len(shown) <= 2 * (2 * CONTEXT + 1) + CONTEXT + 2  # a fold hides at least two lines
    assert len(shown) + hidden(built) == 99
    assert all(row.hidden > 1 for row in built if isinstance(row, FoldRow))


def test_equal_texts_have_no_hunk() -> None:
    rows = layout("a\nb\n", "a\nb\n").build(False, {})
    assert not [row for row in rows if isinstance(row, HeaderRow)]


def test_an_overlong_line_takes_several_rows() -> None:
    rows = layout("x\n", "y" * (3 * PART) + "\n").build(True, {})
    assert [row.part for row in code(rows)] == [0, 1, 2]
