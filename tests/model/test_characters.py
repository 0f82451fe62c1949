"""Characters that could change how others are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.visible import can_act, harmless

ACTING = "\0\x07\x1b\x7f\x85\r\u00a0\u00ad\u061c\u200b\u200e\u2028\u202e\u2066\ufeff\u0301"


@pytest.mark.parametrize("character", ACTING)
def test_what_acts_is_known(character):
    assert can_act(character)


@pytest.mark.parametrize("character", "aZ09~é中→ \n\t")
def test_what_is_drawn_is_left_alone(character):
    assert not can_act(character)


@given(st.text())
def test_nothing_that_acts_is_printed(text):
    assert not any(map(can_act, harmless(text)))
