"""Asks the gate about one kernel source, as `check` does, and then on a GPU as `bench` does."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from astra_tui.gpu.device import CudaDevice
from astra_tui.gpu.elf import loaded_sections
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.devices import open_device
from astra_tui.lab.on_gpu.opening import open_oracle
from astra_tui.lab.upstream import task_headers
from astra_tui.model.audit import Outcome
from astra_tui.model.check import CaseOutcome, CaseResult, CheckReport, CheckVerdict
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.findings import Acceptance
from astra_tui.model.launch import PlanError, find_plan
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.timing import WRONG_OUTPUT, WorkloadTiming

_OF_VERDICT = {
    CheckVerdict.PASSED: Outcome.PASSED,
    CheckVerdict.INCONCLUSIVE: Outcome.INCONCLUSIVE,
    CheckVerdict.UNSUPPORTED: Outcome.INCONCLUSIVE,
}
_DECIDING = frozenset({CaseOutcome.WRONG, CaseOutcome.FAULT, CaseOutcome.WRONGLY_REFUSED})
"""Outcomes of a case after which no other can change the verdict."""


class Gate:
    """The gate on one device, with one task open at a time."""

    def __init__(self, device: str, seed: int) -> None:
        """`seed` decides the cases that are drawn: none that the zoo was written for."""
        self.device = device
        self.seed = seed
        self._opened = ExitStack()
        self._folder: Path | None = None

    def close(self) -> None:
        """Ends the processes of the task that is open."""
        self._opened.close()
        self._folder = None

    def judge(
        self,
        folder: Path,
        name: str,
        text: str,
        original: str,
        rulings: tuple[Acceptance, ...] = (),
    ) -> tuple[Outcome, str]:
        """What the check says of a source of the task in `folder`, and why.

        `rulings` hold as if task.toml had them. What passes on a GPU is still to be timed.

        With the text of its original it is a mutant: it may be no program, or the same program.
        Raises UserError for what the audit itself cannot do.
        """
        self._open(folder)
        if original:
            found = self._as_mutant(name, text, original)
            if found is not None:
                return found, ""
        outcome, message = self._checked(name, text, rulings)
        if outcome is Outcome.PASSED and self.device != EMULATOR:
            return Outcome.UNTIMED, message
        return outcome, message

    def time(self, folder: Path, name: str, text: str) -> tuple[Outcome, str]:
        """What the timing says of a source that passed its check on this GPU, and why.

        The task's tuned kernel is its rival; launches are verified as in bench. It ends with
        the first workload that speaks against the source.
        """
        from astra_tui.gpu.timing.stopping import LOOKS
        from astra_tui.lab.on_gpu.bench import Bench, WorkloadDone
        from astra_tui.lab.on_gpu.measuring import MeasurementFailed, Options
        from astra_tui.lab.on_gpu.workload import compile_source

        self._open(folder)
        gpu, task, device = self._device.gpu, self._task, self._device.device
        assert gpu is not None, "a device that is not the emulator is a GPU"
        assert isinstance(device, CudaDevice)
        file = task.tuned_file if task.tuned_file.is_file() else task.baseline_file
        base, candidate = (
            compile_source(task, self._compiler, device.attributes, t, n)
            for t, n in ((file.read_text(encoding="utf-8"), str(file)), (text, name))
        )
        options = Options(warm=False, round_limit=LOOKS[0])
        try:
            with Bench(task, gpu.facts, gpu.tools, self._oracle, options) as bench:
                for event in bench.time(task.workloads, base, [candidate]):
                    found = _against(event.timing) if isinstance(event, WorkloadDone) else None
                    if found is not None:
                        return found
        except MeasurementFailed as error:
            return Outcome.WRONG, f"the measurement failed: {error}"
        return Outcome.PASSED, "passed its check, and every timed launch that was verified"

    def _open(self, folder: Path) -> None:
        if folder == self._folder:
            return
        self.close()
        self._task = load_task(folder)
        self._compiler = self._opened.enter_context(Compiler(upstream=task_headers(self._task)))
        opened = self._opened.enter_context(open_device(self.device, self._compiler))
        self._oracle = self._opened.enter_context(open_oracle(self._task, opened.gpu))
        self._checker = Checker(self._task, opened.device, self._compiler, self._oracle, self.seed)
        self._device = opened
        self._folder = folder

    def _as_mutant(self, name: str, text: str, original: str) -> Outcome | None:
        try:
            compilation = _compiled(self._task, self._compiler, name, text)
        except PlanError:
            return Outcome.NOT_COMPILED
        if not compilation.ok:
            return Outcome.NOT_COMPILED
        same = is_same_program(self._compiler, compilation, text, original)
        return Outcome.SAME_PROGRAM if same else None

    def _checked(
        self, name: str, text: str, rulings: tuple[Acceptance, ...]
    ) -> tuple[Outcome, str]:
        report = None
        checker = self._checker
        if rulings:
            task = replace(self._task, accepted=(*self._task.accepted, *rulings))
            parts = task, self._device.device, self._compiler, self._oracle, self.seed
            checker = Checker(*parts)
        try:
            for event in checker.check(text, name):
                if isinstance(event, CaseResult) and event.outcome in _DECIDING:
                    return Outcome.WRONG, f"{event.case.id}: {event.message}"
                if isinstance(event, CheckReport):
                    report = event
        except PlanError as error:
            return Outcome.WRONG, error.describe()
        assert report is not None, "a check ends with its report"
        if report.verdict is CheckVerdict.PASSED and rulings:
            ruled = "; ".join(ruling.describe() for ruling in rulings)
            return Outcome.PASSED, f"{report.message}, with a ruling: {ruled}"
        first = report.failed_cases[0] if report.failed_cases else None
        more = f"; {first.case.id}: {first.message}" if first is not None else ""
        return _OF_VERDICT.get(report.verdict, Outcome.WRONG), report.message + more


def _against(timing: WorkloadTiming) -> tuple[Outcome, str] | None:
    """What a timing of one workload says against a source."""
    for caveat in timing.caveats:
        if caveat.kind == WRONG_OUTPUT:
            return Outcome.WRONG, f"{timing.workload}: {caveat.message}"
    for caveat in timing.caveats:
        if caveat.invalidates:
            return Outcome.VOID, f"{timing.workload}: {caveat.message}"
    return None


def _compiled(task: KernelTask, compiler: Compiler, name: str, text: str) -> Compilation:
    source = read_source(task, text, name)
    cases = (*build_suite(task), *workload_cases(task))
    return compiler.compile(text, kernels_to_compile(task, source, cases))


def is_same_program(compiler: Compiler, compilation: Compilation, text: str, original: str) -> bool:
    """Whether a changed source and its original are one program under one launch plan.

    They are when NVRTC makes the same PTX of both, or ptxas the same machine code: stepping over
    the end of an array in registers, say, is undefined, and the compiler drops it.
    """
    if _plan(text) != _plan(original):
        return False
    expressions = tuple(kernel.expression for kernel in compilation.kernels)
    try:
        same = compiler.compile(original, expressions)
    except UserError:
        return False
    if not same.ok:
        return False
    if instructions(same.ptx) == instructions(compilation.ptx):
        return True
    return bool(same.cubin) and loaded_sections(same.cubin) == loaded_sections(compilation.cubin)


def _plan(text: str) -> str:
    found = find_plan(text)
    return text[found.begin : found.end]


def instructions(ptx: str) -> list[str]:
    """What a kernel executes: PTX without places, comments and generated names."""
    lines = (re.sub(r"//.*", "", line).strip() for line in ptx.splitlines())
    return [line for line in lines if line and not line.startswith((".loc", ".file", ".version"))]
