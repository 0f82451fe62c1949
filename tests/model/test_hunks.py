from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unidiff import Hunk, PatchSet

from astra_tui.model.hunks import (
    apply_hunks,
    hunk_opcodes,
    hunks_of,
    merge_texts,
    split_lines,
    unified_diff,
)

LINES = st.sampled_from(["a", "b", "}", "", "  x = 1;", "crlf\r", "+", "-- a", "\f", "\u2028"])
ENDS = st.sampled_from(["", "\n", "\r\n"])


@st.composite
def texts(draw):
    return "\n".join(draw(st.lists(LINES, max_size=30))) + draw(ENDS)


@st.composite
def pairs(draw):
    """A text and an edited version of it, with changes close together and far apart."""
    old = split_lines(draw(texts()))
    new = list(old)
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 2))] = [
            line + "\n" for line in draw(st.lists(LINES, max_size=2))
        ]
    return "".join(old), "".join(new)


def parsed(diff: str) -> list[Hunk]:
    files = PatchSet(diff)
    return list(files[0]) if len(files) else []


def patched(old: str, diff: str, chosen: set[int]) -> str:
    """What patch(1) makes of the chosen hunks, by the line numbers that the diff itself names."""
    lines, done, result = split_lines(old), 0, []
    for index, hunk in enumerate(parsed(diff)):
        # A hunk that takes no lines names the line before it.
        start = hunk.source_start - (hunk.source_length > 0)
        result += lines[done:start]
        done = start + hunk.source_length
        result += side(hunk, "+" if index in chosen else "-")
    return "".join(result + lines[done:])


def side(hunk: Hunk, sign: str) -> list[str]:
    """The lines of a parsed hunk before ("-") or after ("+") the change."""
    result, last = [], ""
    for line in hunk:
        if line.line_type == "\\" and last in (" ", sign):
            result[-1] = result[-1].removesuffix("\n")
        elif line.line_type in (" ", sign):
            result.append(line.value)
        last = line.line_type
    return result


@settings(deadline=None, max_examples=200)
@given(texts())
def test_lines_make_the_text(text):
    assert "".join(split_lines(text)) == text
    assert all(line.index("\n") == len(line) - 1 for line in split_lines(text)[:-1])


@settings(deadline=None, max_examples=300)
@given(pairs())
def test_all_hunks_make_the_new_text_and_none_the_old(pair):
    old, new = pair
    assert apply_hunks(old, new, range(len(hunks_of(old, new)))) == new
    assert apply_hunks(old, new, ()) == old
    assert (hunks_of(old, new) == ()) == (old == new)


@settings(deadline=None, max_examples=300)
@given(pairs(), st.data())
def test_some_hunks_make_what_patch_makes(pair, data):
    old, new = pair
    count = len(hunks_of(old, new))
    chosen = set(data.draw(st.lists(st.integers(0, count - 1), unique=True))) if count else set()
    diff = unified_diff(old, new, "a.cu", "b.cu")
    assert len(parsed(diff)) == count
    assert apply_hunks(old, new, chosen) == patched(old, diff, chosen)


@settings(deadline=None, max_examples=200)
@given(pairs())
def test_refused_hunks_are_what_is_left(pair):
    old, new = pair
    count = len(hunks_of(old, new))
    for index in range(count):
        without = apply_hunks(old, new, set(range(count)) - {index})
        assert apply_hunks(without, new, range(len(hunks_of(without, new)))) == new


@settings(deadline=None, max_examples=200)
@given(pairs(), pairs(), st.data())
def test_a_merge_has_the_changes_of_both_or_is_none(pair, other_pair, data):
    old, new = pair
    count = len(hunks_of(old, new))
    some = set(data.draw(st.lists(st.integers(0, count - 1), unique=True))) if count else set()
    one, rest = apply_hunks(old, new, some), apply_hunks(old, new, set(range(count)) - some)
    assert merge_texts(old, one, rest) == new
    assert merge_texts(old, new, one) == new
    assert merge_texts(old, new, old) == merge_texts(old, old, new) == new
    other = other_pair[1]
    assert merge_texts(old, new, other) == merge_texts(old, other, new)


def test_changes_of_the_same_lines_or_of_lines_that_touch_are_not_merged():
    old = "a\nb\nc\nd\n"
    assert merge_texts(old, "x\nb\nc\nd\n", "a\nb\nc\nz\n") == "x\nb\nc\nz\n"
    assert merge_texts(old, "x\nb\nc\nd\n", "y\nb\nc\nd\n") is None
    assert merge_texts(old, "x\nb\nc\nd\n", "a\ny\nc\nd\n") is None
    assert merge_texts(old, "a\nx\nb\nc\nd\n", "a\ny\nb\nc\nd\n") is None


def test_changes_far_apart_are_taken_alone():
    old = "".join(f"{n}\n" for n in range(20))
    new = old.replace("3\n", "three\n", 1).replace("\n15\n", "\nfifteen\n")
    assert len(hunks_of(old, new)) == 2
    assert apply_hunks(old, new, {1}) == old.replace("\n15\n", "\nfifteen\n")


@pytest.mark.parametrize(
    ("old", "new"), [("", "a"), ("a", ""), ("a", "a\n"), ("a\r\nb", "a\nb"), ("", "\n")]
)
def test_small_texts_have_one_hunk(old, new):
    assert len(hunks_of(old, new)) == 1
    diff = unified_diff(old, new, "a.cu", "b.cu")
    assert patched(old, diff, {0}) == new
    assert patched(old, diff, set()) == old


@pytest.mark.parametrize("index", [-1, 1])
def test_hunks_that_are_not_there(index):
    with pytest.raises(IndexError, match="1 hunks"):
        apply_hunks("a\n", "b\n", {index})


@given(pairs())
def test_hunks_are_those_that_difflib_finds(pair: tuple[str, str]) -> None:
    old, new = pair
    matcher = difflib.SequenceMatcher(None, split_lines(old), split_lines(new), autojunk=False)
    changes = [
        [opcode for opcode in group if opcode[0] != "equal"]
        for group in matcher.get_grouped_opcodes(3)
    ]
    found = [[o for o in opcodes if o[0] != "equal"] for opcodes in hunk_opcodes(old, new)]
    assert found == changes


def test_a_long_text_with_many_equal_lines_has_the_same_hunks_in_a_patch() -> None:
    old = "".join(f"{n}\n}}\n" for n in range(150))
    new = "".join(f"{n}\n}}\n" if n % 40 else "}\n}\n" for n in range(150))
    assert len(parsed(unified_diff(old, new, "a", "b"))) == len(hunks_of(old, new)) == 4
