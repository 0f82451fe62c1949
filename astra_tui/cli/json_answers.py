"""The JSON objects that `--json` prints; docs/json.md is generated from these."""

from __future__ import annotations

import msgspec

from astra_tui.cuda_source.project import KernelPlace
from astra_tui.model.audit import AuditRecord, AuditSummary
from astra_tui.model.check import Case, CheckReport, CheckVerdict
from astra_tui.model.compilation import Diagnostic
from astra_tui.model.counters import ComparedCounter, Counters, NcuReport
from astra_tui.model.drafts import ExposedTime, OpenPoint, ServiceWorkload
from astra_tui.model.dtypes import DType
from astra_tui.model.environment import Difference, Environment, Probe
from astra_tui.model.experience import Experience, PredictionRecord
from astra_tui.model.export import ExportStep
from astra_tui.model.findings import Finding
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.sass import Disassembly, SassDiff
from astra_tui.model.state import Usage
from astra_tui.model.timing import Timing
from astra_tui.model.traffic import WastedTraffic, WorkloadTraffic
from astra_tui.model.verification import CandidateVerification
from astra_tui.model.yardsticks import ChainTimes, YardstickEntry
from astra_tui.sessions.comparison import ComparedCandidate
from astra_tui.sessions.integrity import Integrity, Trust
from astra_tui.sessions.signing import Signed
from astra_tui.sessions.store import SessionSummary
from astra_tui.sessions.study import StudyRow


class Answer(msgspec.Struct, frozen=True):
    """What the answer of a command begins with."""

    exit_code: int


class ErrorEntry(msgspec.Struct, frozen=True):
    """One thing that could not be used, with its place."""

    message: str
    file: str
    line: int
    column: int
    hint: str


class ErrorAnswer(Answer, frozen=True):
    """The answer of every command that could not do what was asked."""

    error: ErrorEntry


class WorkloadEntry(msgspec.Struct, frozen=True):
    """One workload of a kernel task."""

    name: str
    dims: dict[str, int]
    dtype: DType


class TaskEntry(msgspec.Struct, frozen=True):
    """One kernel task."""

    name: str
    summary: str
    origin: str
    folder: str
    hash: str
    dtypes: tuple[DType, ...]
    workloads: tuple[WorkloadEntry, ...]
    sources: tuple[str, ...]


class WorkloadsAnswer(msgspec.Struct, frozen=True):
    """`workloads --json`."""

    task: str
    format: str
    workloads: tuple[ServiceWorkload, ...]
    share: float
    exposed: ExposedTime | None
    end_to_end: float | None


class KernelsAnswer(msgspec.Struct, frozen=True):
    """`kernels --json`."""

    tasks: tuple[TaskEntry, ...]
    errors: tuple[ErrorEntry, ...]


class YardsticksAnswer(Answer, frozen=True):
    """`yardstick list --json` and `yardstick update --json`."""

    yardsticks: tuple[YardstickEntry, ...]
    unserved: dict[str, tuple[str, ...]]
    errors: tuple[ErrorEntry, ...]


class YardstickTimesAnswer(Answer, frozen=True):
    """`yardstick time --json`."""

    task: str
    environment: BenchEnvironment
    sources: tuple[BenchSource, ...]
    chains: tuple[ChainTimes, ...]


class CheckAnswer(Answer, frozen=True):
    """`check --json`."""

    reports: tuple[CheckReport, ...]
    errors: tuple[ErrorEntry, ...]


class TaskCases(msgspec.Struct, frozen=True):
    """The cases of one task."""

    task: str
    cases: tuple[Case, ...]


class CasesAnswer(msgspec.Struct, frozen=True):
    """`check --list --json`."""

    tasks: tuple[TaskCases, ...]


class CountedEntry(msgspec.Struct, frozen=True):
    """One source and what was counted."""

    source: str
    compiled: bool
    diagnostics: tuple[Diagnostic, ...]
    kernels: tuple[str, ...]
    requests: int
    sectors: int
    bytes: int
    bank_conflicts: int
    warp_instructions: int
    counters: Counters
    traffic: tuple[WorkloadTraffic, ...]
    wasted: tuple[WastedTraffic, ...]
    findings: tuple[Finding, ...]
    hardware: NcuReport | None
    compared: tuple[ComparedCounter, ...]


class CountersAnswer(msgspec.Struct, frozen=True):
    """`counters --json`."""

    task: str
    case: Case
    compulsory_bytes: int
    sources: tuple[CountedEntry, ...]


class SassEntry(msgspec.Struct, frozen=True):
    """One source with its machine code."""

    source: str
    compiled: bool
    compiler: str
    diagnostics: tuple[Diagnostic, ...]
    disassembly: Disassembly


class SassAnswer(msgspec.Struct, frozen=True):
    """`sass --json`."""

    task: str
    workload: str
    sources: tuple[SassEntry, ...]
    diff: SassDiff | None


class BenchEnvironment(msgspec.Struct, frozen=True):
    """On what was measured."""

    device: str
    gpu: GpuIdentity
    compiler: str
    arch: str
    version: str


class BenchSource(msgspec.Struct, frozen=True):
    """One source and the verdict of its check, which came before any timing."""

    source: str
    candidate: str
    verdict: CheckVerdict
    message: str


class BenchComparison(msgspec.Struct, frozen=True):
    """A candidate against the base."""

    base: str
    candidate: str
    minimum_detectable: float
    timing: Timing


class BenchAnswer(Answer, frozen=True):
    """`bench --json`."""

    task: str
    protocol: str
    environment: BenchEnvironment
    sources: tuple[BenchSource, ...]
    comparisons: tuple[BenchComparison, ...]


class TunedPart(msgspec.Struct, frozen=True):
    """Sizes that other settings than the default's serve."""

    condition: str
    """As the result's launch plan has it."""
    settings: dict[str, int]
    gains: str
    """Over the default on the workloads for which it pays, with intervals."""


class TuneAnswer(Answer, frozen=True):
    """`tune --json`."""

    task: str
    environment: BenchEnvironment
    sources: int
    """How many were compiled."""
    trials: int
    """Different ones, of all workloads."""
    timed: int
    """Of them, at first."""
    default: dict[str, int]
    """The settings that serve all sizes that no part does."""
    parts: tuple[TunedPart, ...]
    dropped: dict[str, str]
    """Settings that won somewhere and serve nothing, with the reason."""
    gpus: tuple[str, ...] = ()
    """UUIDs of those that timed the trials."""
    gpu_seconds: float = 0.0
    """How long trials had a GPU to themselves, of all GPUs."""
    seconds: float = 0.0
    """From before the first trial was timed to after the last."""
    timing: Timing | None = None
    """The result against the source; null where nothing was better, or Ctrl-C came first."""
    out: str = ""
    """The result's file; empty where nothing was written."""
    cut: str = ""
    """What an interrupt left out."""


class AuditAnswer(Answer, frozen=True):
    """`audit --json`."""

    summary: AuditSummary
    records: tuple[AuditRecord, ...]


class DoctorAnswer(Answer, frozen=True):
    """`doctor --json`."""

    probes: tuple[Probe, ...]


class NewAnswer(msgspec.Struct, frozen=True):
    """`new --json`."""

    folder: str
    source: str
    origin: str
    licence: str
    sha256: str
    found: tuple[str, ...]
    files: tuple[str, ...]
    open_points: tuple[OpenPoint, ...]
    answered: tuple[str, ...]
    problems: tuple[str, ...]


class KernelsFoundAnswer(Answer, frozen=True):
    """`new --json` of a folder or package that does not say which kernel is meant."""

    error: ErrorEntry
    kernels: tuple[KernelPlace, ...]


class SessionsAnswer(msgspec.Struct, frozen=True):
    """`sessions --json`."""

    folder: str
    sessions: tuple[SessionSummary, ...]


class ReportAnswer(msgspec.Struct, frozen=True):
    """`report --json`."""

    folder: str
    html: str | None
    markdown: str | None
    damage: tuple[str, ...]
    trust: Trust
    data: str | None = None


class ForkAnswer(msgspec.Struct, frozen=True):
    """`fork --no-run --json`."""

    session: str
    folder: str
    parent: str
    fork_seq: int


class ReplayAnswer(Answer, frozen=True):
    """`replay --json`."""

    session: str
    folder: str
    events: int
    rounds: int
    best: str
    status: str
    recorded_digest: str
    digest: str
    message: str
    damage: tuple[str, ...]
    trust: Trust


class VerifyAnswer(Answer, frozen=True):
    """`verify --json`."""

    session: str
    folder: str
    integrity: Integrity
    task: str
    task_hash: str
    recorded: Environment | None
    here: Environment | None
    differences: tuple[Difference, ...]
    candidates: tuple[CandidateVerification, ...]
    message: str
    signed: Signed | None


class VerifyFileAnswer(Answer, frozen=True):
    """`verify FILE --json`."""

    file: str
    session: str
    folder: str
    candidate: str
    trust: Trust
    steps: tuple[ExportStep, ...]
    message: str


class CompareAnswer(Answer, frozen=True):
    """`compare --json`."""

    sides: tuple[ComparedCandidate, ComparedCandidate]
    diff: str
    timing: Timing | None
    not_timed: str
    trust: tuple[Trust, Trust]


class BisectStep(msgspec.Struct, frozen=True):
    """One candidate that was tried."""

    round: int
    candidate: str
    value: float
    lost: bool
    text: str


class BisectAnswer(Answer, frozen=True):
    """`bisect --json`."""

    session: str
    folder: str
    question: str
    candidates: int
    steps: tuple[BisectStep, ...]
    round: int | None
    candidate: str | None
    message: str


class EngineEntry(msgspec.Struct, frozen=True):
    """One running engine."""

    session: str
    folder: str
    task: str
    status: str
    pid: int
    host: str


class MemoryAnswer(msgspec.Struct, frozen=True):
    """`memory --json`."""

    file: str
    plans: tuple[Experience, ...]
    ledger: tuple[PredictionRecord, ...]


class StudyAnswer(Answer, frozen=True):
    """`study --json`."""

    folder: str
    usage: Usage
    rows: tuple[StudyRow, ...]
    not_ended: tuple[str, ...]


class EnginesAnswer(msgspec.Struct, frozen=True):
    """`ps --json`."""

    engines: tuple[EngineEntry, ...]
    errors: tuple[ErrorEntry, ...]
