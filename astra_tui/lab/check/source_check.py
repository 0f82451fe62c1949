"""The pass over one source: every case, its reruns and properties, workloads, conditions.

An event for each; the report comes last.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.basis import Basis
from astra_tui.lab.check.constants import PlanSide, cases_of_plan_sides, open_plan_side
from astra_tui.lab.check.evidence import CheckEvidence, verdict_of
from astra_tui.lab.check.execution import Run, Source, accepts_of, resolve_case, run_case
from astra_tui.lab.check.fullsize import FullSize
from astra_tui.lab.check.in_part import InPart
from astra_tui.lab.check.inputs import Inputs, scalars_of
from astra_tui.lab.check.judge import Allowance
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.oracle import ReferenceFailed
from astra_tui.lab.check.paths import SourceCases
from astra_tui.lab.check.properties import check_properties, split_cases
from astra_tui.lab.check.reruns import (
    ErrorBoundRuns,
    RerunDifference,
    of_float_atomics,
    run_at_error_bounds,
    second_run,
    seed_of,
)
from astra_tui.lab.check.suite import LARGE_ELEMENTS, build_suite
from astra_tui.lab.conditions.closing import Closing, Probed
from astra_tui.lab.conditions.coverage import Coverage, Reporting, compile_reporting
from astra_tui.lab.conditions.untaken import Untaken
from astra_tui.model.check import (
    FAR,
    NEAR,
    OWN_SIZE_OF,
    PATH_OF,
    PLAN_AT,
    Case,
    CaseOutcome,
    CaseResult,
    CaseTrail,
    CheckReport,
    CheckVerdict,
    ConditionResult,
    ConditionStatus,
    FakeResult,
    FullSizeResult,
    PropertyResult,
    StillChecking,
)
from astra_tui.model.compilation import Compilation, Diagnostic
from astra_tui.model.counters import Counters, add_counters
from astra_tui.model.device import PLAIN, Sides, Variation, has_float_atomics
from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType
from astra_tui.model.findings import FindingKind
from astra_tui.model.launch import PlanError, Refused, ResolvedPlan
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import Workload

CheckEvent = (
    Compilation
    | CaseResult
    | PropertyResult
    | FullSizeResult
    | FakeResult
    | StillChecking
    | CheckReport
)
"""What a check tells while it runs; the report comes last."""

CHECK_STEPS = 12_000_000
"""Steps of the emulator that a whole check may take (a case alone may take 300,000)."""

SEEKING_STEPS = CHECK_STEPS // 2
"""Steps up to which cases run once more for nothing but conditions that are open still. A source of
which one side is out of reach would take twice the steps of one without conditions of its own."""


class SourceCheck:
    """One pass over the cases of one source."""

    def __init__(
        self,
        basis: Basis,
        source: Source,
        suite: tuple[Case, ...],
        known: tuple[CaseResult, ...] = (),
    ):
        self.basis = basis
        self.task = basis.task
        self.source = source
        self.suite = suite
        self.counted = frozenset(case.id for case in suite)
        """The cases that are counted: the same for all sources, so that sums compare."""
        self.known = {result.case.id: result for result in known}
        """What need not run again, by the case's id."""
        self.started = time.perf_counter()
        self.seen = CheckEvidence()
        self.launched: set[tuple[DType, int]] = set()
        """Lines of the launch plan whose launches were taken, by element type."""
        self.choices: set[tuple[DType, tuple[int, int, bool]]] = set()
        """Sides of the launch plan's other conditions that were taken, by element type."""
        self.plan_sides: set[PlanSide] = set()
        """Sides of the launch plan's `min` and `max` that were taken."""
        self.error_bound_runs = ErrorBoundRuns()
        self.steps = 0
        """What an emulator has spent on this check so far."""
        self.seeking_steps = SEEKING_STEPS
        self.repeated: set[tuple[str, ...]] = set()
        """Kernels that ran on another poison, too."""
        self.reporting: Reporting | None = None
        self.coverage: Coverage | None = None

    def run(self, whole_suite: bool) -> Iterator[CheckEvent]:
        """The whole pass, or no more than its cases; the report comes last."""
        tried = self._tried(whole_suite)
        expressions, compilation = self._compile(tried, whole_suite)
        yield compilation
        if not compilation.ok:
            yield self._report(compilation, CheckVerdict.COMPILE_ERROR, _first_error(compilation))
            return
        if self.basis.emulator_check is not None:
            known = {case.id for case in build_suite(self.task)}
            added = tuple(case for case in self.suite if case.id not in known)
            only = None if whole_suite else self.suite
            self.basis.emulator_check.begin(self.source, added, only, self.basis.seed)
        if whole_suite and self.basis.device.name == EMULATOR:
            self._let_conditions_report(expressions)
        for case in tried:
            result, run, inputs = self._case(compilation, case)
            self.seen.results.append(result)
            yield result
            if _hangs(result) or self.steps > CHECK_STEPS:
                failed = self.seen.has_failed
                verdict = CheckVerdict.FAILED if failed else CheckVerdict.INCONCLUSIVE
                yield self._report(compilation, verdict, self._ended(result, len(tried)))
                return
            if _has_properties(case) and result.outcome is CaseOutcome.PASSED:
                if run is None:
                    run, inputs = self._again(compilation, case)
                yield from self._properties(compilation, case, inputs, run)
        if whole_suite:
            yield from self._workloads(compilation)
            for found in self._at_full_size(compilation):
                self.seen.full_size.append(found)
                yield found
            yield from self._beyond_on_gpu(compilation)
            for fake in self.basis.prove(self.suite):
                self.seen.fakes.append(fake)
                yield fake
            yield from self._close_conditions(compilation)
            yield from self._close_plan_sides(compilation)
            self._close_plan()
        yield from self._await_emulator()
        yield self._report(compilation, *verdict_of(self.seen), whole_suite)

    def _await_emulator(self) -> Iterator[CaseResult | StillChecking]:
        """What the emulator finds of a source that a GPU has checked."""
        if self.basis.emulator_check is None:
            return
        for verdict in self.basis.emulator_check.wait():
            self.seen.on_emulator = verdict
            if verdict is None:
                yield StillChecking()
            else:
                self.seen.results += verdict.failed
                yield from verdict.failed

    def run_part(self, part: int, parts: int) -> Iterator[CaseResult]:
        """The results of every so-many-th case of a whole pass, up to one that ends it."""
        tried = self._tried(whole_suite=True)
        expressions, compilation = self._compile(tried, whole_suite=True)
        if not compilation.ok:
            return
        self._let_conditions_report(expressions)
        self.seeking_steps //= parts
        for case in tried[part::parts]:
            result, _, _ = self._case(compilation, case)
            yield result
            if _hangs(result) or self.steps > CHECK_STEPS:
                return

    def _tried(self, whole_suite: bool) -> tuple[Case, ...]:
        """The suite, and in a whole pass the cases that the source makes necessary."""
        if not whole_suite:
            return self.suite
        return *self.suite, *self._own.cases

    @property
    def _own(self) -> SourceCases:
        return self.basis.cases_of(self.source, self.suite)

    @property
    def _outsized(self) -> tuple[tuple[Case, bool], ...]:
        """What is too large for a case, or has many rows, and whether it is looked at in part."""
        return *self.basis.beyond(self.source, self.suite), *self._own.large

    def _compile(
        self, tried: tuple[Case, ...], whole_suite: bool
    ) -> tuple[tuple[str, ...], Compilation]:
        """The kernels that a pass needs, as C++ names, and what they compile to."""
        split = (p for c in self.suite if _has_properties(c) for p in split_cases(self.task, c))
        workloads: tuple[Case, ...] = ()
        if whole_suite:
            beyond = (case for case, _ in self._outsized)
            workloads = (*workload_cases(self.task), *beyond)
        cases = (*tried, *split, *workloads)
        attributes = self.basis.device.attributes
        expressions = kernels_to_compile(self.task, self.source, cases, attributes)
        compilation = self.basis.compiler.compile(self.source.text, expressions)
        return expressions, _with_plan_lines(compilation, self.source)

    def _ended(self, last: CaseResult, cases: int) -> str:
        """Why a check ends before its last case."""
        done = f"after {len(self.seen.results)} of {cases} cases"
        if _hangs(last):
            return f"{last.message}; the check ends {done}: the others would take as long"
        return (
            f"the check ends {done}: together they took {self.steps:,} steps, {CHECK_STEPS:,} may"
        )

    def _close_conditions(self, compilation: Compilation) -> Iterator[CheckEvent]:
        """Looks for cases that take the sides of conditions that are still open, and runs them."""
        if self.coverage is None or self.reporting is None:
            return
        if self.seen.has_failed:
            return  # The verdict does not depend on them any more.
        found: list[Case] = []

        def probe(case: Case) -> Probed:
            probed = self._takes_new_sides(case)
            found.extend([case] if probed.took else [])
            return probed

        def probe_large(case: Case) -> None:
            large.extend(self._made_at_full_size(compilation, case))

        large: list[FullSizeResult] = []
        suite = tuple(self.seen.results)
        made = tuple(case for case, in_part in self._own.large if not in_part)
        closed = Closing(
            *(self.task, self.source, self.reporting, self.coverage, suite, probe),
            probe_large,
            made,
        ).close()
        self.seen.conditions = tuple(map(self._ruled, closed))
        self.seen.full_size += large
        yield from large
        for case in found:
            result, _, _ = self._case(compilation, case)
            self.seen.results.append(result)
            yield result

    def _made_at_full_size(self, compilation: Compilation, case: Case) -> Iterator[FullSizeResult]:
        """A case made for an open side that is too large to run whole, as a workload is checked."""
        device = self.basis.device
        attributes = device.attributes
        compiled = {kernel.expression for kernel in compilation.kernels}
        kernels = kernels_to_compile(self.task, self.source, (case,), attributes)
        if not isinstance(device, Emulator) or not compiled.issuperset(kernels):
            return
        try:
            resolved = self._resolve(case, Inputs({}, scalars_of(self.task, case)))
        except PlanError:
            return  # What cannot be launched does nothing wrong.
        if isinstance(resolved, ResolvedPlan):
            yield self._one_at_full_size(compilation, device, case, resolved)

    def _close_plan_sides(self, compilation: Compilation) -> Iterator[CaseResult]:
        """Runs cases for sides of the plan's `min` and `max` that could have been taken; on the
        emulator, which runs with every check. What is too large for that, or takes kernels that no
        other case does, stays open.
        """
        if self.seen.has_failed or self.basis.device.name != EMULATOR:
            return
        attributes = self.basis.device.attributes
        parts = self.task, self.source, self.plan_sides.copy(), attributes
        compiled = {kernel.expression for kernel in compilation.kernels}
        for case, sides in cases_of_plan_sides(*parts):
            is_small = self.task.elements(case.dims, case.dtype) <= LARGE_ELEMENTS
            kernels = kernels_to_compile(self.task, self.source, (case,), attributes)
            if is_small and compiled.issuperset(kernels):
                result, _, _ = self._case(compilation, case)
                self.seen.results.append(result)
                yield result
            left = sorted(sides - self.plan_sides)
            found = (self._ruled(open_plan_side(self.source, side, case)) for side in left)
            self.seen.conditions = (*self.seen.conditions, *found)

    def _close_plan(self) -> None:
        """Adds the parts of the plan that nothing took: proved to be out of reach, or open; on the
        emulator, which runs with every check.
        """
        if self.seen.has_failed or self.basis.device.name != EMULATOR:
            return
        found: dict[object, ConditionResult] = {}
        for untaken in self._own.untaken:
            if not self._took(untaken):
                told = untaken.part, untaken.is_impossible  # Not again with other sizes.
                found.setdefault(told, self._ruled(untaken.result))
        self.seen.conditions = (*self.seen.conditions, *found.values())

    def _took(self, untaken: Untaken) -> bool:
        """Whether something took a part after all; sizes that are looked at in part alone take
        one for the first element type that they have.
        """
        part = untaken.part
        took = self.choices if part.choice is not None else self.launched
        what = part.choice or part.place.line
        found = {dtype for dtype, taken in took if taken == what}
        return untaken.dtype in found or (untaken.is_beyond and bool(found))

    def _note_plan(self, case: Case, resolved: ResolvedPlan) -> None:
        """Notes what a run takes of the launch plan."""
        lines = (launch.place.line for launch in resolved.launches if all(launch.grid))
        self.launched.update((case.dtype, line) for line in lines)
        chosen = resolved.choices | resolved.instance_choices
        self.choices.update((case.dtype, choice) for choice in chosen)
        self.plan_sides.update(resolved.sides)

    def _ruled(self, condition: ConditionResult) -> ConditionResult:
        """An open side as accepted, where the task says so."""
        if condition.status is not ConditionStatus.OPEN:
            return condition
        file = Path(self.source.file).name
        line = self.source.text.splitlines()[condition.line - 1]
        names = (condition.kernel, condition.function)
        for ruling in self.task.accepted:
            about = "".join(ruling.condition.split()) == "".join(condition.text.split())
            if ruling.condition and about and any(ruling.covers(file, n, line) for n in names):
                return msgspec.structs.replace(
                    condition, status=ConditionStatus.ACCEPTED, why=ruling.reason
                )
        return condition

    def _takes_new_sides(self, case: Case) -> Probed:
        """Runs a case with reporting conditions only, unchecked."""
        assert self.coverage is not None
        assert self.reporting is not None
        try:
            inputs = self.basis.inputs.of(case)
            resolved = self._resolve(case, inputs)
            if isinstance(resolved, Refused):
                return Probed(took=False)
            run = run_case(
                self.task, self.source, self.reporting.compilation, resolved, case, inputs,
                self.basis.device, checked=False, counted=False,
            )  # fmt: skip
        except PlanError:
            return Probed(took=False)
        return Probed(self.coverage.note(run.outcome.sides, case.id), run.outcome.steps)

    def _let_conditions_report(self, expressions: tuple[str, ...]) -> None:
        compiler = self.basis.compiler
        self.reporting = compile_reporting(compiler, self.source.text, expressions)
        if self.reporting is not None:
            self.coverage = Coverage(self.reporting.source)

    def _workloads(self, compilation: Compilation) -> Iterator[CaseResult]:
        """The workloads that the plan cannot launch at their own sizes; on a GPU, all of them."""
        for case in workload_cases(self.task):
            own = msgspec.structs.replace(case, name=OWN_SIZE_OF + case.name)
            result = self._unless_resolved(own)
            if result is None and self.basis.device.name != EMULATOR:
                (workload,) = (w for w in self.task.workloads if w.name == case.name)
                result = self._on_gpu(compilation, workload)
            if result is not None:
                self.seen.results.append(result)
                yield result

    def _on_gpu(self, compilation: Compilation, workload: Workload) -> CaseResult | None:
        """The result of all rows of a workload at its own size; None where memory is too small."""
        # Only where there is a GPU: its package knows this one.
        from astra_tui.gpu.device import CudaDevice
        from astra_tui.lab.on_gpu.own_size import OwnSize
        from astra_tui.lab.on_gpu.workload import Compiled

        device = self.basis.device
        if not isinstance(device, CudaDevice):
            return None
        own = OwnSize.drawn(self.task, workload, device, self.basis.oracle)
        if not own.fits:
            return None

        def allowed() -> Mapping[str, Allowance]:
            source, compiled = self.basis.baseline_source()
            is_no_measure = not compiled.ok or source.text == self.source.text
            return {} if is_no_measure else own.errors(Compiled(source, compiled))

        return own.check(Compiled(self.source, compilation), allowed)

    def _beyond_on_gpu(self, compilation: Compilation) -> Iterator[CaseResult]:
        """Many rows, far sizes and wide rows, until a case fails."""
        if isinstance(self.basis.device, Emulator):
            return
        made = ((case, True) for case, _ in self._own.large)
        for case, is_large in (*self.basis.beyond(self.source, self.suite), *made):
            if self.seen.has_failed:
                return
            result: CaseResult | None
            if is_large:
                result = self._large(compilation, case)
            else:
                result, _, _ = self._case(compilation, case)
            if result is not None:
                self.seen.results.append(result)
                yield result

    def _large(self, compilation: Compilation, case: Case) -> CaseResult | None:
        """The result of a size that is listed nowhere; None where this GPU cannot tell."""
        try:
            resolved = self._resolve(case, Inputs({}, scalars_of(self.task, case)))
        except PlanError:
            return None  # What cannot be launched does nothing wrong.
        if isinstance(resolved, Refused):
            return None
        try:
            result = self._on_gpu(compilation, Workload(case.name, case.dims, case.dtype))
        except ReferenceFailed:
            return None
        if result is None or _lacks_memory(result):
            return None
        self._note_plan(case, resolved)
        return result

    def _at_full_size(self, compilation: Compilation) -> Iterator[FullSizeResult]:
        """The workloads at their own sizes, on the emulator, unless a case has failed already."""
        basis = self.basis
        failed = self.seen.has_failed
        if failed or not isinstance(basis.device, Emulator):
            return
        for case in workload_cases(self.task):
            try:
                resolved = self._resolve(case, Inputs({}, scalars_of(self.task, case)))
                if isinstance(resolved, ResolvedPlan):
                    self._note_plan(case, resolved)
                    yield self._one_at_full_size(compilation, basis.device, case, resolved)
            except PlanError as error:
                yield FullSizeResult(case.name, CaseOutcome.PLAN_ERROR, error.describe())
        for case, in_part in self._outsized:
            try:
                resolved = self._resolve(case, Inputs({}, scalars_of(self.task, case)))
                if isinstance(resolved, ResolvedPlan):
                    self.plan_sides.update(resolved.sides)
                    parts = compilation, basis.device, case, resolved
                    found = self._in_part(*parts) if in_part else self._beyond(*parts)
                    if not found.reduced:
                        self._note_plan(case, resolved)
                    yield found
            except PlanError:
                continue  # What cannot be launched does nothing wrong.

    def _beyond(
        self, compilation: Compilation, device: Emulator, case: Case, resolved: ResolvedPlan
    ) -> FullSizeResult:
        """Sizes that no workload has; where they are too much, no more than a part of them."""
        found = self._one_at_full_size(compilation, device, case, resolved)
        is_too_much = found.outcome in (CaseOutcome.INCONCLUSIVE, CaseOutcome.UNSUPPORTED)
        if case.name.startswith((FAR, PLAN_AT)) and is_too_much:
            return self._in_part(compilation, device, case, resolved)
        return found

    def _in_part(
        self, compilation: Compilation, device: Emulator, case: Case, resolved: ResolvedPlan
    ) -> FullSizeResult:
        parts = self.task, device, self.source, compilation, case, self.basis.seed
        part = InPart(*parts, self.basis.inputs)
        return part.run(resolved, self.basis.judge_rows)

    def _one_at_full_size(
        self, compilation: Compilation, device: Emulator, case: Case, resolved: ResolvedPlan
    ) -> FullSizeResult:
        reporting = None
        if self.coverage is not None and self.reporting is not None:
            kernels = tuple(launch.kernel for launch in resolved.launches)
            may_take = self.coverage.may_take(kernels)
            reporting = self.reporting.compilation if may_take else None
        seed = self.basis.seed
        parts = self.task, device, self.source, compilation, case, seed, reporting
        run = FullSize(*parts, drawn=self.basis.inputs)
        result = run.run(resolved, self.basis.judge_rows)
        if self.coverage is not None and result.outcome is CaseOutcome.PASSED:
            self.coverage.note(run.sides, OWN_SIZE_OF + case.name)
        return result

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
            self._note_plan(case, resolved)
            known = self._known(case)
            if known is not None:
                return known, None, inputs
            before = self.steps, len(self.repeated), self._noted
            inputs = self.basis.inputs.of(case)
            run = self._run(compilation, resolved, case, inputs)
        except PlanError as error:
            return CaseResult(case, CaseOutcome.PLAN_ERROR, error.describe()), None, inputs
        result = self._judge(compilation, resolved, case, inputs, run)
        return msgspec.structs.replace(result, trail=self._trail(case, *before)), run, inputs

    @property
    def _noted(self) -> tuple[int, int]:
        return self.coverage.noted if self.coverage is not None else (0, 0)

    def _trail(
        self, case: Case, steps: int, repeated: int, noted_before: tuple[int, int]
    ) -> CaseTrail:
        """What a case added to this check, which stood at these figures before."""
        noted = self.coverage.since(*noted_before) if self.coverage is not None else {}
        return CaseTrail(
            steps=self.steps - steps,
            repeated=len(self.repeated) > repeated,
            edge_lines=self.error_bound_runs.lines.get(case.id, ()),
            sides={name: seen.as_rows() for name, seen in noted.items()},
        )

    def _known(self, case: Case) -> CaseResult | None:
        """The result of a case that ran before this check was cut off, with its trail."""
        result = self.known.get(case.id)
        if result is None or result.case != case or result.trail is None:
            return None
        trail = result.trail
        self.steps += trail.steps
        if trail.repeated:
            self.repeated.add(result.kernels)
        if trail.edge_lines:
            self.error_bound_runs.note(case, result.kernels, trail.edge_lines)
        if self.coverage is not None:
            sides = {name: Sides.of_rows(rows) for name, rows in trail.sides.items()}
            self.coverage.note(sides, case.id)
        return result

    def _again(self, compilation: Compilation, case: Case) -> tuple[Run, Inputs]:
        """The outputs of a case that is known to pass."""
        inputs = self.basis.inputs.of(case)
        resolved = self._resolve(case, inputs)
        assert isinstance(resolved, ResolvedPlan)
        run = run_case(
            self.task, self.source, compilation, resolved, case, inputs, self.basis.device,
            checked=False, counted=False,
        )  # fmt: skip
        return run, inputs

    def _resolve(self, case: Case, inputs: Inputs) -> ResolvedPlan | Refused:
        attributes = self.basis.device.attributes
        return resolve_case(self.task, self.source, case, inputs.scalars, attributes)

    def _run(
        self, compilation: Compilation, resolved: ResolvedPlan, case: Case, inputs: Inputs
    ) -> Run:
        run = run_case(
            self.task, self.source, compilation, resolved, case, inputs, self.basis.device,
            counted=case.id in self.counted,
        )  # fmt: skip
        self.steps += run.outcome.steps
        return run

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
        counters = run.outcome.counters if case.id in self.counted else None
        faults = [f for f in run.findings if not f.is_warning]
        if self.task.deterministic:
            faults += [f for f in run.findings if f.kind is FindingKind.FLOAT_ATOMICS]
        if faults:
            kind = faults[0].kind
            outcome = CaseOutcome.FAULT
            if kind is FindingKind.UNSUPPORTED:
                outcome = CaseOutcome.UNSUPPORTED
            text = faults[0].describe()
            return CaseResult(case, outcome, text, (), run.findings, run.kernels, counters)
        judged = tuple(
            self.basis.judge(
                case, inputs, run, lambda name: self.basis.allowance(case, inputs, name)
            )
        )
        wrong = [o for o in judged if not o.ok]
        message = f"{wrong[0].argument}: {wrong[0].problem}" if wrong else ""
        findings = run.findings
        if not wrong and not case.outside_contract:
            for found in self._reruns(compilation, resolved, case, inputs, run):
                if found.finding is not None:
                    findings = (*findings, found.finding)
                if found.finding is None or not found.finding.is_warning:
                    message = found.message
                    break
        if not message:
            return CaseResult(case, CaseOutcome.PASSED, "", judged, findings, run.kernels, counters)
        if case.outside_contract:
            message = f"outside the contract, and not refused: {message}"
        elif wrong and self.source.text != self.basis.baseline_source()[0].text:
            fault = self.basis.fault_of_task(case, inputs, [o.argument for o in wrong])
            if fault:
                outcome = CaseOutcome.INCONCLUSIVE
                return CaseResult(case, outcome, fault, judged, findings, run.kernels, counters)
        return CaseResult(case, CaseOutcome.WRONG, message, judged, findings, run.kernels, counters)

    def _poison_may_hide(self, run: Run) -> bool:
        """Whether another poison could show what this run did not.

        The emulator reports reads of undefined memory, so that there only what has still the bits
        of the poison can be unwritten. Each path is run again once all the same.
        """
        is_first = run.kernels not in self.repeated
        self.repeated.add(run.kernels)
        if is_first or self.basis.device.name != EMULATOR:
            return True
        return any((bits == np.iinfo(bits.dtype).max).any() for bits in run.outputs.values())

    def _may_take_sides(self, case: Case, run: Run) -> bool:
        """Whether a kernel of a run has conditions that have not gone both ways yet, and the case
        is to be run for them: those of the source's own paths and sizes are, of others the first.
        """
        is_own = case.name.startswith((PATH_OF, NEAR, PLAN_AT))
        if self.coverage is None or not (is_own or self.steps <= self.seeking_steps):
            return False
        return self.coverage.may_take(run.kernels)

    def _reruns(
        self,
        compilation: Compilation,
        resolved: ResolvedPlan,
        case: Case,
        inputs: Inputs,
        first: Run,
    ) -> Iterator[RerunDifference]:
        """What other runs of a case that passed show; see reruns.py."""
        accepts = accepts_of(self.task, self.source)

        def again(poison: str, variation: Variation, program: Compilation = compilation) -> Run:
            run = run_case(
                self.task, self.source, program, resolved, case, inputs, self.basis.device,
                poison=poison, checked=False, counted=False, variation=variation,
            )  # fmt: skip
            self.steps += run.outcome.steps
            return run

        def problem(run: Run, edges: Variation = PLAIN) -> str:
            if run.outcome.faults:
                return run.outcome.faults[0].describe()

            def allowance(name: str) -> Allowance:
                return self.basis.allowance(case, inputs, name, edges)

            judged = self.basis.judge(case, inputs, run, allowance)
            return next((f"{o.argument}: {o.problem}" for o in judged if not o.ok), "")

        def same(other: Run) -> bool:
            equal = not other.outcome.faults and all(
                np.array_equal(b, other.outputs[n]) for n, b in first.outputs.items()
            )
            return equal or (by_tolerance and not problem(other))

        def second(poison: str, variation: Variation) -> Run:
            """Instructions that conditions add can change roundings: a difference counts only if
            the source itself shows it, too.
            """
            if self.reporting is not None and self.coverage is not None:
                run = again(poison, variation, self.reporting.compilation)
                self.coverage.note(run.outcome.sides, case.id)
                if same(run):
                    return run
            return again(poison, variation)

        by_tolerance = has_float_atomics(compilation.ptx) and not self.task.deterministic
        caution = of_float_atomics(first, self.task.deterministic)
        if caution is not None:
            yield RerunDifference(caution.message, caution)
        found = None
        if self._poison_may_hide(first) or self._may_take_sides(case, first):
            found = second_run(first, second, same, seed_of(self.source.text, case))
        if found is not None:
            yield found.unless(accepts)
        if self.error_bound_runs.wants(case, first, self.task.elements(case.dims, case.dtype)):
            found = run_at_error_bounds(first, again, case, problem)
            if found is not None:
                yield found.unless(accepts)

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
                self.task, self.source, compilation, resolved, other, changed, self.basis.device,
                checked=False, counted=False,
            )  # fmt: skip
            return dict(result.outputs)

        for found in check_properties(self.task, case, inputs, run.outputs, on_inputs):
            self.seen.properties.append(found)
            yield found

    def _untried_lines(self) -> tuple[int, ...]:
        """Lines of launches that nothing took, though something may lead there."""
        taken = {line for _, line in self.launched}
        proved = {u.part.place.line for u in self._own.untaken if u.is_impossible}
        launches = {launch.place.line for launch in self.source.plan.launches()}
        return tuple(sorted(launches - taken - proved))

    def _report(
        self,
        compilation: Compilation,
        verdict: CheckVerdict,
        message: str,
        whole_suite: bool = False,
    ) -> CheckReport:
        counted = [r.counters for r in self.seen.results if r.counters is not None]
        counters: Counters | None = add_counters(counted) if counted else None
        on_emulator = self.seen.on_emulator
        return CheckReport(
            task=self.task.name,
            task_hash=self.task.hash,
            source=self.source.file,
            source_hash=content_hash(self.source.text),
            device=self.basis.device.name,
            compiler=compilation.compiler,
            verdict=verdict,
            message=message,
            diagnostics=compilation.diagnostics,
            cases=tuple(self.seen.results),
            properties=tuple(self.seen.properties),
            fakes=tuple(self.seen.fakes),
            full_size=tuple(self.seen.full_size),
            counters=counters,
            seconds=time.perf_counter() - self.started,
            emulated=on_emulator.cases if on_emulator is not None else 0,
            not_emulated=on_emulator.not_emulated if on_emulator is not None else (),
            seed=self.basis.seed,
            untried_lines=self._untried_lines() if whole_suite else (),
            conditions=self.seen.conditions,
            condition_sides=len(self.coverage.taken) if self.coverage is not None else 0,
            accepted=self.task.accepted,
        )


def _lacks_memory(result: CaseResult) -> bool:
    """Whether the GPU had too little memory left."""
    return any(f.kind is FindingKind.OUT_OF_RESOURCES for f in result.findings)


def _hangs(result: CaseResult) -> bool:
    """Whether a case ran for as long as it may: the others would do so, too."""
    return any(f.kind in (FindingKind.BUDGET, FindingKind.HANG) for f in result.findings)


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
