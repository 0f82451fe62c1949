"""Moves see what a kernel does, not how it is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.cuda_source.syntax import parse
from astra_tui.lab.check.runner import select_cases
from astra_tui.model.launch import plan_of, validate_plan
from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, KernelText, all_moves, propose_all
from tests.conftest import CheckerOf
from tests.playbook.path import GPU, require_pass
from tests.playbook.variants import VARIANTS

FIRES = {
    "fused_add_rmsnorm": {
        *("wide_accesses", "keep_row", "shuffle_reduction", "hoist_invariants", "reciprocal"),
        "fast_math",
    },
    "merge_attn_states_lse": {
        *("wide_accesses", "hoist_invariants", "reciprocal", "fast_math", "fit_block"),
    },
    "silu_and_mul": {"wide_accesses", "fast_math"},
}
FIRES_ON_GPU = {
    "fused_add_rmsnorm": FIRES["fused_add_rmsnorm"]
    | {"warp_rows", "tune_block", "overlap_launches"},
    "merge_attn_states_lse": FIRES["merge_attn_states_lse"]
    | {"pack_rows", "tune_block", "cache_hints", "overlap_launches", "one_path"}
    | {"loads_first"},
    "silu_and_mul": FIRES["silu_and_mul"]
    | {"row_grid", "full_grid", "tune_block", "cache_hints", "overlap_launches"},
}
ONLY_AFTER_OTHERS = {
    "first_warp",
    *(
        "single_turn",
        "flat_grid",
        "cheap_division",
        "row_in_registers",
        "early_loads",
        "batch_loads",
    ),
    *("store_early", "trigger_early", "flush_exp", "keep_values"),
    "group_factors",
}
ONLY_ON_COUNTS = {"drop_tail"}
ONLY_ON_SOFTMAX = {"online_softmax"}
ONLY_ON_SHIPPED = {"one_barrier"}
DTYPE_VARIANTS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32"}
SAMPLE = {
    "fused_add_rmsnorm": ("all at once", "half"),
    "merge_attn_states_lse": ("flipped", "float"),
    "silu_and_mul": ("while", "bfloat16"),
}


def baseline(task: KernelTask) -> str:
    return task.baseline_file.read_text()


def test_every_move_fires_on_some_baseline() -> None:
    fires = set().union(*FIRES.values(), *FIRES_ON_GPU.values())
    fires |= ONLY_AFTER_OTHERS | ONLY_ON_COUNTS | ONLY_ON_SOFTMAX | ONLY_ON_SHIPPED
    assert fires == {move.name for move in all_moves()}


@pytest.mark.parametrize("variant", ["", *VARIANTS])
@pytest.mark.parametrize("name", FIRES)
def test_what_fires_where_times_decide(
    name: str, variant: str, tasks: dict[str, KernelTask]
) -> None:
    text = baseline(tasks[name])
    text = VARIANTS[variant](text) if variant else text
    proposals, refusals = propose_all(text, Evidence(tasks[name], device=GPU))
    first, *others = (p.plan.move for p in proposals)
    assert (first, set(others)) == ("combined", FIRES_ON_GPU[name]), refusals


@pytest.mark.parametrize("name", FIRES)
def test_what_fires_on_the_baseline(name: str, tasks: dict[str, KernelTask]) -> None:
    proposals, refusals = propose_all(baseline(tasks[name]), Evidence(tasks[name]))
    assert {p.plan.move for p in proposals} == FIRES[name]
    assert {r.move for r in refusals} == {m.name for m in all_moves()} - FIRES[name]
    assert all(len(r.reason) > 10 for r in refusals)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", FIRES)
def test_the_same_moves_fire_on_every_variant(
    name: str, variant: str, tasks: dict[str, KernelTask]
) -> None:
    task = tasks[name]
    text = VARIANTS[variant](baseline(task))
    assert text != baseline(task)
    proposals, refusals = propose_all(text, Evidence(task))
    assert {p.plan.move for p in proposals} == FIRES[name], refusals
    for proposal in proposals:
        assert not parse(proposal.source).has_error
        validate_plan(plan_of(proposal.source), task.scope)


@pytest.mark.parametrize("name", FIRES)
def test_proposals_on_variants_are_correct(
    name: str, tasks: dict[str, KernelTask], checker_of: CheckerOf
) -> None:
    task = tasks[name]
    for variant in SAMPLE[name]:
        cases = select_cases(task, (f"{DTYPE_VARIANTS.get(variant, '*')}/*",))[::14]
        for proposal in propose_all(VARIANTS[variant](baseline(task)), Evidence(task))[0]:
            require_pass(checker_of(task), proposal.source, cases, (variant, proposal.plan.move))


def test_withdrawn_moves_stay_away(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    source = KernelText.read(baseline(task))
    why = 'you rejected it in round 2: "not yet"'
    withdrawn = {("wide_accesses", source.hash): why}
    proposals, refusals = propose_all(source.text, Evidence(task), withdrawn)
    assert "wide_accesses" not in {p.plan.move for p in proposals}
    assert why == next(r.reason for r in refusals if r.move == "wide_accesses")


@pytest.mark.parametrize("name", FIRES)
def test_no_move_knows_a_task_or_a_kernel(name: str, tasks: dict[str, KernelTask]) -> None:
    folder = Path(__file__).resolve().parents[2] / "astra_tui" / "playbook"
    code = "".join(f.read_text() for f in sorted(folder.rglob("*.py")))
    assert "class WideAccesses" in code
    assert name not in code
    source = KernelText.read(baseline(tasks[name]))
    assert all(kernel.name not in code for kernel in source.kernels)
