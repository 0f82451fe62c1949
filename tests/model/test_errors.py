"""Messages that a user can act on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.errors import Place, UserError, nearest

from .helpers import PROPERTY


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UserError("no"), "no"),
        (UserError("no", hint="do this"), "no\n  do this"),
        (UserError("no", file="a.cu"), "a.cu: no"),
        (UserError("no", file="a.cu", place=Place(3)), "a.cu:3: no"),
        (UserError("no", file="a.cu", place=Place(3, 4)), "a.cu:3:4: no"),
        (UserError("no", file="a.cu", place=Place(0, 4)), "a.cu: no"),
        (UserError("no", place=Place(3, 4)), "3:4: no"),
        (UserError("no", file="a.cu", place=Place(3, 4), hint="do"), "a.cu:3:4: no\n  do"),
    ],
)
def test_an_error_says_where_what_and_what_to_do(error: UserError, text: str) -> None:
    assert error.describe() == text
    assert str(error) == text


def test_an_error_keeps_its_parts() -> None:
    error = UserError("no", file="a.cu", hint="do")
    assert (error.message, error.file, error.place, error.hint) == ("no", "a.cu", Place(), "do")


def test_the_nearest_name_is_offered() -> None:
    assert nearest("blok", ["grid", "block", "args"]) == "did you mean 'block'?"
    assert nearest("tokens", ["token", "d"]) == "did you mean 'token'?"


def test_all_names_are_listed_in_order_when_none_is_near() -> None:
    assert nearest("zzz", ["grid", "block", "grid"]) == "valid names: block, grid"
    assert nearest("zzz", []) == "no names are valid here"


@PROPERTY
@given(st.text(max_size=10), st.lists(st.text(min_size=1, max_size=10)))
def test_what_is_offered_is_valid(name: str, valid: list[str]) -> None:
    hint = nearest(name, valid)
    if hint.startswith("did you mean '"):
        assert hint.removeprefix("did you mean '").removesuffix("'?") in valid
    else:
        assert all(other in hint for other in valid)
