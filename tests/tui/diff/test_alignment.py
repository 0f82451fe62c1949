"""Lines opposite each other: every line once, in order, with the hunks of the model."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.hunks import apply_hunks, hunks_of, split_lines
from astra_tui.tui.widgets.diff.alignment import (
    align,
    is_quick,
)
from astra_tui.tui.widgets.diff.alignment_process import align_in_process
from astra_tui.tui.widgets.diff.canvas import MAX_TOKENS, emphasis_of

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c = d;\n", "c = e;\n", "\n", "}\n"]), max_size=30)
TEXT = LINES.map("".join)


@given(TEXT, TEXT)
def test_each_line_of_a_hunk_stands_in_one_pair(old: str, new: str) -> None:
    alignment = align(old, new)
    assert alignment.hunks == hunks_of(old, new)
    before, after = split_lines(old), split_lines(new)
    for hunk, pairs in zip(alignment.hunks, alignment.pairs, strict=True):
        assert [p.old for p in pairs if p.old >= 0] == list(range(hunk.old_start, hunk.old_end))
        assert [p.new for p in pairs if p.new >= 0] == list(range(hunk.new_start, hunk.new_end))
        for pair in pairs:
            same = min(pair.old, pair.new) >= 0 and before[pair.old] == after[pair.new]
            assert pair.changed or same


@given(TEXT, TEXT, st.sets(st.integers(0, 9)))
def test_the_lines_of_accepted_hunks_make_the_text_that_the_model_makes(
    old: str, new: str, wanted: set[int]
) -> None:
    alignment = align(old, new)
    accepted = wanted & set(range(len(alignment.hunks)))
    before, after = split_lines(old), split_lines(new)
    made, done = [], 0
    for index, (hunk, pairs) in enumerate(zip(alignment.hunks, alignment.pairs, strict=True)):
        made += before[done : hunk.old_start]
        if index in accepted:
            made += [after[p.new] for p in pairs if p.new >= 0]
        else:
            made += [before[p.old] for p in pairs if p.old >= 0]
        done = hunk.old_end
    assert "".join(made + before[done:]) == apply_hunks(old, new, accepted)


def test_lines_that_share_most_words_stand_beside_each_other() -> None:
    (pairs,) = align("float a = x[i];\n", "int n = 8;\nfloat a = __ldg(x + i);\n").pairs
    assert [(p.old, p.new) for p in pairs] == [(-1, 0), (0, 1)]


def test_another_process_comes_to_the_same() -> None:
    old, new = "a\n\ud800\nc\n", "a\n\udfff\x00\nd\nc"
    assert asyncio.run(align_in_process(old, new)) == align(old, new)


def test_a_comparison_that_is_not_wanted_any_more_ends() -> None:
    old, new = "}\na\n" * 1500, "}\nb\n" * 1500
    assert not is_quick(old, new)

    async def cancelled() -> None:
        task = asyncio.create_task(align_in_process(old, new))
        await asyncio.sleep(0)
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], BaseException)

    asyncio.run(cancelled())


def test_emphasis_marks_the_words_that_differ() -> None:
    old, new = "x = gate[i];", "x = __ldg(&gate[i]);"
    removed, added = emphasis_of(old, new)
    assert removed == ()
    assert [new[a:b] for a, b in added] == ["__ldg(&", ")"]


@given(st.text("ab ;", max_size=40), st.text("ab ;", max_size=40))
def test_what_is_not_emphasised_is_the_same_on_both_sides(old: str, new: str) -> None:
    removed, added = emphasis_of(old, new)
    if removed or added:
        assert without(old, removed) == without(new, added)


def without(text: str, ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(c for i, c in enumerate(text) if not any(a <= i < b for a, b in ranges))


def test_emphasis_is_bounded_and_needs_likeness() -> None:
    long = "a " * MAX_TOKENS
    assert emphasis_of(long, long + "b") == ((), ())
    assert emphasis_of("int a = b;", "return __shfl_down(v, 1)") == ((), ())
