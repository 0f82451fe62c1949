"""What an engineer sets of a plan is what its move writes, or it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from astra_tui.lab.check.runner import select_cases
from astra_tui.model.digest import content_hash
from astra_tui.model.plan import Choice, Plan
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief, CannotFollow
from astra_tui.model.verdict import Profile
from astra_tui.playbook import Evidence, Proposal, propose_all
from astra_tui.playbook.moves.combined import Combined
from astra_tui.playbook.playbook_team import PlaybookTeam
from astra_tui.playbook.propose import propose_as_set
from tests.conftest import CheckerOf
from tests.playbook.path import GPU, require_pass, timed_path

TASKS = ("fused_add_rmsnorm", "merge_attn_states_lse", "silu_and_mul")


def follow(task: KernelTask, source: str, shown: Plan, edited: Plan, device: str) -> Plan:
    brief = Brief(
        task, 1, content_hash(source), source, Profile(device, ()) if device == GPU else None
    )
    return asyncio.run(PlaybookTeam().follow(brief, shown, edited))


def other_values(plan: Plan) -> Iterator[tuple[str, Choice | tuple[Choice, ...]]]:
    """For each parameter two values that it does not have."""
    for parameter in plan.parameters:
        several = isinstance(parameter.value, tuple)
        unlike = [c for c in parameter.choices if several or c != parameter.value]
        for choice in (unlike[0], unlike[-1]):
            yield parameter.name, (choice,) if several else choice


def along(task: KernelTask, device: str) -> Iterator[tuple[str, Proposal]]:
    """Sources on the playbook's way, and what it proposes for them."""
    source = task.baseline_file.read_text()
    evidence = Evidence(task, device=device)
    for step in [None, *timed_path(task, source, rounds=4)]:
        source = step.source if step else source
        offered = (p for p in propose_all(source, evidence)[0] if p.plan.move != Combined.name)
        yield from ((source, p) for p in offered)


@pytest.mark.parametrize("device", ["emulator", GPU])
@pytest.mark.parametrize("name", TASKS)
def test_every_parameter_changes_the_code_and_the_plan_says_so(
    name: str, device: str, tasks: dict[str, KernelTask]
) -> None:
    task, seen = tasks[name], set()
    for source, proposal in along(task, device):
        shown, evidence = proposal.plan, Evidence(task, device=device)
        assert propose_as_set(source, shown, evidence) == proposal
        known = frozenset(seen)
        for setting, value in other_values(shown):
            if (shown.move, setting) in known:
                continue
            seen.add((shown.move, setting))
            plan = follow(task, source, shown, shown.having({setting: value}), device)
            assert plan.settings[setting] == value
            assert propose_as_set(source, plan, evidence).source not in (source, proposal.source)
    assert {"pack_bytes", "lines", "workloads"} <= {setting for _, setting in seen}


@dataclass(frozen=True)
class Set:
    task: str
    move: str
    settings: dict[str, Choice | tuple[Choice, ...]]
    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    device: str = "emulator"


SETTINGS = (
    Set("silu_and_mul", "wide_accesses", {"pack_bytes": 8, "lines": (20, 21)},
        ("let width = 8 // sizeof(T)", "aligned(input, 8)"), ("aligned(out", "out_pack")),
    Set("fused_add_rmsnorm", "wide_accesses", {"pack_bytes": 4, "lines": (23, 36)},
        ("let width = 4 // sizeof(T)",), ("weight_pack",)),
    Set("silu_and_mul", "wide_accesses", {"workloads": ("16x4096", "32x5120")},
        ("tokens == 16 and d == 4096 or tokens == 32 and d == 5120",)),
    Set("fused_add_rmsnorm", "keep_row", {"iterations": 2}, ("<= 512",), ("4 if",)),
    Set("merge_attn_states_lse", "fast_math", {"lines": (33,)}),
    Set("silu_and_mul", "row_grid", {"block": 512}, ("block=512",), ("block=128",), GPU),
)  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS, ids=lambda c: f"{c.task}-{c.move}-{c.settings}")
def test_code_for_other_settings_is_what_they_say_and_correct(
    case: Set, tasks: dict[str, KernelTask], checker_of: CheckerOf
) -> None:
    task = tasks[case.task]
    source = task.baseline_file.read_text()
    proposals, _ = propose_all(source, Evidence(task, device=case.device))
    shown = next(p.plan for p in proposals if p.plan.move == case.move)
    plan = follow(task, source, shown, shown.having(case.settings), case.device)
    made = propose_as_set(source, plan, Evidence(task, device=case.device))
    assert isinstance(made, Proposal)
    text = " ".join(made.source.split())
    assert all(part in text for part in case.holds), made.source
    assert not any(part in text for part in case.lacks), made.source
    require_pass(checker_of(task), made.source, select_cases(task, ("*",))[::14])


def test_what_a_move_would_not_do_is_refused_with_the_reason(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    source = task.baseline_file.read_text()
    shown = next(
        p.plan for p in propose_all(source, Evidence(task))[0] if p.plan.move == "wide_accesses"
    )
    size, *others = shown.parameters
    twelve = (replace(size, value=12), *others)
    for edited, told in (
        (replace(shown, change="use packs of 8 bytes"), "would not follow an edit of change"),
        (replace(shown, move="fast_math"), "would not follow an edit of move"),
        (
            replace(shown, parameters=twelve),
            "12 is not one of 16, 8, 4",
        ),
        (replace(shown, parameters=()), "the names of its parameters"),
    ):
        with pytest.raises(CannotFollow, match=told):
            follow(task, source, shown, edited, "emulator")
    expected = replace(shown.prediction, counter_ratio=0.5)
    own = follow(task, source, shown, replace(shown, prediction=expected), "emulator")
    assert own == replace(shown, prediction=expected)
