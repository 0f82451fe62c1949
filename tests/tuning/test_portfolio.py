"""Winners of single workloads as one source: which pay, where, and the plan that says so.

Gains are made up here; none was measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.emulator.device import Emulator
from astra_tui.engine.sweeping import joined_in_turn
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.tuning.portfolio import (
    Portfolio,
    best_on_average,
    portfolio,
    refined,
    words,
)
from astra_tui.lab.tuning.sweep import TrialTime
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.launch import plan_of, print_expression
from astra_tui.model.launch.expression import Compare, Integer, Name
from astra_tui.model.plan import Counter
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import SecondParent
from astra_tui.playbook import Evidence, NotApplicable, Proposal, propose_all
from astra_tui.playbook.portfolio import CannotJoin, Part, joined
from astra_tui.playbook.propose import propose_as_set
from astra_tui.playbook.space import space_of
from tests.conftest import OracleHere

SIZES = {
    "16x4096": {"tokens": 16, "d": 4096},
    "16x12288": {"tokens": 16, "d": 12288},
    "256x11008": {"tokens": 256, "d": 11008},
    "4096x14336": {"tokens": 4096, "d": 14336},
}


def gain(trial: int, percent: float, width: float = 0.2) -> TrialTime:
    ratio = 1 + percent / 100
    return TrialTime(trial, 1.0, ratio, ratio - width / 100, ratio + width / 100)


def gains(trial: int, *percents: float) -> Mapping[str, TrialTime]:
    return {w: gain(trial, p) for w, p in zip(SIZES, percents, strict=True)}


def conditions(found: Portfolio) -> dict[int, str]:
    return {p.trial: print_expression(p.condition) for p in found.parts}


@pytest.mark.parametrize("default", [0, 2])
def test_what_does_not_pass_its_check_is_tried_with_fewer_branches(default: int) -> None:
    of_default = gains(default, 0, 0, 0, 0)
    found = portfolio(
        default, SIZES, {default: of_default, 1: gains(1, 0, 0, 0, 4), 3: gains(3, 6, 0, 0, 0)}
    )
    whole, *fewer = found.to_try(0)
    assert whole == found
    assert [p.trial for p in found.parts] == [3, 1]
    assert [[p.trial for p in one.parts] for one in fewer] == [[3], []][: 1 + (default != 0)]
    assert [set(one.dropped) for one in fewer] == [{1}, {1, 3}][: len(fewer)]
    assert {one.default for one in fewer} == {default}
    assert not list(Portfolio(0, (), {}).to_try(0))


def test_a_branch_pays_only_where_its_gain_exceeds_its_interval() -> None:
    found = portfolio(
        0, SIZES, {1: gains(1, 3.0, 2.0, -1.0, -2.0), 2: gains(2, 0.4, 0.4, 0.4, 0.4)}
    )
    assert conditions(found) == {1: "tokens <= 64"}
    (part,) = found.parts
    assert set(part.gains) == {"16x4096", "16x12288"}
    assert words(part) == "3.0 % [2.8, 3.2] at 16x4096; 2.0 % [1.8, 2.2] at 16x12288"
    wide = {1: {"16x4096": gain(1, 3.0, width=4.0)}}
    assert portfolio(0, SIZES, wide).parts == ()


def test_each_winner_serves_what_it_wins_and_keeps_out_of_what_it_loses() -> None:
    found = portfolio(
        0, SIZES, {1: gains(1, 5.0, 1.0, 0.0, -3.0), 2: gains(2, -5.0, 3.0, 2.0, -1.0)}
    )
    serving = {
        w: next((p.trial for p in found.parts if p.serves(dims)), 0) for w, dims in SIZES.items()
    }
    assert serving == {"16x4096": 1, "16x12288": 2, "256x11008": 2, "4096x14336": 0}


def test_what_no_condition_tells_apart_is_dropped_and_said() -> None:
    same = {"a": {"n": 8}, "b": {"n": 8}, "c": {"n": 9}}
    found = portfolio(0, same, {1: {"a": gain(1, 5.0), "b": gain(1, -5.0), "c": gain(1, -5.0)}})
    assert found.parts == ()
    assert "no condition on sizes tells a from" in found.dropped[1]


@given(st.lists(st.lists(st.floats(-9, 9), min_size=4, max_size=4), min_size=1, max_size=4))
def test_no_measured_workload_is_served_by_what_loses_there(table: list[list[float]]) -> None:
    every = {n: gains(n, *row) for n, row in enumerate(table, start=1)}
    for part in (found := portfolio(0, SIZES, every)).parts:
        assert part.gains, "a part has a workload on which it pays"
        for workload, dims in SIZES.items():
            if next((p for p in found.parts if p.serves(dims)), None) is part:
                assert part.gains.get(workload, every[part.trial][workload]).high >= 1 - 0.003


def test_thresholds_move_to_what_is_measured_between() -> None:
    (part,) = portfolio(0, SIZES, {1: gains(1, 3.0, 2.0, -1.0, -2.0)}).parts
    asked: list[Mapping[str, int]] = []

    async def measured(dims: Mapping[str, int]) -> TrialTime:
        asked.append(dims)
        return gain(1, 3.0 if dims["tokens"] <= 100 else -3.0)

    moved = asyncio.run(refined(part, SIZES, measured))
    assert [d["tokens"] for d in asked] == [64, 128]
    assert [b.value for b in moved.bounds] == [91]
    assert all(d["d"] % 64 == 0 for d in asked)

    async def refuses(_: Mapping[str, int]) -> None:
        return None

    assert asyncio.run(refined(part, SIZES, refuses)) == part


def test_the_default_is_the_best_on_average_of_those_timed_everywhere() -> None:
    some = {w: t for w, t in gains(3, 9.0, 9.0, 9.0, 9.0).items() if w != "16x4096"}
    times = {0: gains(0, 0, 0, 0, 0), 1: gains(1, 5, 5, -1, -1), 3: some}
    same = dict.fromkeys(times[0], 1.0)
    assert best_on_average(times, 0, same) == 1
    noise = {**times, 1: gains(1, 0.4, 0.4, 0.4, 0.4)}
    assert best_on_average(noise, 0, same) == 0, "within noise"
    slower = {name: 9.0 for name, gain in times[1].items() if gain.speedup < 1}
    assert best_on_average(times, 0, same | slower) == 0, "slower where it counts"


def test_a_joined_source_launches_each_part_where_its_condition_holds(
    quick_task: KernelTask, compiler: Compiler
) -> None:
    text = quick_task.tuned_file.read_text(encoding="utf-8")
    space = space_of(text, Evidence(quick_task, device="cuda:0", arch="sm_90a"))
    own = space.settings()[0]
    default = space.source(own)
    few = space.source({**own, "threads": 128, "pack_bytes": 8, "unroll": 2})
    many = space.source({**own, "threads": 256, "cache_hints": 1})
    found = portfolio(
        0,
        {w.name: w.dims for w in quick_task.workloads},
        {1: {"16x4096": gain(1, 3.0), "32x5120": gain(1, -3.0), "256x4096": gain(1, -1.0)},
         2: {"16x4096": gain(2, -3.0), "32x5120": gain(2, -1.0), "256x4096": gain(2, 2.0)}},
    )  # fmt: skip
    assert conditions(found) == {1: "tokens <= 23", 2: "tokens >= 91"}
    texts = {1: few, 2: many}
    parts = [Part(p.condition, texts[p.trial], words(p)) for p in found.parts]
    source = joined(quick_task, default, parts)
    plan = plan_of(source)
    assert sorted(t.value for t in plan.tunes) == [8, 16, 128, 256, 1024]
    assert all(f"# {part.note}\n" in source for part in parts)
    assert source.count("__global__") == 4, "three of one kernel: plain, unrolled and with hints"
    assert source.count("load_once(const") == 1, "with what it is hinted by, once"
    with OracleHere(quick_task) as oracle:
        *_, report = Checker(quick_task, Emulator(), compiler, oracle).check(source, "joined.cu")
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.PASSED, report.message


def test_sources_whose_kernels_stand_in_a_namespace_are_joined(
    quick_task: KernelTask, compiler: Compiler
) -> None:
    """As FlashInfer's: what differs outside of kernels is found in namespaces, and put there."""
    text = quick_task.tuned_file.read_text(encoding="utf-8")
    plan, code = text.split("*/", 1)
    plan = plan.replace(" silu_and_mul_", " ours::fast::silu_and_mul_")
    default = f"{plan}*/\nnamespace ours::fast {{{code}\n}}  // namespace ours::fast\n"
    helper = "template <typename P>\n__device__ P once(const P* at) { return *at; }\n\n"
    head = "template <typename T, int N>\n__global__"
    hinted = default.replace(head, helper + head).replace("P g = gate[i];", "P g = once(gate + i);")
    assert hinted != default
    condition = Compare(Name("tokens"), (("<=", Integer(64)),))
    source = joined(quick_task, default, [Part(condition, hinted)])
    assert source.count("namespace ours::fast {") == 3, "a helper and a kernel more"
    assert source.count("P once(const P* at)") == 1
    (few, wide, *_) = plan_of(source).launches()
    assert few.kernel == "ours::fast::silu_and_mul_vec_2"
    assert wide.kernel == "ours::fast::silu_and_mul_vec"
    names = (f"{few.kernel}<float, 4>", f"{wide.kernel}<float, 4>")
    assert {k.expression for k in compiler.compile(source, names).kernels} == set(names)


def test_what_cannot_be_one_source_is_tried_with_fewer_branches(quick_task: KernelTask) -> None:
    text = quick_task.tuned_file.read_text(encoding="utf-8")
    few = text.replace("32) * 32, 32), 1024)", "32) * 32, 32), 512)")
    clashes = text.replace("__fdividef(x, 1.0f", "__fdividef(x, 1.5f")
    found = portfolio(0, SIZES, {1: gains(1, 9, -1, -1, -1), 2: gains(2, -1, -1, -1, 3)})
    assert [p.trial for p in found.parts] == [1, 2]
    said: list[str] = []
    trials = [({}, text), ({"threads": 512}, few), ({}, clashes)]
    made = list(joined_in_turn(quick_task, trials, found, 0, said.append))
    assert [[p.trial for p in fewer.parts] for fewer, _ in made] == [[1]]
    assert "when" in made[0][1]
    (why,) = said
    assert "silu" in why
    assert "fewer branches" in why


def second(task: KernelTask, source: str, **changes: object) -> SecondParent:
    ancestor = task.tuned_file.read_text(encoding="utf-8")
    return replace(SecondParent("c" * 64, source, ancestor, ("one plan",)), **changes)


def test_a_merge_takes_lines_of_both_or_dispatches_by_size(quick_task: KernelTask) -> None:
    text = quick_task.tuned_file.read_text(encoding="utf-8")
    own = text + "\n// at the end\n"
    other = "// at the beginning\n" + text
    by_lines = second(quick_task, other, ratios={"requests": 0.5, "sectors": 1.0})
    evidence = Evidence(quick_task, second=by_lines)
    (merged, *others), _ = propose_all(own, evidence)
    assert merged.source == "// at the beginning\n" + own
    assert merged.plan.move == "merge"
    assert merged.plan.prediction.counter is Counter.REQUESTS
    assert merged.plan.prediction.counter_ratio == 0.5
    assert "one plan" in merged.plan.bottleneck
    again = propose_as_set(own, merged.plan, evidence)
    assert isinstance(again, Proposal)
    assert again.source == merged.source
    # Without a second source there is no such move, and nothing is said of it.
    alone, refused = propose_all(own, Evidence(quick_task))
    assert [p.source for p in alone] == [p.source for p in others]
    assert not any(r.move == "merge" for r in refused)
    condition = Compare(Name("tokens"), (("<=", Integer(64)),))
    space = space_of(text, Evidence(quick_task, device="cuda:0", arch="sm_90a"))
    few = space.source({**space.settings()[0], "threads": 128})
    by_size = second(quick_task, few, condition=condition, gains=("16x4096: 3.0 % less",))
    (joint, *_), _ = propose_all(text, Evidence(quick_task, second=by_size))
    assert "when tokens <= 64" in joint.source
    assert "# 16x4096: 3.0 % less" in joint.source
    clash = second(quick_task, text.replace("__fdividef(x, 1.0f", "__fdividef(x, 1.5f"))
    mine = text.replace("__fdividef(x, 1.0f", "__fdividef(x, 2.0f")
    _, (first, *_) = propose_all(mine, Evidence(quick_task, second=clash))
    assert first == NotApplicable("merge", "both changed the same lines, in different ways")


def test_helpers_that_differ_cannot_be_joined(quick_task: KernelTask) -> None:
    text = quick_task.tuned_file.read_text(encoding="utf-8")
    (part,) = portfolio(0, SIZES, {1: gains(1, 3.0, 2.0, -1.0, -2.0)}).parts
    other = text.replace("__fdividef(x, 1.0f", "__fdividef(x, 1.5f")
    with pytest.raises(CannotJoin, match="silu"):
        joined(quick_task, text, [Part(part.condition, other)])
