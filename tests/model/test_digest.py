from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model.digest import digest_of
from astra_tui.model.fold import fold
from astra_tui.model.state import Usage
from tests.sessions.samples import whole_session


class Old(msgspec.Struct, frozen=True):
    name: str
    numbers: dict[str, float]


class New(msgspec.Struct, frozen=True):
    name: str
    numbers: dict[str, float]
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    missing: dict[str, str] = msgspec.field(default_factory=dict)


class One(msgspec.Struct, frozen=True, tag="one"):
    value: int


class Two(msgspec.Struct, frozen=True, tag="two"):
    value: int


@given(st.text(max_size=5), st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False)))
def test_fields_that_came_later_change_nothing_while_they_have_their_default(name, numbers):
    new = New(name, numbers)
    assert digest_of(Old(name, numbers)) == digest_of(new)
    assert digest_of(replace(new, seconds=1.0)) != digest_of(new)
    assert digest_of(replace(new, notes=("",))) != digest_of(new)


def test_kinds_and_numbers_are_told_apart_and_orders_of_keys_are_not():
    assert digest_of(One(1)) != digest_of(Two(1))
    assert digest_of(Old("", {"a": 1.0, "b": 2.0})) == digest_of(Old("", {"b": 2.0, "a": 1.0}))
    assert digest_of(Old("", {"a": 1.0})) != digest_of(Old("", {"a": math.nextafter(1.0, 2)}))


def test_every_part_of_a_session_counts():
    state = fold(whole_session())
    changed = [
        replace(state, usage=Usage(calls=7)),
        replace(state, best="x"),
        replace(state, rounds=state.rounds[:-1]),
        replace(state, notes=()),
        replace(state, candidates={}),
    ]
    assert len({digest_of(s) for s in (state, *changed)}) == 1 + len(changed)
