"""The path that the playbook takes where times decide, if every move pays once."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.lab.check.runner import Checker
from astra_tui.model.check import Case, CheckReport, CheckVerdict
from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, Proposal, propose_all
from astra_tui.playbook.moves.combined import Combined

GPU = "cuda:0"


def timed_path(task: KernelTask, source: str, rounds: int = 8) -> list[Proposal]:
    """The first proposal of each round, taken as the next base; no move is taken twice, and each
    alone.
    """
    taken = _TAKEN.setdefault((task.hash, source), [])
    source = taken[-1].source if taken else source
    for _ in range(rounds - len(taken)):
        known = {p.plan.move for p in taken} | {Combined.name}
        offered, _ = propose_all(source, Evidence(task, device=GPU))
        new = next((p for p in offered if p.plan.move not in known), None)
        if new is None:
            break
        taken.append(new)
        source = new.source
    return taken[:rounds]


def require_pass(checker: Checker, text: str, cases: Sequence[Case], what: object = "") -> None:
    """Fails the test, which says `what` it tried, unless a source passes the check."""
    *_, report = checker.check(text, "candidate.cu", tuple(cases))
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.PASSED, (what, report.message, report.failed_cases[:1])


_TAKEN: dict[tuple[str, str], list[Proposal]] = {}
"""The steps that were taken from a task's source, which several tests follow."""
