"""How many launches a graph holds: cold means out of L2, memory is shared, replays are long."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.timing.schedule import (
    L2_MULTIPLE,
    MAX_SETS,
    MAX_WARM_LAUNCHES,
    MEMORY_SHARE,
    MIN_LAUNCHES,
    MIN_REPLAY_US,
    cold_size,
    warm_size,
)

US = st.floats(0.01, 1e5)
SET_BYTES = st.integers(0, 1 << 32)
L2_BYTES = st.integers(1 << 12, 1 << 28)
FREE_BYTES = st.integers(0, 1 << 38)
COPIES = st.integers(1, 6)


@given(US, SET_BYTES, L2_BYTES, FREE_BYTES, COPIES)
def test_cold_sets_are_five_times_the_cache_or_said_not_to_be(
    us: float, set_bytes: int, l2: int, free: int, copies: int
) -> None:
    size = cold_size(us, set_bytes, l2, free, copies)
    assert size.is_cold is (size.sets * max(set_bytes, 1) >= L2_MULTIPLE * l2)
    memory = MEMORY_SHARE * free / (max(set_bytes, 1) * copies)
    assert size.is_cold or size.sets == MAX_SETS or size.sets > memory - 2


@given(US, SET_BYTES, L2_BYTES, FREE_BYTES, COPIES)
def test_sets_take_their_share_of_memory_and_no_more(
    us: float, set_bytes: int, l2: int, free: int, copies: int
) -> None:
    size = cold_size(us, set_bytes, l2, free, copies)
    assert size.sets == 2 or size.sets * set_bytes * copies <= MEMORY_SHARE * free * (1 + 1e-9)


@given(US, SET_BYTES, L2_BYTES, FREE_BYTES)
def test_every_launch_has_a_set_of_its_own_and_the_rest_of_the_cache_is_flushed(
    us: float, set_bytes: int, l2: int, free: int
) -> None:
    size = cold_size(us, set_bytes, l2, free)
    assert 2 * size.launches == size.sets, "the long graph has twice the launches"
    assert 2 <= size.sets <= MAX_SETS
    assert size.flush_bytes >= l2


@given(US, st.integers(1, 1 << 20), L2_BYTES)
def test_with_memory_enough_a_replay_is_long(us: float, set_bytes: int, l2: int) -> None:
    size = cold_size(us, set_bytes, l2, 1 << 50)
    assert size.sets == MAX_SETS or size.launches * max(us, 0.1) >= MIN_REPLAY_US
    assert size.launches >= MIN_LAUNCHES


@given(US, SET_BYTES, L2_BYTES, FREE_BYTES)
def test_more_memory_never_makes_a_graph_smaller(
    us: float, set_bytes: int, l2: int, free: int
) -> None:
    assert cold_size(us, set_bytes, l2, 2 * free).sets >= cold_size(us, set_bytes, l2, free).sets


@given(US)
def test_warm_launches_share_one_set_and_nothing_is_flushed(us: float) -> None:
    size = warm_size(us)
    assert (size.sets, size.flush_bytes, size.is_cold) == (1, 0, False)
    assert MIN_LAUNCHES <= size.launches <= MAX_WARM_LAUNCHES
    assert size.launches in (MIN_LAUNCHES, MAX_WARM_LAUNCHES) or math.isclose(
        size.launches * max(us, 0.1), MIN_REPLAY_US, abs_tol=max(us, 0.1)
    )
