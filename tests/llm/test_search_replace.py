"""Changes as SEARCH/REPLACE blocks."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from astra_tui.llm import BadAnswer, Truncated
from astra_tui.llm.search_replace import Block, apply_blocks, read_blocks

SOURCE = """\
__global__ void twice(float* x, int n) {
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    x[i] *= 2.0f;
  }
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    x[i] += 1.0f;
  }
}
"""
ANSWER = """\
I change the factor.

<<<<<<< SEARCH
    x[i] *= 2.0f;
=======
    x[i] *= 3.0f;
    x[i] -= 1.0f;
>>>>>>> REPLACE
"""


def test_blocks_are_read_and_done() -> None:
    blocks = read_blocks(ANSWER)
    assert blocks == (Block("    x[i] *= 2.0f;\n", "    x[i] *= 3.0f;\n    x[i] -= 1.0f;\n"),)
    changed = apply_blocks(SOURCE, blocks)
    assert changed == SOURCE.replace("*= 2.0f;", "*= 3.0f;\n    x[i] -= 1.0f;")


def test_a_fence_and_crlf_do_not_matter() -> None:
    assert read_blocks(f"```cuda\n{ANSWER}```".replace("\n", "\r\n")) == read_blocks(ANSWER)


def test_lines_can_be_deleted() -> None:
    assert apply_blocks("a\nb\nc\n", (Block("b\n", ""),)) == "a\nc\n"


def test_blocks_work_on_the_result_of_those_before() -> None:
    assert apply_blocks("a\n", (Block("a\n", "b\n"), Block("b\n", "c\n"))) == "c\n"


def test_spaces_at_line_ends_do_not_count() -> None:
    assert apply_blocks("a  \nb\n", (Block("a\nb \n", "c\n"),)) == "c\n"


def test_part_of_a_line_is_no_match() -> None:
    with pytest.raises(BadAnswer, match="0 times"):
        apply_blocks("int xy;\n", (Block("int x\n", ""),))


def test_two_matches_are_refused_with_their_lines() -> None:
    with pytest.raises(BadAnswer, match="matches 2 times, at lines 2, 6"):
        apply_blocks(SOURCE, (Block("#pragma unroll 1\n", "#pragma unroll\n"),))


def test_no_match_shows_the_nearest_lines() -> None:
    wrong = Block("  for (int i = 0; i < n; ++i) {\n    x[i] *= 4.0f;\n  }\n", "")
    with pytest.raises(BadAnswer, match="matches 0 times") as caught:
        apply_blocks(SOURCE, (wrong,))
    assert "3:   for (int i = 0; i < n; ++i) {\n4:     x[i] *= 2.0f;" in caught.value.message


def test_a_line_that_is_nearly_right_is_shown() -> None:
    with pytest.raises(BadAnswer, match="4:     x"):
        apply_blocks(SOURCE, (Block("    x[i] *= 2.5f;\n", ""),))


def test_one_bad_block_stops_all() -> None:
    with pytest.raises(BadAnswer, match="block 2"):
        apply_blocks("a\n", (Block("a\n", "b\n"), Block("nothing like it\n", "")))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("no blocks", "no SEARCH/REPLACE block"),
        ("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "line 3 .* out of order"),
        ("<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n", "line 3 .* out of order"),
        ("<<<<<<< SEARCH\na\n=======\nb\n=======\n>>>>>>> REPLACE\n", "line 5 .* out of order"),
    ],
)
def test_wrong_blocks_are_refused(answer: str, reason: str) -> None:
    with pytest.raises(BadAnswer, match=reason):
        read_blocks(answer)


def test_an_empty_search_is_refused() -> None:
    with pytest.raises(BadAnswer, match="searches for nothing"):
        apply_blocks(SOURCE, read_blocks("<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE"))


@pytest.mark.parametrize(
    "cut", range(len("I change the factor.\n\n<<<<<<< SEARCH\n"), len(ANSWER) - 2)
)
def test_a_cut_answer_is_never_done(cut: int) -> None:
    with pytest.raises((Truncated, BadAnswer)):
        read_blocks(ANSWER[:cut])


PLAIN = st.lists(
    st.text(alphabet=st.characters(exclude_characters="\r\n<>=")), min_size=1, max_size=8
).map(lambda lines: "".join(f"{line}\n" for line in lines))


def write_blocks(blocks: tuple[Block, ...]) -> str:
    """The text of some blocks; `read_blocks` reads it back."""
    return "".join(
        f"<<<<<<< SEARCH\n{block.search}=======\n{block.replace}>>>>>>> REPLACE\n"
        for block in blocks
    )


@given(st.lists(st.builds(Block, PLAIN, PLAIN), min_size=1).map(tuple))
def test_blocks_are_read_back(blocks: tuple[Block, ...]) -> None:
    assert read_blocks(write_blocks(blocks)) == blocks


@given(st.lists(st.text(alphabet="ab {};"), min_size=1, unique_by=str.rstrip), st.data())
def test_a_block_changes_its_lines_and_no_others(lines: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    search = "".join(f"{line}\n" for line in lines[first : last + 1])
    assume(search.strip())
    changed = apply_blocks("\n".join(lines), (Block(search, "new\n"),))
    assert changed.split("\n") == [*lines[:first], "new", *lines[last + 1 :]]


PARTS = ["<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "a", "b", "", "  a"]


@given(st.lists(st.sampled_from(PARTS)), st.lists(st.sampled_from("ab")))
def test_nothing_but_its_own_errors_is_raised(answer: list[str], source: list[str]) -> None:
    with suppress(BadAnswer, Truncated):
        assert isinstance(apply_blocks("\n".join(source), read_blocks("\n".join(answer))), str)
