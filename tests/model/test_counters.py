"""Counts add up in any order, and rank versions by traffic first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.counters import AccessCount, Counters, LineCount, add_counters

from .helpers import PROPERTY

_COUNTS = st.integers(0, 1 << 40)
_LINES = st.integers(1, 4)


@st.composite
def counted(draw: Callable[..., Any]) -> Counters:
    """Counters as the emulator gives them: each line and kind of access once, in order."""
    kinds = st.tuples(
        _LINES,
        st.sampled_from(("global", "shared")),
        st.sampled_from(("load", "store", "atomic")),
        st.sampled_from((1, 2, 4, 8, 16)),
    )
    accesses = [
        AccessCount(*kind, *draw(st.tuples(_COUNTS, _COUNTS, _COUNTS, _COUNTS)))
        for kind in sorted(draw(st.sets(kinds, max_size=4)))
    ]
    lines = [
        LineCount(line, *draw(st.tuples(_COUNTS, _COUNTS, _COUNTS, _COUNTS)))
        for line in sorted(draw(st.sets(_LINES, max_size=3)))
    ]
    compiler = draw(st.sampled_from(("", "NVRTC 13.0 (13.0.48)", "NVRTC 13.5 (13.5.37)")))
    return Counters(tuple(accesses), tuple(lines), compiler)


def access(space: str = "global", direction: str = "load", **counts: int) -> AccessCount:
    fields = {"requests": 0, "sectors": 0, "bytes": 0, "conflicts": 0, **counts}
    return AccessCount(1, space, direction, 4, **fields)


EXAMPLE = Counters(
    accesses=(
        access(requests=1, sectors=4, bytes=128),
        access(direction="store", requests=2, sectors=16, bytes=128),
        access("shared", requests=8, bytes=999, conflicts=3),
        access("shared", "store", requests=16, conflicts=4),
    ),
    lines=(LineCount(1, 10, 320, 1, 2), LineCount(2, 5, 7, 3, 4)),
)


def test_totals_are_of_one_space() -> None:
    assert (EXAMPLE.requests, EXAMPLE.sectors, EXAMPLE.bytes) == (3, 20, 256)
    assert (EXAMPLE.shared_requests, EXAMPLE.bank_conflicts) == (24, 7)
    assert (EXAMPLE.warp_instructions, EXAMPLE.barriers, EXAMPLE.shuffles) == (15, 4, 6)


def test_totals_may_be_of_one_direction() -> None:
    assert EXAMPLE.total("sectors", direction="store") == 16
    assert EXAMPLE.total("conflicts", "shared", "load") == 3
    assert EXAMPLE.total("sectors", direction="atomic") == 0


def test_efficiency_is_bytes_asked_for_over_bytes_moved() -> None:
    assert EXAMPLE.sector_efficiency == 256 / (20 * 32)
    assert Counters((access(sectors=4, bytes=128),)).sector_efficiency == 1.0
    assert Counters((access(sectors=32, bytes=128),)).sector_efficiency == 0.125
    assert Counters().sector_efficiency == 1.0


def test_versions_are_ranked_by_sectors_then_requests_then_instructions() -> None:
    def version(sectors: int, requests: int, instructions: int) -> Counters:
        return Counters(
            (access(sectors=sectors, requests=requests), access("shared", requests=99)),
            (LineCount(1, instructions, 0, 0, 0),),
        )

    ranked = [version(1, 9, 9), version(2, 1, 9), version(2, 2, 1), version(2, 2, 2)]
    mixed = [ranked[2], ranked[0], ranked[3], ranked[1]]
    assert sorted(mixed, key=Counters.ranking_key) == ranked
    assert version(1, 2, 3).ranking_key() == (1, 2, 3)


def test_the_same_line_and_kind_of_access_is_added_up() -> None:
    assert add_counters([EXAMPLE, EXAMPLE]).accesses == tuple(
        AccessCount(a.line, a.space, a.direction, a.width, *(2 * n for n in numbers))
        for a in sorted(EXAMPLE.accesses, key=lambda a: (a.space, a.direction))
        for numbers in [(a.requests, a.sectors, a.bytes, a.conflicts)]
    )
    assert add_counters([EXAMPLE, EXAMPLE]).lines == (
        LineCount(1, 20, 640, 2, 4),
        LineCount(2, 10, 14, 6, 8),
    )


def test_nothing_adds_up_to_nothing() -> None:
    assert add_counters([]) == Counters()


def test_each_compiler_is_named_once() -> None:
    one, other = Counters(compiler="NVRTC 13.5"), Counters(compiler="NVRTC 13.0")
    assert add_counters([one, one, Counters()]).compiler == "NVRTC 13.5"
    both = add_counters([one, other])
    assert both.compiler == "NVRTC 13.0 and NVRTC 13.5"
    assert add_counters([both, one]) == both


@PROPERTY
@given(st.lists(counted(), max_size=4), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(several: list[Counters], random: Any) -> None:
    shuffled = list(several)
    random.shuffle(shuffled)
    assert add_counters(shuffled) == add_counters(several)


@PROPERTY
@given(counted(), counted(), counted())
def test_the_grouping_does_not_matter(a: Counters, b: Counters, c: Counters) -> None:
    at_once = add_counters([a, b, c])
    assert add_counters([add_counters([a, b]), c]) == at_once
    assert add_counters([a, add_counters([b, c])]) == at_once


@PROPERTY
@given(counted())
def test_counters_alone_or_beside_none_are_themselves(counters: Counters) -> None:
    assert add_counters([counters]) == counters
    assert add_counters([Counters(), counters]) == counters


@PROPERTY
@given(st.lists(counted(), max_size=4))
def test_totals_of_a_sum_are_sums_of_totals(several: list[Counters]) -> None:
    total = add_counters(several)
    for name in ("requests", "sectors", "bytes", "bank_conflicts", "warp_instructions", "barriers"):
        assert getattr(total, name) == sum(getattr(c, name) for c in several)
