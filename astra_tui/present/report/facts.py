"""What a report needs to know of a session beyond its state, gathered once. Pure data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from astra_tui.model.approval import ApprovalGate, Decision, Question
from astra_tui.model.events import (
    CaseAdded,
    Event,
    ExchangeMade,
    NoteAdded,
    RoundOpened,
    SessionClosed,
    SessionOpened,
)
from astra_tui.model.fold import fold
from astra_tui.model.plan import Plan
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import CandidateState, ProposalState, RoundState, SessionState
from astra_tui.model.timing import Caveat, Timing
from astra_tui.present.timing import CaveatMarks
from astra_tui.present.tones import Phrase
from astra_tui.present.words import round_verdict
from astra_tui.sessions.integrity import Session, Trust
from astra_tui.sessions.reading import journal_path
from astra_tui.sessions.records import LARGEST_JOURNAL
from astra_tui.sessions.safe_open import read_inside
from astra_tui.sessions.summary import FinalTiming, final_timings


@dataclass(frozen=True)
class ReportedProposal:
    """One proposal of a round with all that became of it."""

    round: RoundState
    proposal: ProposalState
    plan: Plan
    """As it was decided."""
    decisions: tuple[tuple[Question, Decision], ...]
    candidate: CandidateState | None
    """The source that was judged; None where there was none."""
    became_best: bool
    told: Phrase
    """Its outcome; in doubt where its timing has a workload that lost."""

    @property
    def label(self) -> str:
        """As in "3", or "3.2" for the second of several proposals."""
        number = str(self.round.number)
        several = len(self.round.proposals) > 1
        return f"{number}.{self.proposal.index + 1}" if several else number


@dataclass(frozen=True)
class ModelCost:
    """The calls of one model for one purpose."""

    purpose: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float
    dollars: float
    unpriced: int
    failed: int


@dataclass(frozen=True)
class Facts:
    """A session as a report sees it."""

    folder: Path
    opened: SessionOpened
    state: SessionState
    started: str
    ended: str
    """Times of the first and last event, UTC."""
    events: int
    reported: tuple[ReportedProposal, ...]
    finals: tuple[FinalTiming, ...]
    timings: tuple[Timing, ...]
    """All of them, round by round and then the final ones."""
    caveats: tuple[Caveat, ...]
    """Every caveat about any measurement once; marks count from 1 in this order."""
    notes: tuple[tuple[int, NoteAdded], ...]
    cases_added: tuple[tuple[int, CaseAdded], ...]
    """With the number of the round in which they came."""
    costs: tuple[ModelCost, ...]
    digest: str
    closing_digest: str
    """What the engine wrote as it closed the session; "" where it did not."""
    recomputed_digest: str
    """The same from the events before that."""
    journal_sha256: str
    damage: tuple[str, ...]
    trust: Trust
    """How far the session may be believed."""

    @property
    def on_emulator(self) -> bool:
        """Whether candidates ran on the emulator, which gives counters and never a time."""
        return self.device == EMULATOR and not self.timings

    @property
    def device(self) -> str:
        """Where candidates ran."""
        return self.state.device_name

    @property
    def gpu_name(self) -> str:
        """The name of the GPU; "" on the emulator and where it is unknown."""
        gpu = self.state.device.gpu if self.state.device else None
        return (gpu.name or "") if gpu else ""

    @property
    def baseline(self) -> CandidateState:
        """Where optimisation started."""
        return self.state.candidate(self.opened.baseline)

    @property
    def best(self) -> CandidateState:
        """The best correct candidate; the baseline where none was better."""
        return self.state.candidate(self.state.best)

    @property
    def won(self) -> bool:
        """Whether a candidate took the baseline's place."""
        return self.state.has_better

    @property
    def marks(self) -> CaveatMarks:
        """Links to the caveats section, by caveat."""
        return CaveatMarks(self.caveats, linked=True)


def gather(session: Session) -> Facts:
    """The facts of a session that was read from its folder.

    Raises UserError when the session was never opened, or its journal is none that an engine could
    have written.
    """
    state, contents, folder = session.state, session.contents, session.folder
    assert state.opened is not None
    timings = tuple(_timings(state))
    closing, recomputed = _closing_digests(contents.events)
    path = journal_path(folder)
    return Facts(
        folder=folder,
        opened=state.opened,
        state=state,
        started=contents.records[0].time,
        ended=contents.records[-1].time,
        events=len(contents.records),
        reported=tuple(_reported(state)),
        finals=final_timings(state),
        timings=timings,
        caveats=tuple(dict.fromkeys(d for t in timings for w in t.workloads for d in w.caveats)),
        notes=tuple((n, e) for n, e in _with_rounds(contents.events) if isinstance(e, NoteAdded)),
        cases_added=tuple(
            (n, e) for n, e in _with_rounds(contents.events) if isinstance(e, CaseAdded)
        ),
        costs=_costs(contents.events),
        digest=state.digest(),
        closing_digest=closing,
        recomputed_digest=recomputed,
        journal_sha256=sha256(read_inside(folder, path.name, LARGEST_JOURNAL)).hexdigest(),
        damage=tuple(f"line {d.line}: {d.message}" for d in contents.damage),
        trust=session.trust,
    )


def _reported(state: SessionState) -> Iterator[ReportedProposal]:
    for round_ in state.rounds:
        for proposal in round_.proposals:
            verdict = proposal.verdict
            hash_ = verdict.candidate if verdict else ""
            yield ReportedProposal(
                round=round_,
                proposal=proposal,
                plan=state.plan_of(round_.number, proposal.index),
                decisions=_decisions(state, round_.number, proposal.index),
                candidate=state.candidate(hash_) if hash_ else None,
                became_best=bool(hash_) and round_.best == hash_,
                told=round_verdict(state, verdict) if verdict else Phrase("not judged"),
            )


def _decisions(
    state: SessionState, round_: int, proposal: int
) -> tuple[tuple[Question, Decision], ...]:
    asked = [q for q in state.questions.values() if (q.round, q.proposal) == (round_, proposal)]
    plans_first = sorted(asked, key=lambda q: (q.gate is not ApprovalGate.PLAN, q.attempt))
    return tuple((q, state.decisions[q.id]) for q in plans_first if q.id in state.decisions)


def _timings(state: SessionState) -> Iterator[Timing]:
    finished = [t for c in state.candidates.values() for t in c.timings]
    yield from (t.timing for t in finished if not t.final)
    yield from (t.timing for t in finished if t.final)


def _with_rounds(events: tuple[Event, ...]) -> Iterator[tuple[int, Event]]:
    number = 0
    for event in events:
        if isinstance(event, RoundOpened):
            number = event.round
        yield number, event


def _costs(events: tuple[Event, ...]) -> tuple[ModelCost, ...]:
    groups: dict[tuple[str, str], list[ExchangeMade]] = {}
    for event in events:
        if isinstance(event, ExchangeMade):
            groups.setdefault((event.purpose, event.model), []).append(event)
    return tuple(
        ModelCost(
            purpose=purpose,
            model=model,
            calls=len(calls),
            input_tokens=sum(c.input_tokens for c in calls),
            output_tokens=sum(c.output_tokens for c in calls),
            seconds=sum(c.seconds for c in calls),
            dollars=sum(c.dollars or 0.0 for c in calls),
            unpriced=sum(c.dollars is None for c in calls),
            failed=sum(bool(c.error) for c in calls),
        )
        for (purpose, model), calls in groups.items()
    )


def _closing_digests(events: tuple[Event, ...]) -> tuple[str, str]:
    """The digest in the last closing event, and that of the events before it; "" if not closed."""
    if not events or not isinstance(last := events[-1], SessionClosed):
        return "", ""
    return last.digest, fold(events[:-1]).digest()
