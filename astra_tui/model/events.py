"""Everything that happens in a session. The state is the fold of these and of nothing else.

Durable events make the journal. Transient ones (`Transient`) only reach the screens that watch at
the time. Sources, prompts and replies are named by their hash; the session stores them once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Union

import msgspec

from astra_tui.model.approval import AutoMode, Decision, Question
from astra_tui.model.author import Author
from astra_tui.model.check import (
    Case,
    CaseResult,
    CheckVerdict,
    ConditionResult,
    FakeResult,
    FullSizeResult,
    PropertyResult,
)
from astra_tui.model.compilation import Diagnostic
from astra_tui.model.constraints import Ruling
from astra_tui.model.counters import NcuReport
from astra_tui.model.experience import Experience
from astra_tui.model.findings import Acceptance, SanitizerReport
from astra_tui.model.gpu import GpuIdentity, GpuSample
from astra_tui.model.plan import Plan, Selection
from astra_tui.model.roles import Role
from astra_tui.model.settings import RunSettings
from astra_tui.model.timing import COLD, PairedTime, Ratio, Timing, WorkloadTiming
from astra_tui.model.tuning import SweptCandidate
from astra_tui.model.verdict import Profile, RoundVerdict
from astra_tui.model.workers import WorkersStatus
from astra_tui.model.yardsticks import ShippedTimes

SCHEMA_VERSION = 1


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event", tag=str.lower):
    """Something that happened. `round` is 0 for the baseline, `proposal` counts from 0."""


class Transient(Event, frozen=True):
    """An event that is not kept."""


class ForkPoint(msgspec.Struct, frozen=True):
    """Where a session branched off its parent: after event `seq`, at the state with `digest`."""

    session: str
    seq: int
    digest: str


class SessionOpened(Event, frozen=True, tag="session_opened"):
    """A session began."""

    schema: int
    session: str
    task_hash: str
    baseline: str
    settings: RunSettings
    versions: dict[str, str]
    """Versions of this program and of the parts that results depend on."""
    forked_from: ForkPoint | None = None
    seed: int = 0
    """What the suite's drawn cases follow from; no team is shown it. 0 in earlier journals."""


class EngineStarted(Event, frozen=True, tag="engine_started"):
    """An engine took the session over: at its beginning, and when it is resumed."""

    host: str
    pid: int
    rounds: int
    """Rounds in all after which this engine stops."""
    versions: dict[str, str] = {}
    """Versions as in SessionOpened, of this engine; none in journals of earlier versions."""


class DeviceOpened(Event, frozen=True, tag="device_opened"):
    """The device on which an engine runs candidates; `gpu` is None on the emulator."""

    device: str
    gpu: GpuIdentity | None = None


class ParentChoice(StrEnum):
    """Why a round stands on the candidate that it stands on."""

    BEST = "best"
    DRAWN = "drawn"
    """From all that are correct."""
    LINE = "line"
    """It is the last winner since the search restarted."""
    RESTART = "restart"
    """Drawn, since rounds in a row brought nothing."""
    MERGE = "merge"
    """The best, to be merged with a winner of another branch."""
    CHOSEN = "chosen"
    """By the engineer."""


class RoundOpened(Event, frozen=True, tag="round_opened"):
    """A round began on a candidate; `parent` is the round that wrote it."""

    round: int
    parent: int
    base: str
    other: str = ""
    """The winner of another branch that the round is to merge with its base."""
    why: ParentChoice = ParentChoice.BEST
    among: int = 0
    """Of how many candidates the base was drawn."""


class ParentChosen(Event, frozen=True, tag="parent_chosen"):
    """The engineer says which candidate the next round stands on."""

    candidate: str
    by: Author


class MemoryRecalled(Event, frozen=True, tag="memory_recalled"):
    """What earlier sessions of this machine tell the planning of a round, the likeliest first."""

    round: int
    known: tuple[Experience, ...]
    predictions: str = ""
    """How predictions of the same team and model came out so far."""


class PlanProposed(Event, frozen=True, tag="plan_proposed"):
    """A plan for a round."""

    round: int
    proposal: int
    plan: Plan
    author: Author


class PlanningFinished(Event, frozen=True, tag="plans_ended"):
    """The team has proposed all that it has for this round; `reason` says why not more."""

    round: int
    reason: str = ""
    refused: tuple[str, ...] = ()
    """Moves that do not apply, each with its reason."""
    lost: bool = False
    """Whether the model or its server gave nothing that can be used."""
    answered: bool = False
    """Whether it was the model that gave it, so that the round counts."""


class ApprovalAsked(Event, frozen=True, tag="approval_asked"):
    """Someone has to decide."""

    question: Question


class DecisionTaken(Event, frozen=True, tag="decision_taken"):
    """Someone has."""

    decision: Decision


class RejectionTakenBack(Event, frozen=True, tag="rejection_taken_back"):
    """The rejection of a question is void, and so is all that was planned since: it is asked again.

    Only the latest decision can be taken back, so that no code was written since, and nothing run
    but the best, at the end.
    """

    question: str
    by: Author


class CodeWritten(Event, frozen=True, tag="code_written"):
    """A candidate was written for a plan; `attempt` counts repairs and edits from 0."""

    round: int
    proposal: int
    attempt: int
    candidate: str
    base: str
    author: Author
    summary: str = ""


class CodeFailed(Event, frozen=True, tag="code_failed"):
    """The coding agent gave nothing that can be used."""

    round: int
    proposal: int
    attempt: int
    reason: str
    lost: bool = False
    """Whether the model or its server gave nothing that can be used."""
    answered: bool = False
    """Whether it was the model that gave it, so that the round counts."""


class DiffReviewed(Event, frozen=True, tag="diff_reviewed"):
    """The code of a proposal was held against its plan and what the engineer said, before it is
    asked about.
    """

    round: int
    proposal: int
    candidate: str
    rulings: tuple[Ruling, ...]


class CompileFinished(Event, frozen=True, tag="compile_finished"):
    """A candidate was compiled, or not; `seconds` is time in the compiler."""

    candidate: str
    ok: bool
    diagnostics: tuple[Diagnostic, ...]
    compiler: str
    seconds: float
    code: str = ""
    """The `code_hash` of what compiled: that of its copies, however they are written."""


class CopyFound(Event, frozen=True, tag="copy_found"):
    """A candidate runs the same code as an earlier one, whose results are its own as well."""

    candidate: str
    original: str


class CheckStarted(Event, frozen=True, tag="check_started"):
    """The cases of a candidate are about to run."""

    candidate: str
    cases: int


class CaseChecked(Event, frozen=True, tag="case_checked"):
    """One case of a candidate ended. Its counters are in the profile, not here."""

    candidate: str
    result: CaseResult


class CheckFinished(Event, frozen=True, tag="check_finished"):
    """All that ran of a candidate's cases ended; `seconds` is wall time."""

    candidate: str
    verdict: CheckVerdict
    message: str
    properties: tuple[PropertyResult, ...]
    fakes: tuple[FakeResult, ...]
    seconds: float
    accepted: tuple[Acceptance, ...] = ()
    """What an engineer accepts in the task's file."""
    full_size: tuple[FullSizeResult, ...] = ()
    """The workloads at their own sizes; empty on a GPU."""
    open_conditions: tuple[ConditionResult, ...] = ()
    """Sides of the source's conditions that nothing took, proved unreachable or accepted."""


class Sanitized(Event, frozen=True, tag="sanitized"):
    """The tools of compute-sanitizer ran on a candidate that had passed its check, or could not."""

    candidate: str
    reports: tuple[SanitizerReport, ...]


class ProfileTaken(Event, frozen=True, tag="profile_taken"):
    """What the device tells about a correct candidate."""

    candidate: str
    profile: Profile
    machine_code: str = ""
    """Hash of the machine code with its lines, see `model/sass.py`; empty without one."""


class HardwareCountersRead(Event, frozen=True, tag="hardware_counters_read"):
    """ncu read a candidate's hardware counters on one workload, or could not.

    `gpu_seconds` is how long it had the GPU for itself.
    """

    candidate: str
    report: NcuReport
    gpu_seconds: float = 0.0


class WorkloadTimed(Event, frozen=True, tag="workload_timed"):
    """A candidate was timed against a base on one workload.

    `rounds` are the samples: microseconds a launch of base and candidate, in the order taken.
    """

    candidate: str
    base: str
    timing: WorkloadTiming
    rounds: tuple[tuple[float, float], ...]


class TimingFinished(Event, frozen=True, tag="timing_finished"):
    """All workloads of a pair were timed. `final`: it was the best candidate, measured again."""

    timing: Timing
    final: bool = False


class KindTimed(Event, frozen=True, tag="kind_timed"):
    """A candidate was timed against a base on a GPU of another kind than the session's, or why not.

    `final`: in the end, in a fresh process.
    """

    kind: str
    """The GPU's name."""
    candidate: str
    base: str
    timing: Timing | None = None
    problem: str = ""
    final: bool = False


class KindWinnerChosen(Event, frozen=True, tag="kind_winner_chosen"):
    """Which candidate wins on GPUs of another kind, the baseline where none does, and why."""

    kind: str
    candidate: str
    reason: str


class SweepFinished(Event, frozen=True, tag="sweep_finished"):
    """The open numbers of a candidate were swept by timing, or could not be."""

    candidate: str
    swept: SweptCandidate


class ShippedTimed(Event, frozen=True, tag="shipped_timed"):
    """A source was timed against the kernels that others ship: the best at the end, and what a
    round stands on before a model plans it.
    """

    candidate: str
    shipped: ShippedTimes


class AnalysisGiven(Event, frozen=True, tag="analysis_given"):
    """What an agent makes of a failure or of a profile."""

    candidate: str
    role: str
    text: str
    author: Author
    selection: Selection | None = None
    """What the profiling agent chose to show the planner."""


class VerdictReached(Event, frozen=True, tag="verdict_reached"):
    """The end of one proposal."""

    round: int
    proposal: int
    verdict: RoundVerdict


class BestChanged(Event, frozen=True, tag="best_changed"):
    """Later rounds build on this candidate."""

    round: int
    candidate: str


class RoundClosed(Event, frozen=True, tag="round_closed"):
    """A round ended. One that was `lost` to a failure of the model's server is not done."""

    round: int
    lost: bool = False


class NoteAdded(Event, frozen=True, tag="note_added"):
    """The engineer tells the team something; it enters the next prompt."""

    text: str
    by: Author


class CaseAdded(Event, frozen=True, tag="case_added"):
    """A case more for all candidates from now on; cases are never taken away."""

    case: Case
    by: Author


class CallReserved(Event, frozen=True, tag="call_reserved"):
    """What one sending of a call may cost is set aside before it is sent.

    It counts as spent until the call's ExchangeMade takes its place, also where the engine was
    killed in between. `dollars` is None where no price is known.
    """

    call: int
    purpose: str
    tokens: int
    dollars: float | None = None


class ExchangeMade(Event, frozen=True, tag="exchange_made"):
    """One call of a model. `request` and `reply` are hashes of the texts.

    Tokens of all sendings of it; `estimated` where the server did not count some of them.
    """

    purpose: str
    model: str
    request: str
    reply: str
    input_tokens: int
    output_tokens: int
    seconds: float
    dollars: float | None = None
    error: str = ""
    call: int = 0
    """The number under which it was reserved; 0 in journals of earlier versions."""
    estimated: bool = False


class ToolUsed(Event, frozen=True, tag="tool_used"):
    """An agent used a tool in its turn: on a draft, or to look something up.

    `subject` is what it was used on, `answer` the hash of what the agent was told, `summary` its
    first line, and `cut` says what was left out of it, or not done, since a limit was reached.
    """

    round: int
    role: Role
    tool: str
    subject: str
    summary: str
    answer: str
    seconds: float
    proposal: int = 0
    draft: str = ""
    """The hash of a source that was new."""
    cut: str = ""
    gpu_seconds: float = 0.0


class StepRemembered(Event, frozen=True, tag="step_remembered"):
    """The single agent's conversation holds this step from now on; both texts by their hash."""

    prompt: str
    answer: str


class AutoApprovalSet(Event, frozen=True, tag="auto_approval_set"):
    """An engineer says which questions of those to come are accepted without asking.

    `left` of them are, whatever their risk.
    """

    mode: AutoMode
    by: Author
    left: int = 0


class Paused(Event, frozen=True, tag="paused"):
    """The engine waits; `interrupted` when it dropped the step it was in."""

    by: Author
    interrupted: bool = False


class Resumed(Event, frozen=True, tag="continued"):
    """The engine continues."""

    by: Author


class ErrorOccurred(Event, frozen=True, tag="trouble_met"):
    """Something outside the candidates went wrong; the message says what to do."""

    where: str
    message: str


class StopReason(StrEnum):
    """Why an engine ended."""

    ROUNDS = "rounds"
    NO_PLAN = "no_plan"
    BUDGET = "budget"
    BASELINE = "baseline"
    """The baseline itself fails, so that there is nothing to build on."""
    CANCELLED = "cancelled"
    UNATTENDED = "unattended"
    """A decision is needed and there is no one to take it."""
    TROUBLE = "trouble"
    ROOFLINE = "roofline"
    """The best candidate is about as fast as this GPU can move the bytes."""

    @property
    def words(self) -> str:
        """What front ends show: finished as planned, or stopped, and why."""
        return _STOP_WORDS[self]


_STOP_WORDS = {
    StopReason.ROUNDS: "finished: all rounds",
    StopReason.NO_PLAN: "finished: nothing left to try",
    StopReason.BUDGET: "finished: budget spent",
    StopReason.ROOFLINE: "finished: at the roofline",
    StopReason.BASELINE: "stopped: the baseline fails",
    StopReason.CANCELLED: "stopped: cancelled",
    StopReason.UNATTENDED: "stopped: a decision is needed",
    StopReason.TROUBLE: "stopped: an error",
}


class SessionClosed(Event, frozen=True, tag="session_closed"):
    """An engine ended. `digest` is that of the state before this event."""

    reason: StopReason
    message: str
    digest: str


class RoundsTimed(Transient, frozen=True, tag="rounds_timed"):
    """What the rounds taken so far say about a candidate on one workload."""

    candidate: str
    base: str
    workload: str
    base_us: float
    candidate_us: float
    speedup: Ratio
    rounds: int

    @property
    def pairs(self) -> dict[str, PairedTime | None]:
        """Both times by protocol, as a workload's that was timed: what runs is what decides."""
        return {COLD: PairedTime(self.base_us, self.candidate_us, self.speedup)}


class SweepAdvanced(Transient, frozen=True, tag="sweep_advanced"):
    """How far the sweep of a candidate is, in words."""

    candidate: str
    progress: str


class GpuSampled(Transient, frozen=True, tag="gpu_sampled"):
    """A reading of NVML, up to 4 a second, but none while replays are timed."""

    sample: GpuSample


class WorkersSeen(Transient, frozen=True, tag="workers_seen"):
    """What workers are at, as often as that changes, up to 4 times a second."""

    status: WorkersStatus


class StageBegan(Transient, frozen=True, tag="stage_began"):
    """What is being done for a proposal: "plan", "code", "compile", "check", "sanitize",
    "profile", "time", "sweep", or "hardware" while hardware counters are read.
    """

    stage: str
    round: int
    proposal: int = 0


class AnswerAwaited(Transient, frozen=True, tag="answer_awaited"):
    """A question waits for a front end; also after a session was resumed."""

    question: Question


class TextStreamed(Transient, frozen=True, tag="text_streamed"):
    """A piece of a model's answer; `restart` means that what came before is void."""

    role: str
    text: str
    restart: bool = False


AnyEvent = Union[  # noqa: UP007 - msgspec wants the types themselves.
    SessionOpened, EngineStarted, RoundOpened, MemoryRecalled, PlanProposed, PlanningFinished,
    ParentChosen, ApprovalAsked,
    DecisionTaken, RejectionTakenBack, CodeWritten, CodeFailed, DiffReviewed, CompileFinished,
    CopyFound, CheckStarted,
    CaseChecked, CheckFinished, Sanitized, ProfileTaken, HardwareCountersRead, DeviceOpened,
    WorkloadTimed, TimingFinished, KindTimed, KindWinnerChosen, SweepFinished,
    ShippedTimed, AnalysisGiven, VerdictReached,
    BestChanged, RoundClosed, NoteAdded, CaseAdded, CallReserved, ExchangeMade, ToolUsed,
    StepRemembered,
    AutoApprovalSet, Paused, Resumed, ErrorOccurred, SessionClosed, RoundsTimed,
    SweepAdvanced, GpuSampled, WorkersSeen,
    StageBegan, AnswerAwaited,
    TextStreamed,
]  # fmt: skip

SYNCED = (
    AutoApprovalSet,
    DecisionTaken,
    RejectionTakenBack,
    VerdictReached,
    BestChanged,
    SessionOpened,
    SessionClosed,
)
"""Events that are on the disk before the loop continues."""
