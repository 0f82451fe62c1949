"""Every mutant of the shipped sources is caught by the suite, or is known to change nothing.

A mutant has one barrier, guard or bounds term less than its original (see mutants.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.lab.audit.gate import is_same_program
from astra_tui.lab.audit.mutants import BOUNDS, Mutant, mutants
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.emulator.device import Emulator
from astra_tui.model.check import CaseResult, CheckReport, Verdict
from astra_tui.model.compilation import Compilation
from astra_tui.model.task import KernelTask, load_task

KERNELS = Path(__file__).resolve().parents[2] / "kernels"

SAME_VALUE = "all threads that would store now hold the value that one of them stores"
FEWER_THREADS = "the block is smaller, and its threads stride over the row all the same"

DROPPED = "the store beyond the array in registers is undefined, and the compiler drops it"

EQUIVALENT = {
    ("fused_add_rmsnorm/production.cu", "loop one too far: k < N / 4"): DROPPED,
    ("fused_add_rmsnorm/production.cu", "guard always true: (lane == 0)"): SAME_VALUE,
    ("merge_attn_states_lse/baseline.cu", "guard always true: (i == 0)"): SAME_VALUE,
    ("merge_attn_states_lse/production.cu", "guard always true: (piece == 0)"): SAME_VALUE,
    (
        "fused_add_rmsnorm/production.cu",
        "plan rounds down: ceil_div(ceil_div(d, width), 32)",
    ): FEWER_THREADS,
    ("fused_add_rmsnorm/production.cu", "plan rounds down: ceil_div(d, width)"): FEWER_THREADS,
    ("fused_add_rmsnorm/production.cu", "plan rounds down: ceil_div(d, 32)"): FEWER_THREADS,
    ("silu_and_mul/production.cu", "plan rounds down: ceil_div(d, width * 32)"): FEWER_THREADS,
    ("silu_and_mul/production.cu", "plan rounds down: ceil_div(d, 32)"): FEWER_THREADS,
}
"""Mutants that no check can tell from the original, with the reason."""


def all_mutants() -> list[tuple[str, Mutant]]:
    """Every mutant of every shipped source."""
    return [
        (f"{file.parent.name}/{file.name}", mutant)
        for file in sorted(KERNELS.glob("*/*.cu"))
        for mutant in mutants(file.read_text(), BOUNDS)
    ]


@pytest.fixture(scope="module")
def checkers(compiler: Compiler) -> dict[str, Checker]:
    """A checker for each task, opened on first use."""
    return {}


@pytest.mark.parametrize(
    ("source", "mutant"),
    all_mutants(),
    ids=lambda v: v if isinstance(v, str) else f"{v.line} {v.name[:60]}",
)
def test_mutant_is_caught_or_changes_nothing(
    source: str, mutant: Mutant, compiler: Compiler, checkers: dict[str, Checker]
) -> None:
    name = source.partition("/")[0]
    if name not in checkers:
        task: KernelTask = load_task(KERNELS / name)
        checkers[name] = Checker(task, Emulator(), compiler, Oracle(task))
    caught = False
    for event in checkers[name].check(mutant.text, str(KERNELS / source)):
        if isinstance(event, Compilation):
            assert event.ok, event.errors
            original = (KERNELS / source).read_text()
            if is_same_program(compiler, event, mutant.text, original):
                return
        if isinstance(event, CaseResult) and not event.outcome.ok:
            caught = True
            break
        if isinstance(event, CheckReport):
            caught = event.verdict is not Verdict.PASSED
    if (source, mutant.name) in EQUIVALENT:
        assert not caught, "listed as equivalent, but the suite tells it from the original"
    else:
        assert caught
