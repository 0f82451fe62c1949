"""What the playbook does where times decide: geometry, and nothing twice that gained nothing."""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import replace as replace_dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.cuda_source.syntax import text_of
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import plan_of, print_expression, print_plan
from astra_tui.model.launch.resolve import ResolvedPlan, resolve
from astra_tui.model.launch.scope import Bindings, Layout
from astra_tui.model.plan import Risk
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.team_protocol import Brief, Tried
from astra_tui.model.verdict import Outcome, Profile
from astra_tui.playbook import (
    Evidence,
    KernelText,
    NotApplicable,
    Proposal,
    all_moves,
    propose_all,
)
from astra_tui.playbook.api import room_of
from astra_tui.playbook.moves import BY_TIME
from astra_tui.playbook.moves.flush_exp import FlushExp
from astra_tui.playbook.moves.single_turn import SingleTurn
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.playbook.propose import propose, propose_as_set, region
from astra_tui.playbook.thread_count import why_count_matters
from tests.conftest import ROOT, CheckerOf
from tests.engine.test_stops import timing, workload
from tests.playbook.path import GPU, require_pass, timed_path
from tests.playbook.variants import VARIANTS

UNSEEN = Path(__file__).parent / "unseen"
PATHS = {
    "fused_add_rmsnorm": (
        *("reciprocal", "wide_accesses", "shuffle_reduction", "fit_block", "keep_row"),
        "early_loads",
    ),
    "merge_attn_states_lse": (
        *("reciprocal", "fast_math", "one_path", "wide_accesses", "flat_grid"),
    ),
    "silu_and_mul": ("row_grid", "fast_math", "wide_accesses"),
}
LAST = ("overlap_launches", "flush_exp")
JOINED = {
    "fused_add_rmsnorm": (*PATHS["fused_add_rmsnorm"][:-1], "overlap_launches"),
    "merge_attn_states_lse": (*PATHS["merge_attn_states_lse"], *LAST),
    "silu_and_mul": (*PATHS["silu_and_mul"], *LAST),
}
"""The steps that one round makes of a slow kernel."""
UNSEEN_PATHS = {
    "layernorm": ("reciprocal", "wide_accesses", "shuffle_reduction", "fit_block", "keep_row"),
    "rotary": ("wide_accesses", "pack_rows"),
}


def check_path(checker: Checker, source: str, every: int) -> list[str]:
    """The moves of the path; each source of it has to pass the check."""
    path = timed_path(checker.task, source)
    check(checker, path, every)
    return [proposal.plan.move for proposal in path]


def check(checker: Checker, proposals: list[Proposal], every: int) -> None:
    cases = select_cases(checker.task, ("*",))[::every]
    for proposal in proposals:
        require_pass(checker, proposal.source, cases, proposal.plan.move)


@pytest.mark.parametrize("name", PATHS)
def test_every_step_for_a_gpu_is_correct(
    name: str, tasks: dict[str, KernelTask], checker_of: CheckerOf
) -> None:
    task = tasks[name]
    moves = check_path(checker_of(task), task.baseline_file.read_text(), every=15)
    assert tuple(moves[: len(PATHS[name])]) == PATHS[name]


@pytest.mark.parametrize("name", JOINED)
def test_several_moves_are_made_in_one_round(
    name: str, tasks: dict[str, KernelTask], checker_of: CheckerOf
) -> None:
    task, steps = tasks[name], JOINED[name]
    source = _baseline(task)
    evidence = Evidence(task, device=GPU)
    (first, *_), _ = propose_all(source, evidence)
    assert first.plan.move == "combined"
    assert first.plan.settings["moves"] == steps
    check(checker_of(task), [first], every=15)
    assert not {"combined", *steps} & set(moves_of(brief(task, first.source)))
    assert first.plan.risk is Risk.MEDIUM
    assert all(f"{step}: " in first.plan.change for step in steps)
    low, high = first.plan.prediction.speedup or (0, 0)
    assert 0 < low < high


def test_an_engineer_leaves_a_step_out(tasks: dict[str, KernelTask]) -> None:
    task = tasks["fused_add_rmsnorm"]
    source, evidence = _baseline(task), Evidence(task, device=GPU)
    shown = propose_all(source, evidence)[0][0].plan
    some = shown.having({"moves": ("reciprocal", "wide_accesses")})
    made = propose_as_set(source, some, evidence)
    assert isinstance(made, Proposal)
    assert "rsqrtf(partial[0] * inverse_d + eps)" in made.source, "a quotient within a root, too"
    assert "fused_add_rmsnorm_wide" in made.source
    assert not {"__shfl_xor_sync", "TURNS", "pdl=true"} & set(re.findall(r"[\w=]+", made.source))
    tree = shown.having({"moves": ("wide_accesses", "fit_block")})
    refused = propose_as_set(source, tree, evidence)
    assert isinstance(refused, NotApplicable)
    assert refused.reason.startswith("fit_block: not without")


@pytest.mark.parametrize("outcome", [Outcome.SAME, Outcome.WORSE, Outcome.NOT_COMPILED])
def test_moves_that_failed_together_are_tried_one_by_one(
    outcome: Outcome, tasks: dict[str, KernelTask]
) -> None:
    task = tasks["silu_and_mul"]
    source = _baseline(task)
    joined = propose_all(source, Evidence(task, device=GPU))[0][0]
    tried = Tried(1, joined.plan, content_hash(source), outcome, (), source)
    assert moves_of(brief(task, source, tried))[0] == "row_grid"
    later = timed_path(task, source, rounds=1)[0].source
    assert "combined" not in moves_of(brief(task, later, tried))
    edited = replace_dataclass(tried, edited=True)
    assert "combined" in moves_of(brief(task, source, edited)), "so it was not tried"
    assert "combined" in moves_of(brief(task, later, edited))


def test_moves_that_were_wrong_together_are_tried_again_without_those_that_are_less_exact(
    tasks: dict[str, KernelTask],
) -> None:
    task = tasks["silu_and_mul"]
    source = _baseline(task)
    joined = propose_all(source, Evidence(task, device=GPU))[0][0]
    first = Tried(1, joined.plan, content_hash(source), Outcome.WRONG, (), source)
    team = PlaybookTeam()
    answer = asyncio.run(team.plan(brief(task, source, first), 1, lambda *_: None))
    (again,) = (p.plan for p in answer.plans)
    assert again.settings["moves"] == ("row_grid", "wide_accesses", "overlap_launches")
    second = Tried(2, again, content_hash(source), Outcome.WRONG, (), source)
    assert moves_of(brief(task, source, first, second))[0] == "row_grid"


def test_a_step_that_was_turned_down_is_left_out(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    source = _baseline(task)
    offered, _ = propose_all(source, Evidence(task, device=GPU))
    fast = replace(offered[0].plan, move="fast_math")
    tried = Tried(1, fast, content_hash(source), Outcome.REJECTED, (), source)
    answer = asyncio.run(PlaybookTeam().plan(brief(task, source, tried), 1, lambda *_: None))
    left = ("row_grid", "wide_accesses", "overlap_launches")
    assert answer.plans[0].plan.settings["moves"] == left


TUNED_PATHS = {
    "fused_add_rmsnorm": ("overlap_launches", "row_in_registers", "early_loads"),
    "merge_attn_states_lse": ("overlap_launches", "cheap_division", "tune_block"),
    "silu_and_mul": ("flat_grid", "overlap_launches", "flush_exp"),
}


@pytest.mark.parametrize("name", TUNED_PATHS)
def test_every_step_from_a_tuned_kernel_is_correct(
    name: str, tasks: dict[str, KernelTask], checker_of: CheckerOf
) -> None:
    task = tasks[name]
    moves = check_path(checker_of(task), task.tuned_file.read_text(), every=24)
    assert [m for m in moves if m in TUNED_PATHS[name]] == list(TUNED_PATHS[name])


@pytest.mark.parametrize("name", UNSEEN_PATHS)
def test_every_step_for_a_gpu_is_correct_on_unseen_kernels(
    name: str, checker_of: CheckerOf
) -> None:
    task = load_task(UNSEEN / name)
    moves = check_path(checker_of(task), task.baseline_file.read_text(), every=6)
    assert tuple(moves[: len(UNSEEN_PATHS[name])]) == UNSEEN_PATHS[name]


@pytest.mark.parametrize("name", PATHS)
def test_spelling_does_not_decide_the_path(
    name: str, tasks: dict[str, KernelTask], checker_of: CheckerOf
) -> None:
    task = tasks[name]
    spelled = VARIANTS["all at once"](task.baseline_file.read_text())
    path = timed_path(task, spelled)
    assert tuple(p.plan.move for p in path[: len(PATHS[name])]) == PATHS[name]
    check(checker_of(task), path[-1:], every=15)


def test_every_move_has_a_place_of_its_own_and_a_gain() -> None:
    moves = all_moves()
    assert sorted(BY_TIME) == sorted(move.name for move in moves)
    assert all(0 < low <= high for low, high in (move.gain or (0, 0) for move in moves))


FOR_GPUS = {
    *("row_grid", "full_grid", "flat_grid", "pack_rows", "single_turn", "store_early"),
    *("early_loads", "batch_loads", "cheap_division", "row_in_registers", "warp_rows"),
    *("overlap_launches", "flush_exp", "trigger_early", "tune_block", "cache_hints", "one_path"),
    *("loads_first", "keep_values"),
}


@pytest.mark.parametrize("name", PATHS)
def test_the_emulator_decides_no_geometry_for_gpus(name: str, tasks: dict[str, KernelTask]) -> None:
    task = tasks[name]
    proposals, _ = propose_all(task.baseline_file.read_text(), Evidence(task))
    assert not {p.plan.move for p in proposals} & FOR_GPUS


def brief(task: KernelTask, source: str, *tried: Tried, device: str = GPU) -> Brief:
    base = content_hash(source)
    return Brief(task, len(tried) + 1, base, source, Profile(device, ()), tried)


def moves_of(told: Brief) -> list[str]:
    answer = asyncio.run(PlaybookTeam().plan(told, 20, lambda *_: None))
    return [draft.plan.move for draft in answer.plans]


@pytest.mark.parametrize("outcome", [Outcome.SAME, Outcome.WORSE, Outcome.WRONG])
def test_what_gained_nothing_is_not_tried_on_the_same_code_again(
    outcome: Outcome, tasks: dict[str, KernelTask]
) -> None:
    task = tasks["fused_add_rmsnorm"]
    source = task.baseline_file.read_text()
    hoisted = next(
        p for p in propose_all(source, Evidence(task, device=GPU))[0]
        if p.plan.move == "hoist_invariants"
    )  # fmt: skip
    tried = Tried(1, hoisted.plan, content_hash(source), outcome, (), source)
    elsewhere = "// another version\n" + source
    assert "hoist_invariants" in moves_of(brief(task, elsewhere))
    assert "hoist_invariants" not in moves_of(brief(task, elsewhere, tried))
    counted = brief(task, elsewhere, tried, device="emulator")
    assert "hoist_invariants" not in moves_of(counted), "counters decide no other way next time"
    changed = elsewhere.replace("sqrtf(partial[0] / d + eps)", "sqrtf(eps + partial[0] / d)")
    assert "hoist_invariants" in moves_of(brief(task, changed, tried))


def test_geometry_is_tried_again_with_other_sizes_alone(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    (_, source), *_ = ((p.plan.move, p.source) for p in timed_path(task, _baseline(task), 3)[2:])
    found = {p.plan.move: p.plan for p in propose_all(source, Evidence(task, device=GPU))[0]}
    for move in ("tune_block", "single_turn"):
        own = region(found[move], KernelText.read(source))
        tabs, pdl, narrow = (
            KernelText.read(source.replace(*pair))
            for pair in (("    ", "\t"), ("d)\n", "d) pdl=true\n", 1), ("block=128", "block=64"))
        )
        assert own == region(found[move], tabs) == region(found[move], pdl)
        assert own != region(found[move], narrow)


def test_what_no_workload_launches_is_not_proposed(tasks: dict[str, KernelTask]) -> None:
    """A kept row has at most 8 iterations, of 256 threads here: 2,048 of 4,096 elements or more."""
    task = tasks["fused_add_rmsnorm"]
    source = _baseline(task)
    offered = propose_all(source, Evidence(task, device=GPU))[0]
    assert "keep_row" in {p.plan.move for p in offered}
    answer = asyncio.run(PlaybookTeam().plan(brief(task, source), 20, lambda *_: None))
    assert "keep_row" not in {draft.plan.move for draft in answer.plans}
    assert any("keep_row: no workload would launch" in reason for reason in answer.refused)


def _baseline(task: KernelTask) -> str:
    return task.baseline_file.read_text(encoding="utf-8")


def kernel(body: str, plan: str = "k<T> grid=rows block=256 args=(x, n)") -> KernelText:
    return KernelText.read(
        f"/* @launch\n   {plan}\n*/\ntemplate <typename T>\n"
        f"__global__ void k(T* x, int n) {{\n{body}\n}}\n"
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("__shared__ float s[32]; s[threadIdx.x / 32] = 0;", ""),
        ("__shared__ float s[8]; s[threadIdx.x / 32] = 0;", "may be too short"),
        ("__shared__ float s[256]; s[threadIdx.x] = 0;", "may be too short"),
        ("__shared__ float s[256]; if (threadIdx.x < 32) s[threadIdx.x] = 0;", ""),
        ("__shared__ float s[32]; const int w = threadIdx.x >> 5; s[w] = 0;", ""),
        ("__shared__ float s[32]; x[0] = threadIdx.x < blockDim.x / 32 ? s[threadIdx.x] : 0;", ""),
        ("__shared__ float s[32]; s[n] = 0;", "may be too short"),
        ("if (threadIdx.x == 256) x[0] = 0;", "counts on 256"),
    ],
)
def test_whether_a_kernel_bears_more_threads(body: str, why: str) -> None:
    (found,) = kernel(body).kernels
    reason = why_count_matters(found, 256)
    assert why in reason
    assert bool(reason) == bool(why)


def test_rows_beyond_the_largest_grid_keep_their_loop(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    path = timed_path(task, task.baseline_file.read_text(), rounds=3)
    made = SingleTurn().propose(KernelText.read(path[-1].source), Evidence(task, device=GPU))
    assert isinstance(made, Proposal)
    source = KernelText.read(made.source)
    wide, scalar = source.plan.launches()
    assert "tokens <= 65535" in print_plan(source.plan)
    assert print_expression(wide.grid[1]) == "tokens"
    assert print_expression(scalar.grid[1]) == "min(tokens, 65535)"
    (kernel,) = (k for k in source.kernels if k.name == scalar.kernel)
    assert "gridDim.y" in text_of(kernel.body)


SIZES = {
    (256, 4096): 512,
    (1024, 4096): 256,
    (128, 11008): 704,
    (512, 14336): 896,
    (4096, 8192): 1024,
    (4096, 512): 64,
    (1, 8): 32,
}


def test_block_that_fits_a_row(tasks: dict[str, KernelTask]) -> None:
    """Sizes in elements; packs have eight of them."""
    task = tasks["fused_add_rmsnorm"]
    path = timed_path(task, task.baseline_file.read_text(), rounds=4)
    assert path[-1].plan.move == "fit_block"
    plan, found = plan_of(path[-1].source), {}
    for rows, d in SIZES:
        row = Layout(16, (d, 1))
        layouts = {"x": row, "residual": row, "weight": Layout(16, (1,))}
        bound = Bindings(DType.FLOAT16, {"tokens": rows, "d": d}, layouts, {"eps": 1e-6})
        resolved = resolve(plan, bound)
        assert isinstance(resolved, ResolvedPlan)
        (launch,) = resolved.launches
        found[rows, d] = launch.block[0]
    assert found == SIZES


def test_a_prediction_is_no_more_than_the_device_leaves(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    text = task.baseline_file.read_text()
    times = timing(workload("short", 10.0), workload("long", 9.5))  # Copies move for 8.7 us.
    left = room_of(times)
    assert left == pytest.approx((10.0 * 9.5) ** 0.5 / 8.7)
    offered, _ = propose_all(text, Evidence(task, device=GPU, room=left))
    highs = [p.plan.prediction.speedup_high for p in offered]
    assert max(highs) == left
    assert "row_grid" in {p.plan.move for p in offered if p.plan.prediction.speedup_high == left}
    unknown = timing(replace(workload("short", 10.0), floor=None))
    assert room_of(unknown) == math.inf


@settings(max_examples=20)
@given(st.lists(st.floats(0.1, 10), min_size=7, max_size=7), st.sets(st.integers(0, 6)))
def test_workloads_weigh_in_order_and_prediction(weights: list[float], chosen: set[int]) -> None:
    """Wide accesses on some workloads alone gain as much of the mean as these weigh."""
    named = load_task(ROOT / "kernels" / "silu_and_mul")
    loads = tuple(
        replace_dataclass(w, weight=x) for w, x in zip(named.workloads, weights, strict=True)
    )
    task = replace_dataclass(named, workloads=loads)
    some = tuple(loads[i].name for i in sorted(chosen)) or (loads[0].name,)
    evidence = Evidence(task, device=GPU, settings={"workloads": some})
    (wide,) = (m for m in all_moves() if m.name == "wide_accesses")
    answer = propose(wide, KernelText.read(_baseline(task)), evidence)
    assert isinstance(answer, Proposal)
    share = sum(w.weight for w in loads if w.name in some) / sum(weights)
    assert answer.reach == pytest.approx(share)
    assert answer.plan.prediction.speedup == pytest.approx(tuple(g**share for g in wide.gain))


def test_what_is_for_few_workloads_comes_last(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    few = {"workloads": (task.workloads[0].name,)}
    source = _baseline(task)

    def order(weight: float) -> list[str]:
        first, *others = task.workloads
        loads = (replace_dataclass(first, weight=weight), *others)
        weighed = replace_dataclass(task, workloads=loads)
        evidence = Evidence(weighed, device=GPU, settings=few)
        return [p.plan.move for p in propose_all(source, evidence)[0]]

    assert order(1.0)[-1] == "wide_accesses"
    by_time = order(100.0)
    assert by_time[-1] != "wide_accesses"
    assert set(order(1.0)) == set(by_time)


def test_what_a_sweep_had_among_its_choices_needs_no_round(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    text = task.tuned_file.read_text()
    new, known = brief(task, text), replace_dataclass(brief(task, text), swept=text)
    before, after = (asyncio.run(PlaybookTeam().plan(b, 9, lambda _: None)) for b in (new, known))
    moves = {"combined", "flat_grid", "overlap_launches", "flush_exp", "cache_hints"}
    assert {d.plan.move for d in before.plans} == moves
    assert {d.plan.move for d in after.plans} == {"combined", "flat_grid", "flush_exp"}
    reason = "the sweep of this source had it among its choices"
    assert {f"overlap_launches: {reason}", f"tune_block: {reason}"} <= set(after.refused)


def test_flushed_exponentials_have_a_function_above_the_first_and_its_comment(
    tasks: dict[str, KernelTask],
) -> None:
    evidence = Evidence(tasks["silu_and_mul"], device=GPU)
    text = kernel("x[0] = __expf(-x[0]) + __expf(x[1] + 1.0f);").text
    commented = text.replace("template <", "// The kernel.\ntemplate <")
    answer = FlushExp().propose(KernelText.read(commented), evidence)
    assert isinstance(answer, Proposal), answer
    assert "x[0] = exp_flushed(-x[0]) + exp_flushed(x[1] + 1.0f);" in answer.source
    assert answer.source.index("float exp_flushed(") < answer.source.index("// The kernel.\ntempl")
    again = FlushExp().propose(KernelText.read(answer.source), evidence)
    assert isinstance(again, NotApplicable)
    assert again.reason == "no __expf"
