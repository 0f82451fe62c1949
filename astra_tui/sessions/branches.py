"""Branches: a new session that begins with the events of another one, up to a place of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from astra_tui.model.approval import (
    Answer,
    ApprovalGate,
    ApprovalStatus,
    AutoMode,
    decide,
    plan_question,
)
from astra_tui.model.author import Author
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.events import (
    ApprovalAsked,
    AutoApprovalSet,
    BestChanged,
    DecisionTaken,
    EngineStarted,
    Event,
    ForkPoint,
    NoteAdded,
    PlanningFinished,
    PlanProposed,
    RoundClosed,
    RoundOpened,
    SessionClosed,
    SessionOpened,
)
from astra_tui.model.fold import apply
from astra_tui.model.plan import Plan
from astra_tui.model.state import SessionState
from astra_tui.sessions.comparison import SHORTEST_HASH
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import cannot_be_resumed, named_texts, read_session
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.sessions.timeline import Timeline


class ForkPlace(msgspec.Struct, frozen=True):
    """A place of a session: after its first `position` events.

    `question` is the decision before which it lies. `best` is the candidate on which the next
    round builds, where that is not the session's own choice; `round` is the last one before it.
    """

    position: int
    round: int
    question: str = ""
    best: str = ""


def find_place(timeline: Timeline, at: str) -> ForkPlace:
    """The place that a user names: a round, a decision or a candidate.

    "3" and "r3" are after round 3; "3.0.plan" is before that decision is taken; a hash, or its
    first digits, is after the round that wrote the candidate, with the candidate as the best.
    Raises UserError, which offers what there is.
    """
    state = timeline.final_state()
    if at in state.questions:
        return _before_decision(timeline, at)
    number = at.removeprefix("r")
    if number.isascii() and number.isdigit() and len(number) < SHORTEST_HASH:
        return _behind_round(timeline, int(number))
    return _behind_candidate(timeline, at)


def find_intact_place(parent: Path, at: str) -> tuple[Timeline, ForkPlace]:
    """The place that a user names, and the past of the session that leads there.

    The past ends before the first line that was altered. Raises UserError where the place is not
    in it, and where a text was altered.
    """
    session = read_session(parent)
    altered = session.integrity.altered
    files = [flaw for flaw in altered if not flaw.line]
    first = next(iter((*files, *altered)), None)
    timeline = session.timeline
    if first is not None:
        timeline = Timeline(session.contents.records[: max(first.line - 1, 0)])
    try:
        return timeline, find_place(timeline, at)
    except UserError:
        if first is not None:
            raise cannot_be_resumed(first, parent, timeline.records) from None
        raise


def fork_session(
    parent: Path,
    timeline: Timeline,
    place: ForkPlace,
    folder: Path,
    redactor: Redactor,
    by: Author,
    *,
    plan: Plan | None = None,
    note: str = "",
) -> None:
    """Writes the branch into a folder that has no session; the parent is only read.

    `plan` replaces the one that waits at a plan's decision, or becomes the next round's; either
    way it is decided. Raises UserError where it does not fit the place, or a text is missing.
    """
    begin = timeline.state(place.position)
    if begin.opened is None:
        raise UserError("nothing was opened before this place", file=str(parent))
    kept = timeline.records[: place.position]
    with Journal.create(folder, redactor) as journal:
        for hash_ in named_texts(kept):
            _copied(hash_, journal.put(read_blob(parent, hash_)), parent)
        for hash_ in _sources(begin):
            _copied(hash_, journal.put_source(read_blob(parent, hash_)), parent)
        state = SessionState()
        for record in kept:
            if isinstance(record.event, SessionClosed):
                continue  # Its digest is of the parent's state.
            if isinstance(record.event, SessionOpened):
                opened = _opened(record.event, parent, folder, timeline, place)
                record = replace(record, event=opened)
            state = apply(state, journal.copy(record).event)
        for event in _added(state, place, plan, note, by):
            state = apply(state, journal.append(event).event)


def has_run_since(records: Iterable[Record], opened: SessionOpened) -> bool:
    """Whether an engine has run a session, or of a branch more than the past that it was given."""
    begin = opened.forked_from.seq if opened.forked_from else -1
    return any(r.seq > begin and isinstance(r.event, EngineStarted) for r in records)


def _copied(hash_: str, stored: str, parent: Path) -> None:
    if stored != hash_:
        raise UserError(
            f"the text {short(hash_)} holds what looks like a secret, and is not copied",
            file=str(parent),
        )


def _opened(
    event: SessionOpened, parent: Path, folder: Path, timeline: Timeline, place: ForkPlace
) -> SessionOpened:
    digest = timeline.state(place.position).digest()
    seq = timeline.records[place.position - 1].seq
    origin = ForkPoint(parent.resolve().name, seq, digest)
    return replace(event, session=folder.name, forked_from=origin)


def _sources(state: SessionState) -> Iterator[str]:
    """What has a file of its own in `sources/`."""
    assert state.opened is not None
    yield state.opened.baseline
    for round_ in state.rounds:
        for proposal in round_.proposals:
            yield from proposal.written


def _added(
    state: SessionState, place: ForkPlace, plan: Plan | None, note: str, by: Author
) -> Iterator[Event]:
    if place.best and place.best != state.best:
        yield BestChanged(place.round, place.best)
    if state.auto.is_on:
        yield AutoApprovalSet(AutoMode.ASK, by)  # Of the branch that is not known.
    if note:
        yield NoteAdded(note, by)
    if plan is not None and place.question:
        yield _edited(state, place.question, plan, by)
    elif plan is not None:
        yield from _new_round(place.best or state.best, place.round + 1, state, plan, by)


def _edited(state: SessionState, question_id: str, plan: Plan, by: Author) -> DecisionTaken:
    question = state.questions[question_id]
    if question.gate is not ApprovalGate.PLAN:
        message = f"{question_id} decides on code; a plan takes the place of a plan"
        raise UserError(message, hint=f"fork at {question.round}.{question.proposal}.plan")
    status = ApprovalStatus.EDITED if plan.hash != question.subject else ApprovalStatus.ACCEPTED
    edited = plan if status is ApprovalStatus.EDITED else None
    answer = Answer(question_id, question.subject, status, by, plan=edited)
    return DecisionTaken(decide(question, answer))


def _new_round(
    base: str, number: int, state: SessionState, plan: Plan, by: Author
) -> Iterator[Event]:
    parent = next((r.number for r in reversed(state.rounds) if r.best), 0)
    question = plan_question(number, 0, plan)
    answer = Answer(question.id, question.subject, ApprovalStatus.ACCEPTED, by)
    yield RoundOpened(number, parent, base)
    yield PlanProposed(number, 0, plan, by)
    yield PlanningFinished(number)
    yield ApprovalAsked(question)
    yield DecisionTaken(decide(question, answer))


# -- places ----------------------------------------------------------------------------------------


def _before_decision(timeline: Timeline, question: str) -> ForkPlace:
    for number, record in enumerate(timeline.records):
        event = record.event
        if isinstance(event, DecisionTaken) and event.decision.question == question:
            round_ = timeline.final_state().questions[question].round
            return ForkPlace(number, round_, question)
    return _open_question(timeline, question)


def _open_question(timeline: Timeline, question: str) -> ForkPlace:
    """A decision that is still open is open in the branch as well, whatever came after it."""
    asked = [
        (number, record.event.question.round)
        for number, record in enumerate(timeline.records, start=1)
        if isinstance(record.event, ApprovalAsked) and record.event.question.id == question
    ]
    position, round_ = asked[-1]
    return ForkPlace(position, round_, question)


def _behind_round(timeline: Timeline, round_: int) -> ForkPlace:
    for number, record in enumerate(timeline.records, start=1):
        if isinstance(record.event, RoundClosed) and record.event.round == round_:
            return ForkPlace(number, round_)
    closed = [r.number for r in timeline.final_state().rounds if r.closed]
    if not closed:
        raise UserError("no round of this session has ended", hint="resume it first")
    raise UserError(
        f"this session has no round {round_} that ended", hint=f"its last one is {closed[-1]}"
    )


def _behind_candidate(timeline: Timeline, start: str) -> ForkPlace:
    state = timeline.final_state()
    found = [h for h in state.candidates if h.startswith(start.lower())]
    if len(start) < SHORTEST_HASH or len(found) != 1:
        raise _not_found(state, start, len(found))
    (candidate,) = found
    known = state.candidate(candidate)
    if not known.correct or known.profile is None:
        raise UserError(
            f"candidate {short(candidate)} did not pass its check, and nothing is built on it",
            hint="fork at the decision on its plan or its diff",
        )
    written = _round_of(state, candidate)
    return replace(_behind_round(timeline, written), best=candidate)


def _round_of(state: SessionState, candidate: str) -> int:
    for round_ in state.rounds:
        for proposal in round_.proposals:
            if proposal.code is not None and proposal.code.candidate == candidate:
                return round_.number
    if state.opened is not None and candidate == state.opened.baseline:
        return 0
    raise UserError(f"candidate {short(candidate)} was written in no round of this session")


def _not_found(state: SessionState, at: str, count: int) -> UserError:
    if count > 1 or (at and len(at) < SHORTEST_HASH and count):
        return UserError(f"{count} candidates begin with '{at}'", hint="give more digits")
    places = [*state.questions, *(f"r{r.number}" for r in state.rounds if r.closed)]
    hint = nearest(at, places) if places else "no round of it has ended, and nothing was decided"
    return UserError(f"this session has no round, decision or candidate '{at}'", hint=hint)
