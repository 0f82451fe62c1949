"""Compiling, checking and profiling one candidate, with every step in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from astra_tui.constraints import Version, check_constraints
from astra_tui.engine.lab import Lab, OpenedSource
from astra_tui.engine.record import Record
from astra_tui.lab.requests import CaseCount, NamedSource, TimedWorkload
from astra_tui.model.author import AuthorKind
from astra_tui.model.check import CaseResult, CheckReport
from astra_tui.model.compilation import Diagnostic, Severity
from astra_tui.model.constraints import Compliance, Constraint, Judge, Origin, Ruling
from astra_tui.model.counters import NcuReport
from astra_tui.model.digest import content_hash, short
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeWritten,
    CompileFinished,
    CopyFound,
    HardwareCountersRead,
    ProfileTaken,
    RoundsTimed,
    Sanitized,
    StageBegan,
    TimingFinished,
    WorkloadTimed,
)
from astra_tui.model.findings import SanitizerReport, SanitizerVerdict, not_looked_at
from astra_tui.model.task import KernelTask
from astra_tui.model.task.upstream import FOLDER_NAME
from astra_tui.model.team_protocol import Brief
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import Profile

SHOWN_FAILURES = 5


@dataclass(frozen=True)
class ProposalId:
    """Where in the session a candidate is tried."""

    round: int
    proposal: int = 0


async def compile_candidate(
    record: Record, lab: Lab, candidate: str, place: ProposalId
) -> CompileFinished:
    """Compiles a candidate unless the journal says its result."""
    known = record.state.candidate(candidate).compilation
    if known is not None:
        return known
    record.emit(StageBegan("compile", place.round, place.proposal))
    try:
        compiled = await _open(record, lab, candidate).compile()
    except UserError as error:
        event = CompileFinished(candidate, False, (_diagnostic(error),), "", 0.0)
    else:
        parts = compiled.ok, compiled.diagnostics, compiled.compiler, compiled.seconds
        event = CompileFinished(candidate, *parts, compiled.code)
    record.emit(event)
    return event


def find_copy(record: Record, candidate: str) -> None:
    """Gives a candidate that was not checked the results of an earlier one with the same code."""
    known = record.state.candidate(candidate)
    original = record.state.checked_with_code_of(candidate) if known.check is None else ""
    if original:
        record.emit(CopyFound(candidate, original))


async def compile_errors(lab: Lab, text: str) -> tuple[Diagnostic, ...]:
    """The errors of a source that is no candidate yet; none where it compiles."""
    try:
        compiled = await lab.open(NamedSource(text, _file(content_hash(text)))).compile()
    except UserError as error:
        return (_diagnostic(error),)
    return () if compiled.ok else errors_in(compiled.diagnostics)


async def check_diff(
    lab: Lab, brief: Brief, code: CodeWritten, text: str, said: tuple[Constraint, ...]
) -> tuple[Ruling, ...]:
    """What rules say of code that compiles, about each constraint.

    Code of a move does what its plan says, as edited: of an edit only what a rule reads is told.
    """
    versions = []
    for source in (brief.source, text):
        compiled = await lab.open(NamedSource(source, _file(content_hash(source)))).compile()
        names = (f"{FOLDER_NAME}/{path}" for path in compiled.included)
        versions.append(
            Version(
                source, brief.task, compiled.kernels, compiled.instructions, compiled.assembly,
                {name: brief.included[name] for name in names if name in brief.included},
            )
        )  # fmt: skip
    rulings = await asyncio.to_thread(check_constraints, said, *versions)
    if code.author.kind is not AuthorKind.PLAYBOOK:
        return rulings
    why = "the code is the move's own, which does what the plan says"
    return tuple(
        msgspec.structs.replace(r, compliance=Compliance.KEPT, judge=Judge.RULE, why=why)
        if r.constraint.origin is Origin.PLAN and r.judge is None
        else r
        for r in rulings
        if r.constraint.origin is not Origin.EDIT or r.judge is not None
    )


async def check_candidate(
    record: Record, lab: Lab, candidate: str, place: ProposalId
) -> CheckFinished:
    """Checks a candidate unless the journal holds a whole check of it.

    Cases whose results it holds, of a check that was cut off, do not run again.
    """
    known = record.state.candidate(candidate)
    if known.check is not None:
        return known.check
    record.emit(StageBegan("check", place.round, place.proposal))
    added = record.state.cases
    finished: CheckFinished | None = None
    cases = _Cases(record, candidate)
    async for event in _open(record, lab, candidate).check(added, known=known.results):
        if isinstance(event, CaseCount):
            cases.begin(event.cases)
        elif isinstance(event, CaseResult):
            cases.add(event)
        else:
            cases.end()
            finished = _check_finished(candidate, event)
    assert finished is not None
    record.emit(finished)
    return finished


class _Cases:
    """Writes a check's cases into the journal, but those that it holds of one that was cut off.

    Should a check tell anything else than what is there, it is written as a check of its own.
    """

    def __init__(self, record: Record, candidate: str):
        self._record = record
        self._candidate = candidate
        self._count = 0
        self._told: list[CaseResult] = []
        self._there: tuple[CaseResult, ...] = ()

    def begin(self, count: int) -> None:
        self._count = count
        known = self._record.state.candidate(self._candidate)
        if known.cases == count:
            self._there = known.results
        else:
            self._record.emit(CheckStarted(self._candidate, count))

    def add(self, result: CaseResult) -> None:
        self._told.append(result)
        if len(self._told) > len(self._there):
            self._record.emit(CaseChecked(self._candidate, result))
        elif not _same(self._there[len(self._told) - 1], result):
            self._write_all()

    def end(self) -> None:
        if len(self._told) < len(self._there):
            self._write_all()

    def _write_all(self) -> None:
        self._there = ()
        self._record.emit(CheckStarted(self._candidate, self._count))
        for result in self._told:
            self._record.emit(CaseChecked(self._candidate, result))


async def sanitize_candidate(record: Record, lab: Lab, candidate: str, place: ProposalId) -> None:
    """Has compute-sanitizer watch a candidate that passed its check, unless the journal says what
    the result is. What cannot be watched is in the journal as such.
    """
    if record.state.candidate(candidate).sanitizer:
        return
    record.emit(StageBegan("sanitize", place.round, place.proposal))
    try:
        reports = await _open(record, lab, candidate).sanitize()
    except UserError as error:
        reports = not_looked_at(SanitizerVerdict.FAILED, error.describe())
    record.emit(Sanitized(candidate, reports))


async def read_hardware_counters(
    record: Record, lab: Lab, task: KernelTask, candidate: str, place: ProposalId
) -> None:
    """Reads a correct candidate's hardware counters on the workload that moves most bytes, unless
    the journal holds them. Why there are none is in the journal as well.
    """
    if record.state.candidate(candidate).hardware is not None:
        return
    record.emit(StageBegan("hardware", place.round, place.proposal))
    workload = max(task.workloads, key=lambda w: task.compulsory_bytes(w.dims, w.dtype)).name
    try:
        report = await _open(record, lab, candidate).read_hardware(workload)
    except UserError as error:
        report = NcuReport(workload, problem=error.describe())
    record.emit(HardwareCountersRead(candidate, report, report.seconds))


async def profile_candidate(record: Record, lab: Lab, candidate: str, place: ProposalId) -> None:
    """Profiles a correct candidate unless the journal holds its profile. Raises UserError."""
    if record.state.candidate(candidate).profile is None:
        record.emit(StageBegan("profile", place.round, place.proposal))
        profiled = await _open(record, lab, candidate).profile()
        machine_code = record.store.put(profiled.machine_code) if profiled.machine_code else ""
        record.emit(ProfileTaken(candidate, profiled.profile, machine_code))


async def profile_refused(
    record: Record, lab: Lab, candidate: str, place: ProposalId
) -> Profile | None:
    """What is counted of a candidate that did not pass, for who mends it; None where it cannot run.

    The journal has it in the prompt alone: its costs are compared with no one's.
    """
    record.emit(StageBegan("profile", place.round, place.proposal))
    try:
        return (await _open(record, lab, candidate).profile(may_be_wrong=True)).profile
    except UserError:
        return None


async def time_candidate(
    record: Record, lab: Lab, base: str, candidate: str, place: ProposalId
) -> Timing:
    """Times a correct candidate against a base unless the journal holds that. Raises UserError."""
    known = record.state.candidate(candidate).timing(base)
    if known is not None:
        return known
    record.emit(StageBegan("time", place.round, place.proposal))
    return await _time(record, lab, base, candidate, final=False)


async def time_again(record: Record, lab: Lab, base: str, candidate: str) -> Timing:
    """Times a winner again: the best of many measurements flatters the lucky one.

    In a fresh process, with new inputs and orders, and by the paper's protocol as well.
    """
    known = record.state.candidate(candidate).timing(base, final=True)
    return known or await _time(record, lab, base, candidate, final=True)


async def _time(record: Record, lab: Lab, base: str, candidate: str, *, final: bool) -> Timing:
    old, new = (_open(record, lab, h) for h in (base, candidate))
    finished: Timing | None = None
    async for step in new.time(old.source, final=final):
        if isinstance(step, Timing):
            finished = step
        elif isinstance(step, TimedWorkload):
            record.emit(WorkloadTimed(candidate, base, step.timing, step.rounds))
        else:
            times = step.base_us, step.candidate_us, step.speedup, step.rounds
            record.emit(RoundsTimed(candidate, base, step.workload, *times))
    assert finished is not None
    record.emit(TimingFinished(finished, final))
    return finished


def _same(one: CaseResult, other: CaseResult) -> bool:
    """Whether two results are equal, also where an output is NaN."""
    first, second = (msgspec.msgpack.encode(r, order="sorted") for r in (one, other))
    return first == second


def errors_in(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """The errors among a compiler's messages."""
    return tuple(d for d in diagnostics if d.severity is Severity.ERROR)


def describe_failures(record: Record, candidate: str) -> str:
    """What the tools found, or the first failed cases of a check with why each case exists."""
    known = record.state.candidate(candidate)
    origin = record.state.origin_words(candidate, record.state.place_of(candidate))
    lines = [*([origin] if origin else []), *([known.check.message] if known.check else [])]
    found = [report for report in known.sanitizer if report.found]
    if found:
        source = record.store.get(candidate).splitlines()
        return "\n".join([*(x for r in found for x in _found_lines(r, source)), *lines])
    for result in known.failures[:SHOWN_FAILURES]:
        lines.append(f"case {result.case.id} ({result.case.why}): {result.message}")
        lines += [f"    {line}" for output in result.outputs for line in output.describe_wrong()]
    more = len(known.failures) - SHOWN_FAILURES
    return "\n".join([*lines, *([f"and {more} cases more"] if more > 0 else [])])


def _found_lines(report: SanitizerReport, source: list[str]) -> Iterator[str]:
    """What one tool found, each with its line of the source."""
    yield f"compute-sanitizer's {report.tool.value}: {report.outcome}"
    for finding in report.findings[:SHOWN_FAILURES]:
        yield finding.describe()
        if 0 < finding.line <= len(source):
            yield f"    {source[finding.line - 1].strip()}"
    yield from report.unread[:SHOWN_FAILURES]


def _check_finished(candidate: str, report: CheckReport) -> CheckFinished:
    return CheckFinished(
        candidate=candidate,
        verdict=report.verdict,
        message=report.message,
        properties=report.properties,
        fakes=report.fakes,
        seconds=report.seconds,
        accepted=report.accepted,
        full_size=report.full_size,
        open_conditions=report.open_conditions,
    )


def _diagnostic(error: UserError) -> Diagnostic:
    message = error.message + (f" ({error.hint})" if error.hint else "")
    return Diagnostic(Severity.ERROR, message, error.place.line, error.place.column)


def named_source(record: Record, candidate: str) -> NamedSource:
    """A candidate's source, with the name that messages give it."""
    return NamedSource(record.store.get(candidate), _file(candidate))


def _open(record: Record, lab: Lab, candidate: str) -> OpenedSource:
    return lab.open(named_source(record, candidate))


def _file(candidate: str) -> str:
    return f"{short(candidate)}.cu"
