"""The playbook alone makes every baseline better, correct, and the same way every time."""

from __future__ import annotations

import pytest

from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.dtypes import DType
from astra_tui.model.state import CandidateState
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Profile, WorkloadProfile
from astra_tui.playbook import Evidence, propose_all
from tests.conftest import CheckerOf
from tests.playbook.greedy import Greedy, Round, table
from tests.playbook.variants import VARIANTS

TASKS = ("fused_add_rmsnorm", "merge_attn_states_lse", "silu_and_mul")
REPEATED = "silu_and_mul"
"""The quickest of them."""


@pytest.fixture(scope="module")
def repeated(tasks: dict[str, KernelTask], checker_of: CheckerOf) -> list[Round]:
    """One run of it, that others are compared with."""
    task = tasks[REPEATED]
    return Greedy(checker_of(task), every=16).run(task.baseline_file.read_text())


def standings(task: KernelTask, last: Round) -> list[CitationStatus]:
    """What the counters of a source say to the numbers that the plans for it cite."""
    workload = WorkloadProfile("all", {}, DType.FLOAT16, (), last.counters, 0, 0, 0)
    known = CandidateState("", profile=Profile("emulator", (workload,)))
    proposals, _ = propose_all(last.source, Evidence(task, last.counters))
    observed = [o for proposal in proposals for o in proposal.plan.observations]
    return [reading.standing for o in observed for reading in check_citations(o, known)]


@pytest.mark.parametrize("name", TASKS)
def test_greedy_run_improves_the_baseline(
    name: str, tasks: dict[str, KernelTask], checker_of: CheckerOf, request: pytest.FixtureRequest
) -> None:
    task = tasks[name]
    baseline = task.baseline_file.read_text()
    rounds = Greedy(checker_of(task), every=16).run(baseline)
    print(table(name, rounds))
    first, last = rounds[0].counters, rounds[-1].counters
    assert last.sectors <= first.sectors
    assert last.requests < first.requests / 3
    assert last.warp_instructions < first.warp_instructions
    cited = [standing for r in rounds for standing in standings(task, r)]
    assert cited
    assert set(cited) == {CitationStatus.AGREES}
    if name == REPEATED:
        again = request.getfixturevalue("repeated")
        assert [(r.move, r.source) for r in again] == [(r.move, r.source) for r in rounds]


def test_spelling_does_not_decide_the_result(
    tasks: dict[str, KernelTask], checker_of: CheckerOf, repeated: list[Round]
) -> None:
    task, plain = tasks[REPEATED], repeated
    other = Greedy(checker_of(task), every=16).run(
        VARIANTS["all at once"](task.baseline_file.read_text())
    )
    assert [r.move for r in other] == [r.move for r in plain]
    assert other[-1].counters.sectors == plain[-1].counters.sectors
    assert other[-1].counters.requests == plain[-1].counters.requests
