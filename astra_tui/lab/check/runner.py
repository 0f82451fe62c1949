"""Checks one source against its task, result by result.

Correctness comes in an order that fails early: compile, the cases from typical to exotic, the
properties, and a proof that the suite would have noticed a fake.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from astra_tui.lab.check.execution import Run, Source, resolve_case, run_case
from astra_tui.lab.check.fakes import prove_suite
from astra_tui.lab.check.inputs import Inputs, draw_inputs, scalars_of
from astra_tui.lab.check.judge import Allowance, judge_output
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.layout import POISON_SENTINEL
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.paths import UntriedPath, untried_paths
from astra_tui.lab.check.properties import check_properties, split_cases
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.device import Device
from astra_tui.model.check import (
    OWN_SIZE_OF,
    Case,
    CaseOutcome,
    CaseResult,
    CheckReport,
    FakeResult,
    OutputError,
    PropertyResult,
    Verdict,
)
from astra_tui.model.compilation import Compilation, Diagnostic
from astra_tui.model.counters import Counters, add_counters
from astra_tui.model.errors import UserError
from astra_tui.model.findings import FindingKind
from astra_tui.model.launch import (
    PlanError,
    Refused,
    ResolvedPlan,
    plan_of,
    validate_plan,
)
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask

CheckEvent = Compilation | CaseResult | PropertyResult | FakeResult | CheckReport
"""What a check tells while it runs; the report comes last."""


class NoSuchCase(UserError):
    """A filter that matches no case."""


def source_hash(text: str) -> str:
    """Identifies a candidate: SHA-256 of its text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_source(task: KernelTask, text: str, file: str) -> Source:
    """A source with its plan, checked against the task. Raises PlanError."""
    plan = plan_of(text, file)
    validate_plan(plan, task.scope, file)
    return Source(text, plan, file)


def select_cases(task: KernelTask, patterns: tuple[str, ...]) -> tuple[Case, ...]:
    """The task's cases whose id or name matches a pattern such as `float16/*`; all without one."""
    suite = build_suite(task)
    if not patterns:
        return suite
    chosen = tuple(
        c for c in suite if any(fnmatchcase(c.id, p) or fnmatchcase(c.name, p) for p in patterns)
    )
    if not chosen:
        raise NoSuchCase(
            f"no case of {task.name} matches {', '.join(patterns)}",
            hint="list them with: astra-tui check TASK --list",
        )
    return chosen


class Checker:
    """Checks sources of one task on one device, with one compiler and one oracle."""

    def __init__(self, task: KernelTask, device: Device, compiler: Compiler, oracle: Oracle):
        self.task = task
        self.device = device
        self.compiler = compiler
        self.oracle = oracle
        self._baseline: tuple[Source, Compilation] | None = None
        self._allowances: dict[tuple[str, str], Allowance] = {}
        self._proof: tuple[tuple[Case, ...], tuple[FakeResult, ...]] | None = None

    def check(
        self,
        text: str,
        file: str,
        cases: tuple[Case, ...] | None = None,
        *,
        whole_suite: bool | None = None,
    ) -> Iterator[CheckEvent]:
        """Checks a source; yields events as they come, the report last.

        `whole_suite` says that `cases` hold the task's suite and more, so that the suite is put
        to the proof as well; by default this is so when no cases are given.

        Raises PlanError for a plan that cannot be read or does not fit the task, and other
        UserErrors for a task whose reference fails.
        """
        whole_suite = cases is None if whole_suite is None else whole_suite
        suite = build_suite(self.task) if cases is None else cases
        check = _Check(self, read_source(self.task, text, file), suite)
        self.oracle.warm_up(suite)
        yield from check.run(whole_suite)

    def prove(self, suite: tuple[Case, ...]) -> Iterator[FakeResult]:
        """What the fakes come to on a suite; computed once, since no candidate takes part."""
        if self._proof is None or self._proof[0] != suite:
            found = []
            for fake in prove_suite(self.task, suite, self.oracle):
                found.append(fake)
                yield fake
            self._proof = suite, tuple(found)
        else:
            yield from self._proof[1]

    def allowance(self, case: Case, inputs: Inputs, output: str) -> Allowance:
        """The baseline's own error for one output of a case, as a fraction of the tolerance."""
        key = (case.id, output)
        if key not in self._allowances:
            for judged in self._baseline_errors(case, inputs):
                # What is wrong itself gives no measure for others, nor for itself.
                if judged.ok:
                    allowance = Allowance(judged.error, judged.relative_l2)
                    self._allowances[(case.id, judged.argument)] = allowance
            self._allowances.setdefault(key, Allowance())
        return self._allowances[key]

    def _baseline_errors(self, case: Case, inputs: Inputs) -> list[OutputError]:
        source, compilation = self._baseline_source()
        resolved = resolve_case(self.task, source, case, inputs.scalars, self.device.attributes)
        if isinstance(resolved, Refused) or not compilation.ok:
            return []
        kernels = tuple(launch.kernel for launch in resolved.launches)
        if not {k.expression for k in compilation.kernels}.issuperset(kernels):
            compilation = self.compiler.compile(source.text, kernels)
        run = run_case(
            self.task, source, compilation, resolved, case, inputs, self.device,
            checked=False, counted=False,
        )  # fmt: skip
        return [] if run.outcome.faults else self.judge(case, inputs, run, None)

    def _baseline_source(self) -> tuple[Source, Compilation]:
        if self._baseline is None:
            file = self.task.baseline_file
            source = read_source(self.task, file.read_text(encoding="utf-8"), str(file))
            cases = (*build_suite(self.task), *workload_cases(self.task))
            expressions = kernels_to_compile(self.task, source, cases, self.device.attributes)
            self._baseline = source, self.compiler.compile(source.text, expressions)
        return self._baseline

    def judge(
        self, case: Case, inputs: Inputs, run: Run, allowance: Callable[[str], Allowance] | None
    ) -> list[OutputError]:
        """Compares a run's outputs with the reference."""
        expected = self.oracle.expected(case, inputs)
        judged = []
        for argument in self.task.outputs:
            dtype = self.task.dtype_of(argument, case.dtype)
            parts = (
                argument.name,
                run.outputs[argument.name],
                expected.outputs[argument.name],
                dtype,
                self.task.tolerances.get(dtype),
            )
            result = judge_output(*parts)
            if not result.ok and allowance is not None and np.isfinite(result.error):
                result = judge_output(*parts, allowance(argument.name))
            judged.append(result)
        return judged

    def problem_of(self, case: Case, inputs: Inputs, run: Run) -> str:
        """What is wrong with the outputs of a counted workload; nothing where they are right."""
        # A case of the suite has the same name, and other sizes.
        counted = msgspec.structs.replace(case, name=f"counted {case.name}")
        judged = self.judge(case, inputs, run, lambda name: self.allowance(counted, inputs, name))
        return next((f"{o.argument}: {o.problem}" for o in judged if not o.ok), "")


class _Check:
    """One pass over the cases of one source."""

    def __init__(self, checker: Checker, source: Source, suite: tuple[Case, ...]):
        self.checker = checker
        self.task = checker.task
        self.source = source
        self.suite = suite
        self.started = time.perf_counter()
        self.results: list[CaseResult] = []
        self.properties: list[PropertyResult] = []
        self.fakes: list[FakeResult] = []
        self.lines: set[int] = set()
        """Lines of the launch plan whose launches were taken."""

    def run(self, whole_suite: bool) -> Iterator[CheckEvent]:
        attributes = self.checker.device.attributes
        untried = (
            untried_paths(self.task, self.source, self.suite, attributes) if whole_suite else ()
        )
        tried = (*self.suite, *(path.case for path in untried if path.case is not None))
        parts = (p for c in self.suite if _has_properties(c) for p in split_cases(self.task, c))
        workloads = workload_cases(self.task) if whole_suite else ()
        expressions = kernels_to_compile(
            self.task, self.source, (*tried, *parts, *workloads), attributes
        )
        compilation = self.checker.compiler.compile(self.source.text, expressions)
        compilation = _with_plan_lines(compilation, self.source)
        yield compilation
        if not compilation.ok:
            yield self._report(compilation, Verdict.COMPILE_ERROR, _first_error(compilation))
            return
        for case in tried:
            result, run, inputs = self._case(compilation, case)
            self.results.append(result)
            yield result
            if run is not None and _has_properties(case) and result.outcome.ok:
                yield from self._properties(compilation, case, inputs, run)
        if whole_suite:
            yield from self._workloads(untried)
            for fake in self.checker.prove(self.suite):
                self.fakes.append(fake)
                yield fake
        yield self._report(compilation, *self._verdict(), whole_suite)

    def _workloads(self, untried: tuple[UntriedPath, ...]) -> Iterator[CaseResult]:
        """What is to be said of the workloads at their own sizes, where nothing runs them.

        A GPU compares outputs of the launches that it times.
        """
        unreached = {path.workload.name: path for path in untried if path.case is None}
        for case in workload_cases(self.task):
            own = msgspec.structs.replace(case, name=OWN_SIZE_OF + case.name)
            result = self._unless_resolved(own)
            path = unreached.get(case.name)
            if result is None and path is not None and self.checker.device.name == EMULATOR:
                result = CaseResult(own, CaseOutcome.UNSUPPORTED, path.describe())
            if result is not None:
                self.results.append(result)
                yield result

    def _unless_resolved(self, case: Case) -> CaseResult | None:
        """What becomes of a case that the plan cannot launch."""
        try:
            resolved = self._resolve(case, Inputs({}, scalars_of(self.task, case)))
        except PlanError as error:
            return CaseResult(case, CaseOutcome.PLAN_ERROR, error.describe())
        return self._refused(case, resolved) if isinstance(resolved, Refused) else None

    def _case(self, compilation: Compilation, case: Case) -> tuple[CaseResult, Run | None, Inputs]:
        inputs = Inputs({}, scalars_of(self.task, case))
        try:
            resolved = self._resolve(case, inputs)
            if isinstance(resolved, Refused):
                return self._refused(case, resolved), None, inputs
            self.lines.update(launch.place.line for launch in resolved.launches)
            inputs = draw_inputs(self.task, case)
            run = self._run(compilation, resolved, case, inputs)
        except PlanError as error:
            return CaseResult(case, CaseOutcome.PLAN_ERROR, error.describe()), None, inputs
        result = self._judge(compilation, resolved, case, inputs, run)
        return result, run, inputs

    def _resolve(self, case: Case, inputs: Inputs) -> ResolvedPlan | Refused:
        attributes = self.checker.device.attributes
        return resolve_case(self.task, self.source, case, inputs.scalars, attributes)

    def _run(
        self, compilation: Compilation, resolved: ResolvedPlan, case: Case, inputs: Inputs
    ) -> Run:
        return run_case(
            self.task, self.source, compilation, resolved, case, inputs, self.checker.device
        )

    def _refused(self, case: Case, refused: Refused) -> CaseResult:
        if case.outside_contract:
            return CaseResult(case, CaseOutcome.REFUSED, refused.reason)
        text = f"the launch plan refuses a case of the contract: {refused.reason}"
        return CaseResult(case, CaseOutcome.WRONGLY_REFUSED, text)

    def _judge(
        self,
        compilation: Compilation,
        resolved: ResolvedPlan,
        case: Case,
        inputs: Inputs,
        run: Run,
    ) -> CaseResult:
        counters = run.outcome.counters
        faults = [f for f in run.findings if not f.is_warning]
        if faults:
            kind = faults[0].kind
            outcome = CaseOutcome.FAULT
            if kind is FindingKind.UNSUPPORTED:
                outcome = CaseOutcome.UNSUPPORTED
            text = faults[0].describe()
            return CaseResult(case, outcome, text, (), run.findings, run.kernels, counters)
        judged = tuple(
            self.checker.judge(
                case, inputs, run, lambda name: self.checker.allowance(case, inputs, name)
            )
        )
        wrong = [o for o in judged if not o.ok]
        message = f"{wrong[0].argument}: {wrong[0].problem}" if wrong else ""
        if not wrong and not case.outside_contract:
            message = self._second_poison(compilation, resolved, case, inputs, run)
        if not message:
            return CaseResult(
                case, CaseOutcome.PASSED, "", judged, run.findings, run.kernels, counters
            )
        if case.outside_contract:
            message = f"outside the contract, and not refused: {message}"
        return CaseResult(
            case, CaseOutcome.WRONG, message, judged, run.findings, run.kernels, counters
        )

    def _second_poison(
        self,
        compilation: Compilation,
        resolved: ResolvedPlan,
        case: Case,
        inputs: Inputs,
        first: Run,
    ) -> str:
        """Runs again with other bytes in undefined memory; the outputs may not change."""
        again = run_case(
            self.task, self.source, compilation, resolved, case, inputs, self.checker.device,
            poison=POISON_SENTINEL, checked=False, counted=False,
        )  # fmt: skip
        for name, bits in first.outputs.items():
            if not np.array_equal(bits, again.outputs[name]):
                return f"{name}: the result depends on what was in undefined memory before"
        return ""

    def _properties(
        self, compilation: Compilation, case: Case, inputs: Inputs, run: Run
    ) -> Iterator[PropertyResult]:
        def on_inputs(other: Case, changed: Inputs) -> dict[str, object]:
            resolved = self._resolve(other, changed)
            if isinstance(resolved, Refused):
                sizes = ", ".join(f"{name}={size}" for name, size in other.dims.items())
                raise PlanError(
                    f"the launch plan refuses {sizes}: {resolved.reason}",
                    file=self.source.file,
                    place=resolved.place,
                )
            result = run_case(
                self.task, self.source, compilation, resolved, other, changed, self.checker.device,
                checked=False, counted=False,
            )  # fmt: skip
            return dict(result.outputs)

        for found in check_properties(self.task, case, inputs, run.outputs, on_inputs):
            self.properties.append(found)
            yield found

    def _verdict(self) -> tuple[Verdict, str]:
        outcomes = [r.outcome for r in self.results]
        bad = [r for r in self.results if not r.outcome.ok]
        if CaseOutcome.PLAN_ERROR in outcomes:
            first = next(r for r in bad if r.outcome is CaseOutcome.PLAN_ERROR)
            return Verdict.PLAN_ERROR, first.message
        wrong = [r for r in bad if r.outcome is not CaseOutcome.UNSUPPORTED]
        if wrong:
            return Verdict.FAILED, f"{len(wrong)} of {len(outcomes)} cases failed"
        broken = [p for p in self.properties if not p.ok]
        if broken:
            return Verdict.FAILED, f"{broken[0].name}: {broken[0].message}"
        missed = [f for f in self.fakes if not f.caught]
        if missed:
            return Verdict.FAILED, f"the suite accepts a fake ({missed[0].name}): it proves nothing"
        if bad:
            return Verdict.UNSUPPORTED, bad[0].message
        return Verdict.PASSED, f"{len(outcomes)} cases passed"

    def _report(
        self, compilation: Compilation, verdict: Verdict, message: str, whole_suite: bool = False
    ) -> CheckReport:
        launches = {launch.place.line for launch in self.source.plan.launches()}
        counted = [r.counters for r in self.results if r.counters is not None]
        counters: Counters | None = add_counters(counted) if counted else None
        return CheckReport(
            task=self.task.name,
            task_hash=self.task.hash,
            source=self.source.file,
            source_hash=source_hash(self.source.text),
            device=self.checker.device.name,
            compiler=compilation.compiler,
            verdict=verdict,
            message=message,
            diagnostics=compilation.diagnostics,
            cases=tuple(self.results),
            properties=tuple(self.properties),
            fakes=tuple(self.fakes),
            counters=counters,
            seconds=time.perf_counter() - self.started,
            untried_lines=tuple(sorted(launches - self.lines)) if whole_suite else (),
        )


def _has_properties(case: Case) -> bool:
    return case.name == "typical"


def _with_plan_lines(compilation: Compilation, source: Source) -> Compilation:
    """Messages about a kernel's name get the line of the launch that names it."""
    lines = {launch.kernel: launch.place.line for launch in source.plan.launches()}

    def placed(diagnostic: Diagnostic) -> Diagnostic:
        line = lines.get(diagnostic.kernel.partition("<")[0].strip(), 0)
        if not diagnostic.kernel or not line:
            return diagnostic
        return Diagnostic(
            diagnostic.severity,
            f"the launch plan asks for '{diagnostic.kernel}': {diagnostic.message}",
            line,
            0,
            source.text.splitlines()[line - 1],
            diagnostic.kernel,
        )

    diagnostics = tuple(map(placed, compilation.diagnostics))
    return msgspec.structs.replace(compilation, diagnostics=diagnostics)


def _first_error(compilation: Compilation) -> str:
    error = compilation.errors[0] if compilation.errors else None
    if error is None:
        return "nothing was compiled"
    return f"line {error.line}: {error.message}" if error.line else error.message
