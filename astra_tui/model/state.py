"""A session as it stands: what the fold of its events makes. Immutable."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import msgspec

from astra_tui.model.approval import (
    ApprovalGate,
    ApprovalStatus,
    AutoApproval,
    Decision,
    Question,
    plan_question_id,
)
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case, CaseResult, CheckVerdict
from astra_tui.model.constraints import Ruling
from astra_tui.model.counters import NcuReport
from astra_tui.model.digest import digest_of
from astra_tui.model.events import (
    AnalysisGiven,
    CallReserved,
    CheckFinished,
    CodeFailed,
    CodeWritten,
    CompileFinished,
    DeviceOpened,
    DiffReviewed,
    ErrorOccurred,
    KindTimed,
    MemoryRecalled,
    NoteAdded,
    ParentChoice,
    SessionClosed,
    SessionOpened,
    TimingFinished,
    WorkloadTimed,
)
from astra_tui.model.findings import SanitizerReport
from astra_tui.model.plan import MERGE_MOVE, Plan
from astra_tui.model.roles import Role
from astra_tui.model.settings import EMULATOR
from astra_tui.model.timing import Ratio, Timing, TimingVerdict
from astra_tui.model.tuning import SweptCandidate
from astra_tui.model.verdict import Comparison, Outcome, Profile, RoundVerdict
from astra_tui.model.yardsticks import ShippedTimes

FREE_REJECTIONS = 20
"""So many rounds of a session in which every plan was rejected, before any code, cost no round."""


class CandidateState(msgspec.Struct, frozen=True):
    """What is known of one source, by any author and however often written."""

    hash: str
    compilation: CompileFinished | None = None
    cases: int = 0
    """Cases that the running or finished check has."""
    results: tuple[CaseResult, ...] = ()
    check: CheckFinished | None = None
    sanitizer: tuple[SanitizerReport, ...] = ()
    """One a tool; empty unless the session asks for compute-sanitizer."""
    profile: Profile | None = None
    machine_code: str = ""
    """Hash of the text that holds it; empty where there is none."""
    hardware: NcuReport | None = None
    """None unless the session asks for hardware counters."""
    timed: tuple[WorkloadTimed, ...] = ()
    """Workloads of the timing that runs; empty once it has ended."""
    timings: tuple[TimingFinished, ...] = ()
    """Against every base that it was timed with, oldest first."""
    swept: SweptCandidate | None = None
    """None unless its open numbers were swept."""
    shipped: ShippedTimes | None = None
    """Against the kernels that others ship; None where it was not timed against them."""
    analyses: tuple[AnalysisGiven, ...] = ()
    copy_of: str = ""
    """The candidate whose results these are, since both run the same code."""

    @property
    def correct(self) -> bool:
        """Whether every case has passed, and no tool found anything. One that did not look at the
        candidate says nothing against it.
        """
        passed = self.check is not None and self.check.verdict is CheckVerdict.PASSED
        return passed and not any(report.found for report in self.sanitizer)

    def timing(self, base: str, *, final: bool = False) -> Timing | None:
        """The latest timing against a base."""
        found = (
            t.timing for t in reversed(self.timings) if t.timing.base == base and t.final == final
        )
        return next(found, None)

    @property
    def is_timed(self) -> bool:
        """Whether it was profiled on a device that gives times; the emulator gives none."""
        return self.profile is not None and self.profile.device != EMULATOR

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """The cases that speak against it."""
        return tuple(r for r in self.results if not r.outcome.ok)


class ProposalState(msgspec.Struct, frozen=True):
    """One plan of a round, the code written for it, and its verdict."""

    index: int
    plan: Plan
    author: Author
    attempts: tuple[CodeWritten | CodeFailed, ...] = ()
    verdict: RoundVerdict | None = None
    reviews: tuple[DiffReviewed, ...] = ()

    @property
    def merges(self) -> bool:
        """Whether it takes over another branch, in a round that merges: a playbook that cannot
        tries another move, and a model is asked to.
        """
        return self.plan.move in ("", MERGE_MOVE)

    @property
    def comparison(self) -> Comparison | None:
        """What was measured of it against its base; None where nothing was."""
        return self.verdict.comparison if self.verdict else None

    @property
    def speedup(self) -> Ratio | None:
        """Over its base, of all workloads together; None where it was not timed."""
        return self.comparison.speedup if self.comparison else None

    @property
    def written(self) -> tuple[str, ...]:
        """The candidates that were written for it, repairs included, oldest first."""
        return tuple(a.candidate for a in self.attempts if isinstance(a, CodeWritten))

    def rulings(self, candidate: str) -> tuple[Ruling, ...]:
        """What is known of a candidate against what the engineer said."""
        found = (r.rulings for r in reversed(self.reviews) if r.candidate == candidate)
        return next(found, ())

    @property
    def code(self) -> CodeWritten | None:
        """The latest code."""
        last = self.attempts[-1] if self.attempts else None
        return last if isinstance(last, CodeWritten) else None

    @property
    def lost(self) -> bool:
        """Whether the model or its server gave nothing for this plan that can be used."""
        last = self.attempts[-1] if self.attempts else None
        return isinstance(last, CodeFailed) and last.lost and len(self.attempts) == 1

    @property
    def unanswered(self) -> bool:
        """Whether it was lost to a failure of the model's server."""
        return self.lost and not any(a.answered for a in self.attempts if isinstance(a, CodeFailed))


class RoundState(msgspec.Struct, frozen=True):
    """One round; round 0 is the baseline and has no proposals."""

    number: int
    parent: int
    base: str
    other: str = ""
    why: ParentChoice = ParentChoice.BEST
    among: int = 0
    """As in `RoundOpened`."""
    proposals: tuple[ProposalState, ...] = ()
    planned: bool = False
    no_plan: str = ""
    refused: tuple[str, ...] = ()
    best: str = ""
    """The candidate of this round that became the best; empty if none did."""
    closed: bool = False
    no_answer: bool = False
    """Whether there is no plan because the model or its server gave nothing that can be used."""
    answered: bool = False
    """Whether it was the model that gave it."""
    lost: bool = False
    """Whether it was lost to a failure of the model's server: it is closed and not done."""
    recalled: MemoryRecalled | None = None
    """What earlier sessions of this machine told its planning."""
    elsewhere: str = ""
    """The device on which it ended, where the session has gone on to one of another kind."""

    @property
    def barren(self) -> bool:
        """Whether the team had no plan for the candidate on which it stands."""
        return self.closed and self.number > 0 and not self.proposals and not self.no_answer

    @property
    def unanswered(self) -> bool:
        """Whether the model's server failed in all that it was asked for."""
        if not self.proposals:
            return self.no_answer and not self.answered
        return all(p.unanswered for p in self.proposals)

    @property
    def unusable(self) -> bool:
        """Whether the model answered, and nothing of it can be used."""
        gone = all(p.lost for p in self.proposals) if self.proposals else self.no_answer
        return gone and not self.unanswered

    @property
    def loss(self) -> str:
        """Why nothing of what the model or its server gave can be used; "" where something can."""
        failed = [p.attempts[-1] for p in self.proposals if p.lost]
        reasons = [f.reason for f in failed if isinstance(f, CodeFailed)]
        return next(iter(reasons), self.no_plan if self.no_answer else "")

    @property
    def winner(self) -> str:
        """The candidate that gained most over the base; "" where none did. It may not be the best
        of the session.
        """
        better = [
            (verdict.comparison.rank, p.index, verdict.candidate)
            for p in self.proposals
            if (verdict := p.verdict) is not None
            and verdict.outcome is Outcome.BETTER
            and verdict.comparison is not None
        ]
        return min(better)[2] if better else ""

    @property
    def turned_down(self) -> bool:
        """Whether every plan was rejected before any code was written for it."""
        return (
            self.closed
            and bool(self.proposals)
            and all(
                not p.attempts and p.verdict is not None and p.verdict.outcome is Outcome.REJECTED
                for p in self.proposals
            )
        )


@lru_cache(maxsize=256)
def _nothing_known(hash_: str) -> CandidateState:
    """The same object each time: panes draw again what is another one."""
    return CandidateState(hash_)


class SessionStatus(StrEnum):
    """What the session is doing."""

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting"
    """A decision is asked for."""
    CLOSED = "closed"


class Usage(msgspec.Struct, frozen=True):
    """What models cost so far; `dollars` counts the calls whose price is known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced_calls: int = 0
    gpu_seconds: float = 0.0
    """Seconds in which the GPU was timing."""
    estimated_calls: int = 0
    """Calls with tokens that no server has counted."""
    reserved: tuple[CallReserved, ...] = ()
    """Sendings of calls whose cost is not known yet, or never will be."""
    last_call: int = 0
    tools_used: int = 0

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    @property
    def reserved_tokens(self) -> int:
        """What calls that have not ended may cost."""
        return sum(one.tokens for one in self.reserved)

    @property
    def reserved_dollars(self) -> float:
        """What calls that have not ended may cost, as far as prices are known."""
        return sum(one.dollars or 0.0 for one in self.reserved)

    @property
    def open_calls(self) -> int:
        """Calls that have not ended."""
        return len({one.call for one in self.reserved})


class KindState(msgspec.Struct, frozen=True):
    """What is known on GPUs of another kind than the session's."""

    winner: str = ""
    """"" before it was chosen; the baseline where nothing is better."""
    reason: str = ""
    timed: tuple[KindTimed, ...] = ()

    def has(self, candidate: str, base: str, *, final: bool = False) -> bool:
        """Whether a pair was timed, or it was found that it cannot be."""
        return self._latest(candidate, base, final) is not None

    def timing(self, candidate: str, base: str, *, final: bool = False) -> Timing | None:
        """The latest timing of a pair."""
        found = self._latest(candidate, base, final)
        return found.timing if found is not None else None

    def faster(self, base: str) -> tuple[str, ...]:
        """What is faster than a base, the fastest first."""
        found = {
            t.candidate: t.timing.speedup.value
            for t in self.timed
            if t.base == base and not t.final and t.timing is not None
            and t.timing.verdict is TimingVerdict.FASTER
        }  # fmt: skip
        return tuple(sorted(found, key=lambda candidate: -found[candidate]))

    def _latest(self, candidate: str, base: str, final: bool) -> KindTimed | None:
        wanted = candidate, base, final
        return next(
            (t for t in reversed(self.timed) if (t.candidate, t.base, t.final) == wanted), None
        )


class SessionState(msgspec.Struct, frozen=True):
    """The whole session."""

    opened: SessionOpened | None = None
    rounds: tuple[RoundState, ...] = ()
    candidates: dict[str, CandidateState] = {}
    questions: dict[str, Question] = {}
    decisions: dict[str, Decision] = {}
    best: str = ""
    next_parent: str = ""
    """The candidate on which the engineer wants the next round to stand."""
    notes: tuple[NoteAdded, ...] = ()
    cases: tuple[Case, ...] = ()
    usage: Usage = Usage()
    paused: bool = False
    auto: AutoApproval = AutoApproval()
    round_limit: int = 0
    device: DeviceOpened | None = None
    kinds: dict[str, KindState] = {}
    """By the names of GPUs of other kinds that workers have: a portfolio, of which no mean means
    anything."""
    troubles: tuple[ErrorOccurred, ...] = ()
    closed: SessionClosed | None = None

    @property
    def seed(self) -> int:
        """What the suite's drawn cases follow from, in this session."""
        return self.opened.seed if self.opened is not None else 0

    @property
    def pending(self) -> tuple[Question, ...]:
        """Questions without a decision, oldest first."""
        return tuple(q for key, q in self.questions.items() if key not in self.decisions)

    def decisions_of(self, round_: int, proposal: int) -> tuple[Decision, ...]:
        """What was decided of a proposal, of its plan first."""
        place = (round_, proposal)
        asked = [q for q in self.questions.values() if (q.round, q.proposal) == place]
        asked.sort(key=lambda q: (q.gate is not ApprovalGate.PLAN, q.attempt))
        return tuple(self.decisions[q.id] for q in asked if q.id in self.decisions)

    @property
    def status(self) -> SessionStatus:
        """What the session is doing."""
        if self.opened is None:
            return SessionStatus.NEW
        if self.closed is not None:
            return SessionStatus.CLOSED
        if self.paused:
            return SessionStatus.PAUSED
        return SessionStatus.WAITING if self.pending else SessionStatus.RUNNING

    @property
    def rounds_free(self) -> int:
        """Rounds that cost nothing: a run has as many more. All of their plans were rejected, or
        there was none for the candidate that a search had chosen.
        """
        barren = sum(r.barren and r.why is not ParentChoice.BEST for r in self.rounds)
        return barren + min(sum(r.turned_down for r in self.rounds), FREE_REJECTIONS)

    @property
    def rounds_done(self) -> int:
        """Rounds of the limit that are used up."""
        closed = sum(r.closed and not r.lost for r in self.rounds if r.number)
        return closed - self.rounds_free

    @property
    def device_name(self) -> str:
        """The device on which candidates run; empty before the session was opened."""
        if self.device is not None:
            return self.device.device
        return self.opened.settings.device if self.opened is not None else ""

    @property
    def gpu_name(self) -> str:
        """The kind of GPU on which rounds are decided; "" on the emulator."""
        gpu = self.device.gpu if self.device is not None else None
        return (gpu.name or "") if gpu is not None else ""

    @property
    def has_better(self) -> bool:
        """Whether a candidate took the baseline's place."""
        return self.opened is not None and self.best != self.opened.baseline

    @property
    def revocable(self) -> Decision | None:
        """The rejection that can be taken back: an engineer's, the latest decision, while no other
        plan of its round is the best.
        """
        last = next(reversed(self.decisions.values()), None)
        if last is None or last.status is not ApprovalStatus.REJECTED:
            return None
        if last.by.kind is AuthorKind.POLICY:
            return None
        round_ = self.round(self.questions[last.question].round)
        return last if not round_.best else None

    def round(self, number: int) -> RoundState:
        """The round with this number. Raises KeyError when there is none."""
        return self.rounds[self.round_index(number)]

    def round_index(self, number: int) -> int:
        """The place of a round in `rounds`, which an engine numbers from 0. Raises KeyError."""
        if 0 <= number < len(self.rounds) and self.rounds[number].number == number:
            return number
        for index, found in enumerate(self.rounds):
            if found.number == number:
                return index
        raise KeyError(number)

    def candidate(self, hash_: str) -> CandidateState:
        """What is known of a source; nothing, if it is new."""
        return self.candidates.get(hash_) or _nothing_known(hash_)

    def checked_with_code_of(self, candidate: str) -> str:
        """A candidate that was checked and runs the same code as this one; "" without any."""
        compiled = self.candidate(candidate).compilation
        if compiled is None or not compiled.code:
            return ""
        same = (
            known.hash
            for known in self.candidates.values()
            if known.check is not None and known.compilation is not None
            and known.compilation.code == compiled.code and not known.copy_of
        )  # fmt: skip
        return next(same, "")

    def place_of(self, candidate: str) -> tuple[int, int]:
        """The round and the proposal that first wrote a candidate; (0, 0) for the baseline."""
        found = (
            (round_.number, proposal.index)
            for round_ in self.rounds
            for proposal in round_.proposals
            for attempt in proposal.attempts
            if isinstance(attempt, CodeWritten) and attempt.candidate == candidate
        )
        return next(found, (0, 0))

    def reading(self, candidate: str, round_: int) -> AnalysisGiven | None:
        """What the profiling agent made of a candidate, as it was known in a round."""
        read = (a for a in self.candidate(candidate).analyses if a.role == Role.PROFILING)
        known = [a for a in read if a.selection is None or a.selection.round <= round_]
        return known[-1] if known else None

    def origin_words(self, candidate: str, place: tuple[int, int]) -> str:
        """Whose results a candidate at a place of the session has; "" where they are its own."""
        original = self.candidate(candidate).copy_of
        round_, proposal = self.place_of(original or candidate)
        if not original and (round_, proposal) == place:
            return ""
        what = f"plan {proposal + 1} of round {round_}" if round_ else "the baseline"
        return f"the same {'machine code' if original else 'source'} as that of {what}"

    def _edit_of(self, round_: int, proposal: int, plan: Plan) -> Decision | None:
        """The decision by which a plan that was proposed was edited, if it was."""
        decision = self.decisions.get(plan_question_id(round_, proposal))
        if decision is None or decision.status is not ApprovalStatus.EDITED:
            return None
        return decision if decision.subject == plan.hash else None

    def plan_of(self, round_: int, proposal: int) -> Plan:
        """The plan of a proposal as it was decided: as proposed, or as the engineer edited it."""
        proposed = self.round(round_).proposals[proposal].plan
        edit = self._edit_of(round_, proposal, proposed)
        return edit.plan if edit is not None and edit.plan else proposed

    def written_by(self, round_: int, proposal: int, candidate: str = "") -> str:
        """Who wrote a candidate of a proposal, and who edited the plan that it follows.

        Of the latest code where none is named, and of the plan where there is no code.
        """
        found = self.round(round_).proposals[proposal]
        codes = [a for a in found.attempts if isinstance(a, CodeWritten)]
        code = next((c for c in codes if c.candidate == candidate), codes[-1] if codes else None)
        author = code.author if code else found.author
        edit = self._edit_of(round_, proposal, found.plan)
        if edit is None or author.kind is AuthorKind.ENGINEER:
            return author.describe()
        return f"{author.describe()}, plan edited by {edit.by.describe()}"

    def digest(self) -> str:
        """The same for the same events, on any machine and with any later version."""
        return digest_of(self)
