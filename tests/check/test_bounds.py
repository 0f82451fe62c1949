"""What a plan or a kernel may ask for: more is refused with its line, and ends nothing."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from astra_tui.emulator.device import WORKSPACE_BYTES, Emulator
from astra_tui.engine import lab as lab_module
from astra_tui.engine.lab import Lab, LabEvent
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.requests import CaseCount, Check, NamedSource
from astra_tui.model.check import CaseOutcome, CaseResult, CheckReport, CheckVerdict
from astra_tui.model.launch.resolve import MAX_WORKSPACE_BYTES
from astra_tui.model.task import KernelTask, find_task
from astra_tui.processes.child import Child

pytestmark = pytest.mark.usefixtures("warm_processes")

TASK = find_task("silu_and_mul")
BASELINE = TASK.baseline_file.read_text(encoding="utf-8")
TYPICAL = select_cases(TASK, ("*typical*",))
ROOM = 1 << 30
"""What a refused candidate may cost at most."""


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Compiler() as compiler, Oracle(TASK) as oracle:
        yield Checker(TASK, Emulator(), compiler, oracle)


def checked(checker: Checker, text: str) -> CaseResult:
    """The one case of a check, which costs no more than there is room for."""
    before = peak_bytes()
    *_, result, report = checker.check(text, "candidate.cu", TYPICAL[:1])
    assert isinstance(report, CheckReport)
    assert peak_bytes() - before < ROOM
    if not isinstance(result, CaseResult):
        (result,) = report.cases
    return result


def with_workspace(size: int) -> str:
    text = BASELINE.replace("/* @launch\n", f"/* @launch\n   workspace spare: uint8[{size}]\n")
    text = text.replace("tokens * d, d)\n", "tokens * d, d, spare)\n")
    return text.replace("int64_t d) {", "int64_t d, uint8_t* spare) {")


def test_a_workspace_beyond_what_plans_may_have(checker: Checker) -> None:
    for size in (MAX_WORKSPACE_BYTES + 1, 1 << 34, 1 << 60):
        result = checked(checker, with_workspace(size))
        assert result.outcome is CaseOutcome.PLAN_ERROR
        assert "candidate.cu:9:" in result.message
        assert f"at most {MAX_WORKSPACE_BYTES} bytes" in result.message


def test_a_workspace_beyond_what_the_emulator_holds(checker: Checker) -> None:
    result = checked(checker, with_workspace(MAX_WORKSPACE_BYTES))
    assert result.outcome is CaseOutcome.UNSUPPORTED
    assert result.findings[0].launch_line == 9
    assert f"at most {WORKSPACE_BYTES:,} bytes of workspaces" in result.message


def test_local_memory_is_there_for_few_threads_at_a_time(checker: Checker) -> None:
    head = "const int64_t step = (int64_t)gridDim.x * blockDim.x;\n"
    greedy = "volatile char mine[240000]; mine[threadIdx.x] = 1; mine[239999] = mine[count % 9];\n"
    result = checked(checker, BASELINE.replace(head, greedy + head))
    assert result.outcome is not CaseOutcome.UNSUPPORTED


def test_what_runs_out_of_memory_is_a_finding(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(Emulator, "workspace_bytes", 1 << 40)
    used = next(
        int(line.split()[1]) << 10
        for line in open("/proc/self/status")  # noqa: PTH123, SIM115
        if line.startswith("VmData:")
    )
    resource.setrlimit(resource.RLIMIT_DATA, (used + (1 << 29), hard))
    try:
        *_, report = checker.check(with_workspace(1 << 28), "c.cu", TYPICAL[:1])
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    assert isinstance(report, CheckReport)
    assert report.cases[0].outcome is CaseOutcome.UNSUPPORTED
    assert "more memory than the emulator may have" in report.message


class WatchedLab(Lab):
    """It knows the processes that it started."""

    def __init__(self, task: KernelTask):
        super().__init__(task)
        self.started: list[Child] = []

    def _new(self) -> Child:
        child = super()._new()
        assert isinstance(child, Child)
        self.started.append(child)
        return child


async def events_of(lab: WatchedLab, text: str, kill: bool) -> list[LabEvent]:
    found: list[LabEvent] = []
    async for event in lab.open(NamedSource(text, "candidate.cu")).check():
        found.append(event)
        if kill and isinstance(event, CaseCount):
            os.killpg(lab.started[-1].pid, signal.SIGKILL)
    return found


def test_no_candidate_ends_a_session(
    quick_task: KernelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps() -> list[list[LabEvent]]:
        lab = WatchedLab(quick_task)
        try:
            killed = await events_of(lab, BASELINE, kill=True)
            with monkeypatch.context() as patch:
                patch.setattr(Check, "most", 0.1)
                late = await events_of(lab, BASELINE, kill=False)
            return [killed, late, await events_of(lab, BASELINE, kill=False)]
        finally:
            lab.close()

    killed, late, fine = (events[-1] for events in asyncio.run(steps()))
    assert isinstance(killed, CheckReport)
    assert isinstance(late, CheckReport)
    assert isinstance(fine, CheckReport)
    assert killed.verdict is late.verdict is CheckVerdict.INCONCLUSIVE
    assert "SIGKILL" in killed.message
    assert late.message == "the check took more than 0.1 s of CPU time"
    assert fine.verdict is CheckVerdict.PASSED


def test_a_lab_that_does_not_work_blames_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Child:
        return Child("tests.no_such_module")

    async def steps() -> None:
        lab = Lab(TASK)
        monkeypatch.setattr(lab, "_new", broken)
        with pytest.raises(lab_module.LabFailed, match="no_such_module"):
            await events_of(lab, BASELINE, kill=False)

    asyncio.run(steps())
