"""Equal blocks: the same as difflib's, for any two sequences."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from astra_tui.model import matching
from astra_tui.model.matching import Block, count_passes, matching_blocks

FEW = st.text("ab", max_size=40)
SOME = st.text("abcde\n", max_size=60)


def by_difflib(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [(i, j, size) for i, j, size in matcher.get_matching_blocks()]


@given(st.tuples(FEW, FEW) | st.tuples(SOME, SOME))
@example(("aab", "abaab"))
@example(("abab", "baba"))
def test_blocks_are_those_of_difflib(texts: tuple[str, str]) -> None:
    assert matching_blocks(*texts) == by_difflib(*texts)


@given(st.lists(st.integers(0, 9), max_size=12), st.data())
def test_blocks_of_an_edited_text_that_repeats_itself(
    edits: list[int], data: st.DataObject
) -> None:
    old = "function { a b c } " * 6
    new = old
    for edit in edits:
        at = data.draw(st.integers(0, len(new)))
        new = new[:at] + "ab} "[: edit % 4] + new[at + edit :]
    assert matching_blocks(old, new) == by_difflib(old, new)


def test_a_run_that_crosses_a_block_is_found_in_its_parts() -> None:
    """Its ends lie in two gaps, and what is between them in neither."""
    old, new = "pqXYZWrs", "pqXYZW-pq--rsXYZW"
    assert matching_blocks(old, new) == by_difflib(old, new)


def test_with_too_many_equal_items_difflib_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MAX_PASSES", 3)
    assert count_passes("aa", "aa") == 4
    assert matching_blocks("aab", "aac") == by_difflib("aab", "aac")
