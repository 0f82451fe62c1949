"""The generated part of docs/json.md: the keys of every JSON object, their types and meanings."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import msgspec

from astra_tui.cli import json_answers as answers
from astra_tui.cuda_source.project import KernelPlace
from astra_tui.model.audit import AuditHead, AuditRecord, AuditSummary, KindSum
from astra_tui.model.check import (
    Case,
    CaseResult,
    CaseTrail,
    CheckReport,
    ConditionResult,
    FakeResult,
    FullSizeResult,
    OutputError,
    OutputShare,
    PropertyResult,
    WrongElement,
)
from astra_tui.model.compilation import Diagnostic
from astra_tui.model.counters import (
    AccessCount,
    ComparedCounter,
    Counters,
    LaunchCounters,
    LineCount,
    Metric,
    NcuReport,
)
from astra_tui.model.drafts import ExposedTime, Guess, OpenPoint, ServiceWorkload
from astra_tui.model.environment import Difference, Environment, Layer, Probe
from astra_tui.model.events import CallReserved
from astra_tui.model.experience import Experience, PredictionRecord
from astra_tui.model.export import DeliveryReport, ExportReport, ExportStep
from astra_tui.model.findings import Finding, SanitizerReport
from astra_tui.model.gpu import EnergyUse, GpuIdentity
from astra_tui.model.ledger import LedgerEntry, Score
from astra_tui.model.plan import Citation, CodePlace, Observation, Parameter, Plan, Prediction
from astra_tui.model.sass import (
    Disassembly,
    HistogramChange,
    HistogramRow,
    Instruction,
    KernelDiff,
    ListingStep,
    SassDiff,
    SassKernel,
    Subroutine,
)
from astra_tui.model.state import Usage
from astra_tui.model.task import Acceptance, Values
from astra_tui.model.timing import (
    Caveat,
    Floor,
    PairedEnergy,
    PairedTime,
    PaperTime,
    Ratio,
    Timing,
    WorkloadTiming,
)
from astra_tui.model.traffic import (
    ArgumentTraffic,
    Waste,
    WastedTraffic,
    WorkloadShare,
    WorkloadTraffic,
)
from astra_tui.model.verification import CandidateVerification, CounterPair, TimingPair
from astra_tui.model.yardsticks import (
    ChainTimes,
    FastestShipped,
    ShapeTimes,
    ShippedTimes,
    VersionTimes,
    YardstickEntry,
)
from astra_tui.sessions.comparison import ComparedCandidate
from astra_tui.sessions.integrity import Flaw, Integrity, Trust
from astra_tui.sessions.signing import Signed
from astra_tui.sessions.store import SessionSummary
from astra_tui.sessions.study import CodeLines, SeedMean, StudyRow, WorkloadMeans
from astra_tui.sessions.summary import (
    CandidateReport,
    CitationReport,
    DecisionReport,
    EvidenceReport,
    FinalTiming,
    KindReport,
    ProposalReport,
    RoundReport,
    RunReport,
)

ANSWERS: dict[str, type[msgspec.Struct]] = {
    "astra-tui run --json": RunReport,
    "astra-tui kernels --json": answers.KernelsAnswer,
    "astra-tui yardstick list --json": answers.YardsticksAnswer,
    "astra-tui yardstick time --json": answers.YardstickTimesAnswer,
    "astra-tui check --json": answers.CheckAnswer,
    "astra-tui check --list --json": answers.CasesAnswer,
    "astra-tui counters --json": answers.CountersAnswer,
    "astra-tui sass --json": answers.SassAnswer,
    "astra-tui bench --json": answers.BenchAnswer,
    "astra-tui audit --json": answers.AuditAnswer,
    "astra-tui report --json": answers.ReportAnswer,
    "astra-tui memory --json": answers.MemoryAnswer,
    "astra-tui study --json": answers.StudyAnswer,
    "astra-tui export --json": ExportReport,
    "astra-tui deliver --json": DeliveryReport,
    "astra-tui workloads --json": answers.WorkloadsAnswer,
    "astra-tui sessions --json": answers.SessionsAnswer,
    "astra-tui replay --json": answers.ReplayAnswer,
    "astra-tui fork --no-run --json": answers.ForkAnswer,
    "astra-tui verify --json": answers.VerifyAnswer,
    "astra-tui verify FILE --json": answers.VerifyFileAnswer,
    "astra-tui compare --json": answers.CompareAnswer,
    "astra-tui bisect --json": answers.BisectAnswer,
    "astra-tui new --json": answers.NewAnswer,
    "astra-tui new --json, several kernels": answers.KernelsFoundAnswer,
    "astra-tui doctor --json": answers.DoctorAnswer,
    "Errors": answers.ErrorAnswer,
}
"""The object that each command prints."""

PARTS: tuple[type[msgspec.Struct], ...] = (
    ServiceWorkload,
    ExposedTime,
    answers.ErrorEntry, KernelPlace, OpenPoint, Guess, answers.TaskEntry,
    answers.WorkloadEntry,
    YardstickEntry, ShippedTimes, ChainTimes, ShapeTimes, VersionTimes, FastestShipped,
    CheckReport, CaseResult,
    CaseTrail, Case,
    Values, OutputError, WrongElement, ConditionResult, Finding, Acceptance, PropertyResult,
    FullSizeResult, OutputShare, FakeResult, Diagnostic,
    answers.TaskCases, SanitizerReport, answers.CountedEntry, Counters, AccessCount, LineCount,
    WorkloadTraffic, ArgumentTraffic, Waste, WastedTraffic, WorkloadShare,
    ComparedCounter, NcuReport, LaunchCounters, Metric, answers.SassEntry,
    Disassembly, SassKernel, Instruction, HistogramRow, Subroutine, SassDiff, KernelDiff,
    HistogramChange, ListingStep, ExportStep, answers.BenchEnvironment, GpuIdentity,
    answers.BenchSource, answers.BenchComparison, Timing, WorkloadTiming, PairedEnergy, EnergyUse,
    PairedTime,
    Ratio, PaperTime, Floor, Caveat, Probe, Layer, CandidateReport, FinalTiming, KindReport,
    RoundReport,
    ProposalReport, EvidenceReport, CitationReport, DecisionReport, Prediction, Score, LedgerEntry,
    CodeLines, Experience, PredictionRecord, SeedMean, StudyRow, WorkloadMeans,
    Usage, CallReserved,
    SessionSummary, Trust, Signed, Integrity, Flaw, Environment, Difference,
    CandidateVerification, CounterPair, TimingPair, AuditSummary, AuditHead, KindSum, AuditRecord,
    ComparedCandidate, Plan, Parameter, Observation, Citation, CodePlace, answers.BisectStep,
)  # fmt: skip
"""The objects inside them."""

MEANINGS_FILE = Path(__file__).parent / "json_meanings.toml"

_WORDS = {str: "string", int: "integer", float: "number", bool: "true or false"}


def answer_sections() -> str:
    """A section for the object of each command."""
    return "\n\n".join(
        f"### {title}\n\n" + "\n".join(_table(shape)) for title, shape in ANSWERS.items()
    )


def part_sections() -> str:
    """A section for each object inside them."""
    return "\n\n".join(f"### {_name(s)}\n\n" + "\n".join(_table(s)) for s in PARTS)


def _table(shape: type[msgspec.Struct]) -> Iterator[str]:
    with MEANINGS_FILE.open("rb") as file:
        meanings = msgspec.toml.decode(file.read())[shape.__name__]
    hints = typing.get_type_hints(shape)
    fields = msgspec.structs.fields(shape)
    left_over = set(meanings) - {field.encode_name for field in fields}
    assert not left_over, f"{MEANINGS_FILE}: {shape.__name__} has no {left_over}"
    yield "| key | type | meaning |"
    yield "| --- | --- | --- |"
    for field in fields:
        optional = shape.__struct_config__.omit_defaults and not field.required
        mark = ", optional" if optional else ""
        key, kind = field.encode_name, _type_name(hints[field.name])
        yield f"| `{key}` | {kind}{mark} | {meanings[key]} |"


def _type_name(kind: typing.Any) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if k is type(None) else _type_name(k) for k in inner)
    if origin is tuple:
        size = "" if inner[-1] is Ellipsis else f"{len(inner)} "
        return f"array of {size}{_type_name(inner[0])}"
    if origin is dict:
        return f"object of {_type_name(inner[1])}"
    if issubclass(kind, Enum):
        return " ".join(f"`{member.value}`" for member in kind)
    return f"[{_name(kind)}](#{_name(kind).lower().replace(' ', '-')})"


def _name(shape: type[msgspec.Struct]) -> str:
    """The title of a shape: its class's name in words."""
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in shape.__name__)
    return words.strip().removesuffix(" entry").capitalize()
