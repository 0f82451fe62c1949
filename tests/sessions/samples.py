"""A session in which everything happens that a journal can hold, and its parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from astra_tui.model.approval import ApprovalGate, ApprovalStatus, AutoMode, Decision, Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case, CaseOutcome, CaseResult, CheckVerdict, OutputError
from astra_tui.model.constraints import Compliance, Constraint, Judge, Origin, Ruling
from astra_tui.model.counters import (
    AccessCount,
    Counters,
    LaunchCounters,
    LineCount,
    Metric,
    NcuReport,
)
from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType
from astra_tui.model.events import (
    SCHEMA_VERSION,
    AnalysisGiven,
    ApprovalAsked,
    AutoApprovalSet,
    BestChanged,
    CallReserved,
    CaseAdded,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    CompileFinished,
    CopyFound,
    DecisionTaken,
    DeviceOpened,
    DiffReviewed,
    EngineStarted,
    ErrorOccurred,
    Event,
    ExchangeMade,
    HardwareCountersRead,
    KindTimed,
    KindWinnerChosen,
    MemoryRecalled,
    NoteAdded,
    ParentChosen,
    Paused,
    PlanningFinished,
    PlanProposed,
    ProfileTaken,
    RejectionTakenBack,
    Resumed,
    RoundClosed,
    RoundOpened,
    Sanitized,
    SessionClosed,
    SessionOpened,
    ShippedTimed,
    StepRemembered,
    StopReason,
    SweepFinished,
    TimingFinished,
    ToolUsed,
    VerdictReached,
    WorkloadTimed,
)
from astra_tui.model.experience import Experience
from astra_tui.model.findings import (
    Finding,
    FindingKind,
    SanitizerReport,
    SanitizerTool,
    SanitizerVerdict,
)
from astra_tui.model.fold import apply
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.plan import (
    Citation,
    CodePlace,
    Counter,
    Observation,
    Plan,
    Prediction,
    Risk,
)
from astra_tui.model.roles import Role
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.state import SessionState
from astra_tui.model.timing import (
    Caveat,
    PairedTime,
    Ratio,
    Timing,
    TimingVerdict,
    WorkloadTiming,
)
from astra_tui.model.tuning import SweptCandidate
from astra_tui.model.verdict import (
    Comparison,
    Outcome,
    Profile,
    RoundVerdict,
    WorkloadProfile,
)
from astra_tui.model.yardsticks import (
    BEST,
    ChainTimes,
    FastestShipped,
    ShapeTimes,
    ShippedTimes,
    VersionTimes,
)
from astra_tui.sessions.journal_writer import Journal, Redactor

BASELINE_SOURCE = "__global__ void k() {}\r\n"
BETTER_SOURCE = "__global__ void k() { /* better */ }\n"
BASELINE, BETTER = content_hash(BASELINE_SOURCE), content_hash(BETTER_SOURCE)

ENGINEER = Author(AuthorKind.ENGINEER, "ada")
PLAYBOOK = Author(AuthorKind.PLAYBOOK, "wider_loads")
PLAN = Plan(
    title="Wider loads",
    bottleneck="requests",
    evidence=(
        Observation("64 requests", (Citation("requests", 64.0, lines=(CodePlace(3, 3),)),)),
        Observation("in 80 sectors", (Citation("sectors", 80.0, "decode"),)),
        "which are narrow",
    ),
    change="load 16 bytes a thread",
    prediction=Prediction(1.1, 1.5, Counter.REQUESTS, 0.25),
    risk=Risk.LOW,
    move="wider_loads",
)
CASE = Case("one_row", "the smallest", DType.FLOAT16, {"tokens": 1, "d": 8})
SETTINGS = RunSettings("silu_and_mul", TeamKind.PLAYBOOK)
PLAN_QUESTION = Question("1.0.plan", ApprovalGate.PLAN, 1, 0, PLAN.hash)
DIFF_QUESTION = Question("diff-1-0-1", ApprovalGate.DIFF, 1, 0, BETTER, 1, BASELINE, 1)


def opened(schema: int = SCHEMA_VERSION) -> SessionOpened:
    return SessionOpened(schema, "s", "task", BASELINE, SETTINGS, {"astra-tui": "0.1"})


def rejected(question: Question) -> DecisionTaken:
    decision = accepted(question).decision
    return DecisionTaken(replace(decision, status=ApprovalStatus.REJECTED, result=""))


def accepted(question: Question) -> DecisionTaken:
    return DecisionTaken(
        Decision(
            question=question.id,
            gate=question.gate,
            subject=question.subject,
            status=ApprovalStatus.ACCEPTED,
            by=ENGINEER,
            result=question.subject,
        )
    )


def profile(requests: int) -> Profile:
    access = AccessCount(3, "global", "load", 16, requests, 64, 2048, 0)
    counters = Counters((access,), (LineCount(3, 10, 320, 1, 0),), "NVRTC")
    workload = WorkloadProfile("decode", {"d": 8}, DType.FLOAT16, ("k",), counters, 132, 256, 4096)
    return Profile("emulator", (workload,))


def checked(candidate: str, outcome: CaseOutcome = CaseOutcome.PASSED) -> list[Event]:
    """A check whose output error is infinite where the case is wrong: JSON has no such number."""
    error = 0.5 if outcome.ok else math.inf
    result = CaseResult(CASE, outcome, outputs=(OutputError("out", error),))
    verdict = CheckVerdict.PASSED if outcome.ok else CheckVerdict.FAILED
    return [
        CompileFinished(candidate, True, (), "NVRTC", 1),
        CheckStarted(candidate, 1),
        CaseChecked(candidate, result),
        CheckFinished(candidate, verdict, "", (), (), 0.25),
    ]


def sanitized(*, found: bool = False) -> tuple[SanitizerReport, ...]:
    """Two tools that watched, the first of which may have found something, and one that did not."""
    finding = Finding(FindingKind.GLOBAL_OUT_OF_BOUNDS, "read of 2 bytes", 1)
    memcheck = SanitizerReport(
        SanitizerTool.MEMCHECK,
        SanitizerVerdict.FOUND if found else SanitizerVerdict.CLEAN,
        findings=(finding,) if found else (),
        cases=(CASE.id,),
        errors=1 if found else 0,
    )
    return (
        memcheck,
        SanitizerReport(SanitizerTool.INITCHECK, SanitizerVerdict.CLEAN, cases=(CASE.id,)),
        SanitizerReport(
            SanitizerTool.RACECHECK, SanitizerVerdict.FAILED, problem="was not done after 60 s"
        ),
    )


def hardware() -> NcuReport:
    """One launch with a counter that was read and one that was not."""
    metrics = {
        "lts__t_sector_hit_rate.pct": Metric(50.25, "%"),
        "gpu__time_duration.sum": Metric(7777.0, "ns"),
    }
    missing = {"dram__bytes_read.sum": "ncu left it empty"}
    launch = LaunchCounters("k", (132, 1, 1), (256, 1, 1), metrics, missing)
    return NcuReport("decode", (launch,), version="2025.3.1")


def verdict() -> RoundVerdict:
    ratios = {"requests": 0.5, "sectors": 1.0}
    comparison = Comparison("counters", (64, 64, 10), (64, 32, 10), ratios)
    return RoundVerdict(Outcome.BETTER, ("half the requests",), BETTER, BASELINE, comparison)


def workload_timing() -> WorkloadTiming:
    """One workload on which the better candidate is a third faster."""
    return WorkloadTiming(
        workload="16x4096",
        dims={"tokens": 16, "d": 4096},
        dtype=DType.FLOAT16,
        verdict=TimingVerdict.FASTER,
        cold=PairedTime(2.0, 1.5, RATIO),
        threshold=0.003,
        caveats=(Caveat("processes", "other processes: not visible from this container"),),
    )


def shipped(fastest: str = "sglang_aot + pdl") -> ShippedTimed:
    """The better candidate against what others ship; with "" none is the fastest for sure."""
    speedup = Ratio(1.06, 1.05, 1.07, 15)
    best, other = (VersionTimes(n, 1.5, speedup, n != BEST) for n in (BEST, "sglang_aot + pdl"))
    known = {BEST: FastestShipped(fastest, speedup)} if fastest else {}
    not_timed = {} if fastest else {"flashinfer": "triton 3.9.0 is not in the cache"}
    shape = ShapeTimes(
        "16x4096", {"tokens": 16, "d": 4096}, DType.FLOAT16, 0.8, "baseline.cu", 2.0,
        (best, other), known, not_timed, 0.25,
    )  # fmt: skip
    means = {BEST: speedup if fastest else None}
    times = ChainTimes("producer", (shape,), means)
    return ShippedTimed(BETTER, ShippedTimes(times, not_timed))


def timing() -> Timing:
    """The better candidate against the baseline."""
    return Timing(
        device="cuda:0",
        gpu="NVIDIA H100",
        base=BASELINE,
        candidate=BETTER,
        workloads=(workload_timing(),),
        speedup=RATIO,
        control=Ratio(1.0, 0.999, 1.001, 40),
        verdict=TimingVerdict.FASTER,
        reasons=("geometric mean 1.3333",),
        gpu_seconds=0.5,
    )


RATIO = Ratio(4 / 3, 1.32, 1.34, 40)


def whole_session() -> list[Event]:
    """Every kind of durable event, in an order that an engine could write."""
    code = CodeWritten(1, 0, 1, BETTER, BASELINE, PLAYBOOK, "wider")
    return [
        opened(),
        EngineStarted("host", 1, 5),
        DeviceOpened("cuda:0", GpuIdentity(name="NVIDIA H100", missing={"vbios": "not read"})),
        RoundOpened(0, 0, BASELINE),
        *checked(BASELINE),
        Sanitized(BASELINE, sanitized()),
        ProfileTaken(BASELINE, profile(64)),
        HardwareCountersRead(BASELINE, hardware()),
        RoundClosed(0),
        ParentChosen(BASELINE, ENGINEER),
        RoundOpened(1, 0, BASELINE),
        CallReserved(1, "plan", 400, 0.5),
        ExchangeMade("plan", "qwen3", "request", "reply", 100, 20, 1.5, 0.25, call=1),
        StepRemembered("prompt", "answer"),
        MemoryRecalled(1, (EXPERIENCE,), "2 plans, 1 better"),
        PlanProposed(1, 0, PLAN, PLAYBOOK),
        PlanningFinished(1, "", ("hoist: there is no loop",)),
        ApprovalAsked(PLAN_QUESTION),
        rejected(PLAN_QUESTION),
        RejectionTakenBack(PLAN_QUESTION.id, ENGINEER),
        accepted(PLAN_QUESTION),
        ToolUsed(1, Role.PLANNING, "count", "base", "12 sectors", "answer", 0.5, cut="the rest"),
        NoteAdded("mind the tail", ENGINEER),
        CaseAdded(CASE, ENGINEER),
        CodeFailed(1, 0, 0, "no code in the answer"),
        code,
        CopyFound(BETTER, BASELINE),
        DiffReviewed(1, 0, BETTER, RULINGS),
        ApprovalAsked(DIFF_QUESTION),
        Paused(ENGINEER, interrupted=True),
        AutoApprovalSet(AutoMode.LOW, ENGINEER, 2),
        Resumed(ENGINEER),
        accepted(DIFF_QUESTION),
        *checked(BETTER, CaseOutcome.WRONG),
        *checked(BETTER),
        Sanitized(BETTER, sanitized(found=True)),
        *checked(BETTER),
        Sanitized(BETTER, sanitized()),
        ProfileTaken(BETTER, profile(32)),
        WorkloadTimed(BETTER, BASELINE, workload_timing(), ((2.0, 1.5), (2.1, 1.6))),
        TimingFinished(timing()),
        SweepFinished(BETTER, SweptCandidate("threads = 256", BASELINE, 40, 4, 2.5)),
        ShippedTimed(BASELINE, ShippedTimes(None, {"flashinfer": "it is not in the cache"})),
        AnalysisGiven(BETTER, "profiling", "half the requests", PLAYBOOK),
        VerdictReached(1, 0, verdict()),
        BestChanged(1, BETTER),
        RoundClosed(1),
        KindTimed("NVIDIA L4", BETTER, BASELINE, problem="cannot be timed: it has no GPU left"),
        KindWinnerChosen("NVIDIA L4", BASELINE, "nothing is faster there"),
        ErrorOccurred("lab", "restarted"),
        SessionClosed(StopReason.ROUNDS, "5 rounds", ""),
    ]


EXPERIENCE = Experience(
    "old", 2, 0, "2026-11-20T10:00:00+00:00", "NVIDIA H100", "silu_and_mul", "llm", "qwen3",
    "pairs", "narrow loads", "load pairs", "", PLAN.prediction, Outcome.BETTER, "fewer",
    {PLAN.prediction.counter.value: 0.6}, Ratio(1.25, 1.2, 1.3, 60),
)  # fmt: skip
NOTE = Constraint(Origin.NOTE, "mind the tail")
RULINGS = (
    Ruling(NOTE, "mind the tail", Compliance.BROKEN, Judge.MODEL, "the tail is cut", 9),
    Ruling(Constraint(Origin.EDIT, "no asm", "pairs", 1), "no asm", Compliance.KEPT, Judge.RULE),
)
TEXTS = {"request": "what?\n", "reply": "that\n", "prompt": "how?", "answer": "so"}


def write_whole(folder: Path, events: Iterable[Event] = ()) -> Path:
    """The sample session, or these events, with all texts, closed by the digest of its state."""
    with Journal.create(folder, Redactor(environment={})) as journal:
        for source in (BASELINE_SOURCE, BETTER_SOURCE):
            journal.put_source(source)
        state = SessionState()
        for event in events or whole_session():
            if isinstance(event, ExchangeMade | StepRemembered | ToolUsed):
                named = {n: journal.put(TEXTS[n]) for n in TEXTS if hasattr(event, n)}
                event = replace(event, **named)
            if isinstance(event, SessionClosed):
                event = replace(event, digest=state.digest())
            state = apply(state, journal.append(event, sync=False).event)
    return folder
