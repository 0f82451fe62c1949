"""Runs a candidate's small cases under the tools of compute-sanitizer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from astra_tui.gpu.launcher.request import WatchedCase, WatchRequest
from astra_tui.gpu.launcher.tools import WatchedRun, find_tool, tool_version, watch
from astra_tui.gpu.messages import DeviceFacts
from astra_tui.gpu.sanitizer.interpretation import interpret
from astra_tui.gpu.sanitizer.records import Log, read_log
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.devices import Opened
from astra_tui.lab.on_gpu.watched_case import case_to_watch
from astra_tui.lab.on_gpu.workload import Compiled, compile_source
from astra_tui.model.check import Case
from astra_tui.model.findings import (
    SanitizerReport,
    SanitizerTool,
    SanitizerVerdict,
    not_looked_at,
)
from astra_tui.model.task import KernelTask
from astra_tui.processes.shared_device import shared_device

PROGRAM = "compute-sanitizer"
SECONDS = 60.0
"""For one run of a tool; small cases take 1 to 2 s on an H100."""
EXIT_FOUND = 86

_REMEDY = (
    "install the CUDA toolkit (on Ubuntu with NVIDIA's repository: "
    "apt install cuda-sanitizer-13-0), or put compute-sanitizer on PATH"
)
_CASES = ("typical", "odd sizes shifted by 1", "all shifted by 1", "rows apart by 3", "smallest")
_COMMON = (
    "--print-limit", "100",
    "--error-exitcode", str(EXIT_FOUND),
    "--launch-timeout", "60",
    "--show-backtrace", "device",
    "--target-processes", "all",
)  # fmt: skip

ON_EMULATOR = (
    "compute-sanitizer needs a GPU; the emulator checks bounds, alignment, races, barriers and "
    "uninitialised reads itself"
)
_OF_TOOL = {
    # API errors are the launcher's to report; newer bindings look for functions that older
    # drivers lack, and each of those would be one.
    SanitizerTool.MEMCHECK: ("--padding", "256", "--report-api-errors", "no"),
    SanitizerTool.RACECHECK: ("--racecheck-report", "analysis"),
    SanitizerTool.INITCHECK: (),
    SanitizerTool.SYNCCHECK: (),
}


def find_sanitizer() -> Path | None:
    """compute-sanitizer on PATH or in an installed toolkit."""
    return find_tool(PROGRAM)


def cases_to_sanitize(task: KernelTask) -> tuple[Case, ...]:
    """Small cases of the suite: typical, odd, misaligned; other types have one at most."""
    suite = build_suite(task)
    first = tuple(c for c in suite if c.dtype is task.dtypes[0] and c.name in _CASES)
    others = tuple(c for c in suite if c.dtype is not task.dtypes[0] and c.name == _CASES[0])
    return tuple(c for c in (*first, *others[:1]) if not c.outside_contract)


def sanitize(
    task: KernelTask,
    compiled: Compiled,
    facts: DeviceFacts,
    *,
    cases: Sequence[Case] | None = None,
    tools: Sequence[SanitizerTool] = tuple(SanitizerTool),
    seconds: float = SECONDS,
    keep: Callable[[WatchedRun], None] = lambda _run: None,
) -> tuple[SanitizerReport, ...]:
    """One report a tool, in the order given. Raises PlanError where arguments do not fit.

    The compilation has to hold the kernels of the cases (check.kernels.kernels_to_compile).
    `seconds` bounds each run of a tool; `keep` gets every run with the text of the tool.
    """
    program = find_sanitizer()
    if program is None:
        return tuple(_unavailable(tool) for tool in tools)
    chosen = cases_to_sanitize(task) if cases is None else cases
    watched = []
    for case in chosen:
        prepared = case_to_watch(task, compiled, case, facts.attributes)
        watched += [prepared[0]] if prepared is not None else []
    if not watched:
        return tuple(_nothing_to_watch(tool) for tool in tools)
    gate = _Gate(program, facts.uuid, seconds, keep)
    return tuple(gate.report(tool, watched) for tool in tools)


def _unavailable(tool: SanitizerTool) -> SanitizerReport:
    problem = f"{PROGRAM} was not found"
    return SanitizerReport(tool, SanitizerVerdict.UNAVAILABLE, problem=problem, remedy=_REMEDY)


def _nothing_to_watch(tool: SanitizerTool) -> SanitizerReport:
    problem = "the launch plan refuses every case"
    return SanitizerReport(tool, SanitizerVerdict.FAILED, problem=problem)


class _Gate:
    """One program on one device."""

    def __init__(
        self, program: Path, uuid: str, seconds: float, keep: Callable[[WatchedRun], None]
    ):
        self._program = program
        self._uuid = uuid
        self._seconds = seconds
        self._keep = keep
        self._version = tool_version(program)

    def report(self, tool: SanitizerTool, cases: list[WatchedCase]) -> SanitizerReport:
        """All cases in one process; only when something is found one by one, to name the case."""
        began = time.monotonic()
        found = self._run(tool, cases)
        if found.verdict is SanitizerVerdict.FOUND and len(cases) > 1:
            singly = (self._run(tool, [case]) for case in cases)
            found = next((r for r in singly if r.verdict is SanitizerVerdict.FOUND), found)
        seconds = time.monotonic() - began
        return msgspec.structs.replace(found, version=self._version, seconds=seconds)

    def _run(self, tool: SanitizerTool, cases: list[WatchedCase]) -> SanitizerReport:
        options = ["--tool", tool.value, *_COMMON, *_OF_TOOL[tool]]
        request = WatchRequest(self._uuid, tuple(cases), seconds=self._seconds)
        with shared_device(self._uuid).together():
            run = watch(self._program, options, request)
        self._keep(run)
        return report_of(tool, cases, run)


def report_of(
    tool: SanitizerTool, cases: Sequence[WatchedCase], run: WatchedRun
) -> SanitizerReport:
    """What one run of a tool says. CLEAN needs the tool's summary and the launcher's answer."""
    log = read_log(run.log)
    placed = run.answer.placed if run.answer is not None else {}
    meaning = interpret(log, placed)
    problem = "\n".join(_problems(run, len(cases), log))
    verdict = SanitizerVerdict.CLEAN
    if meaning.findings or (log.errors and meaning.unread):
        verdict = SanitizerVerdict.FOUND
    elif problem or log.errors:
        verdict = SanitizerVerdict.FAILED
        problem = problem or f"the tool counts {log.errors} errors and shows none"
    return SanitizerReport(
        tool=tool,
        verdict=verdict,
        findings=meaning.findings,
        warnings=meaning.warnings,
        cases=tuple(case.name for case in cases),
        errors=log.errors or 0,
        unread=meaning.unread,
        problem=problem,
    )


def _problems(run: WatchedRun, cases: int, log: Log) -> Iterator[str]:
    if run.problem:
        yield run.problem
    if run.answer is None:
        yield "the launcher gave no answer" + (f": {run.words}" if run.words else "")
    elif run.answer.failed is not None:
        yield f"the launches did not end well: {run.answer.failed.message}"
    elif run.answer.done < cases:
        yield f"only {run.answer.done} of {cases} cases were run"
    if log.errors is None:
        words = "; ".join(record.head for record in log.records[:3])
        yield "the tool wrote no summary" + (f": {words}" if words else "")


def sanitize_source(
    task: KernelTask,
    compiler: Compiler,
    opened: Opened,
    text: str,
    file: str,
    cases: Sequence[Case] | None = None,
) -> tuple[SanitizerReport, ...]:
    """One report a tool for a source that has passed its check; by default on small cases.

    On the emulator no tool looks at it, and the reports say what does. Raises UserError for a
    source that does not compile or whose launch plan is wrong.
    """
    if opened.gpu is None:
        return not_looked_at(SanitizerVerdict.UNAVAILABLE, ON_EMULATOR)
    compiled = compile_source(task, compiler, opened.device.attributes, text, file)
    return sanitize(task, compiled, opened.gpu.facts, cases=cases)
