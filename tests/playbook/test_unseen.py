"""Kernels that were written after the moves: what fires, and whether it is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.lab.audit.zoo import read_zoo
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import compile_source
from astra_tui.model.launch import DEVICE_ATTRIBUTES
from astra_tui.model.task import load_task
from astra_tui.playbook import Evidence, propose_all
from tests.conftest import CheckerOf
from tests.playbook.greedy import Greedy, table
from tests.playbook.path import GPU, require_pass

FOLDER = Path(__file__).parent / "unseen"
FIRES = {
    "layernorm": {"wide_accesses", "keep_row", "shuffle_reduction", "fast_math", "reciprocal"},
    "rotary": {"wide_accesses", "fit_block"},
    "gelu": {"wide_accesses"},
}


@pytest.mark.parametrize("name", FIRES)
def test_every_proposal_on_an_unseen_kernel_is_correct(name: str, checker_of: CheckerOf) -> None:
    task = load_task(FOLDER / name)
    proposals, _ = propose_all(task.baseline_file.read_text(), Evidence(task))
    assert {p.plan.move for p in proposals} == FIRES[name]
    for proposal in proposals:
        cases = build_suite(task)[::6]
        require_pass(checker_of(task), proposal.source, cases, proposal.plan.move)


@pytest.mark.parametrize("name", FIRES)
def test_greedy_run_improves_an_unseen_kernel(name: str, checker_of: CheckerOf) -> None:
    task = load_task(FOLDER / name)
    rounds = Greedy(checker_of(task), every=16).run(task.baseline_file.read_text())
    print(table(name, rounds))
    first, last = rounds[0].counters, rounds[-1].counters
    assert last.sectors <= first.sectors
    assert last.requests <= first.requests / 2
    # Arithmetic alone is as much in packs, and the loop around them is added.
    most = 1.01 if name == "gelu" else 1.0
    assert last.warp_instructions < most * first.warp_instructions


def test_what_is_proposed_on_kernels_of_other_hands_compiles(compiler: Compiler) -> None:
    """For a GPU, where most moves fire; a sample, and a kernel whose loop has a block within."""
    zoo = read_zoo(FOLDER.parents[1] / "zoo")
    kernels = [e for n, e in enumerate(zoo.honest) if n % 9 == 4 or e.id.endswith("a-thread")]
    fired = set()
    for entry in kernels:
        task = zoo.task(entry.task)
        proposals, _ = propose_all(entry.text, Evidence(task, device=GPU))
        for proposal in proposals:
            file = f"{entry.id}, {proposal.plan.move}"
            compile_source(task, compiler, DEVICE_ATTRIBUTES, proposal.source, file, whole=False)
            fired.add(proposal.plan.move)
    assert {"wide_accesses", "overlap_launches"} <= fired
