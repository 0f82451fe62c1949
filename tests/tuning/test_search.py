"""The search, on times that follow from settings by a rule: a made-up device, no measurement."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.tuning.search import (
    LEAST_TRIALS,
    Candidates,
    Searched,
    places,
    search,
)

BLOCKS, PACKS, UNROLL = (64, 128, 256, 512, 1024), (8, 16, 32, 64), (1, 2, 4)
CHOICES = (UNROLL, BLOCKS, PACKS)
SETTINGS = list(itertools.product(*CHOICES))
WHERE = places(CHOICES, SETTINGS)
WORKLOADS = {"short": 2.0, "middle": 9.0, "long": 80.0}
"""Microseconds that each has to take."""


def rule_us(workload: str, settings: Sequence[int], *, modelled: bool) -> float:
    """What a setting takes: the optimum moves with the workload; the model sees it elsewhere."""
    unroll, block, pack = settings
    floor = WORKLOADS[workload]
    best_block = 6.5 + 0.4 * math.log2(floor) + (0.8 if modelled else 0.0)
    best_pack = 4.0 + (0.5 if modelled else 0.0)
    lost = 0.03 * (math.log2(block) - best_block) ** 2 + 0.04 * (math.log2(pack) - best_pack) ** 2
    if not modelled:
        lost += 0.02 * math.log2(unroll) * (1 if floor < 5 else -1)
    return floor * (1.1 + lost)


@dataclass
class RuleTimes:
    """Times by the rule; asks are kept."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    without: frozenset[int] = frozenset()

    def of(self, workload: str, trials: Sequence[int]) -> Mapping[int, float | None]:
        self.asked += [(workload, t) for t in trials]
        return {
            t: None if t in self.without else rule_us(workload, SETTINGS[t], modelled=False)
            for t in trials
        }


CANDIDATES = tuple(
    Candidates(w, {i: rule_us(w, s, modelled=True) for i, s in enumerate(SETTINGS)})
    for w in WORKLOADS
)


def reached(found: Sequence[Searched]) -> list[float]:
    """The fastest time of all over the fastest found, a workload each."""
    return [
        min(rule_us(s.workload, x, modelled=False) for x in SETTINGS) / s.us[s.best]
        for s in found
        if s.best is not None
    ]


def test_a_tenth_of_the_trials_reaches_99_percent() -> None:
    times = RuleTimes()
    found = search(CANDIDATES, WHERE, times)
    assert math.prod(reached(found)) ** (1 / len(WORKLOADS)) >= 0.99, reached(found)
    assert all(s.tried <= math.ceil(len(SETTINGS) / 10) for s in found)
    assert len(times.asked) == len(set(times.asked)), "no trial is measured twice"
    drawn = random.Random(1)
    for one in CANDIDATES:
        few = drawn.sample(SETTINGS, len(SETTINGS) // 10)
        best = min(rule_us(one.workload, s, modelled=False) for s in SETTINGS)
        assert best / min(rule_us(one.workload, s, modelled=False) for s in few) < 0.99


def test_what_other_workloads_measured_keeps_no_first_choice_away() -> None:
    """Few threads a row let many rows run at once, and are slow where there are few rows."""
    predicted = {trial: 10.0 + trial / 20 for trial in range(8)}
    few, many = (Candidates(w, predicted) for w in ("few rows", "many rows"))
    asked: dict[str, list[int]] = {"few rows": [], "many rows": []}

    class Waves:
        def of(self, workload: str, trials: Sequence[int]) -> Mapping[int, float | None]:
            asked[workload] += trials
            best = {"few rows": trials[-1], "many rows": 0}[workload]
            return {t: 10.0 if t == best else 12.0 if t == 0 else 11.0 for t in trials}

    found = search([few, many], [(t / 7,) for t in range(8)], Waves())
    assert {workload: trials[0] for workload, trials in asked.items()} == dict.fromkeys(asked, 0)
    assert found[1].best == 0


def test_a_search_is_deterministic() -> None:
    first, second = (search(CANDIDATES, WHERE, RuleTimes()) for _ in range(2))
    assert first == second


def test_it_ends_early_where_all_is_the_same() -> None:
    class Flat:
        def of(self, workload: str, trials: Sequence[int]) -> Mapping[int, float | None]:
            return {t: CANDIDATES[0].predicted_us[t] for t in trials}

    (found,) = search(CANDIDATES[:1], WHERE, Flat(), share=1.0)
    assert found.tried < len(SETTINGS)
    best = min(CANDIDATES[0].predicted_us.values())
    assert found.us[found.best or 0] <= 1.002 * best


@given(st.frozensets(st.integers(0, len(SETTINGS) - 1), max_size=len(SETTINGS)))
def test_trials_without_a_time_are_never_the_best(without: frozenset[int]) -> None:
    found = search(CANDIDATES[:1], WHERE, RuleTimes(without=without))[0]
    assert found.best not in without
    assert (found.best is None) == (not found.us)
    assert LEAST_TRIALS <= found.tried <= CANDIDATES[0].budget(0.1)


def test_few_candidates_are_all_tried() -> None:
    few = Candidates("short", {0: 1.0, 5: 2.0})
    found = search([few], WHERE, RuleTimes())[0]
    assert set(found.us) == {0, 5}
    assert search([Candidates("short", {})], WHERE, RuleTimes())[0].best is None
