"""Long sessions that no one has run, event by event as an engine would have written them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from astra_tui.model.approval import ApprovalGate, Question
from astra_tui.model.check import CaseOutcome, CaseResult, CheckVerdict, OutputError
from astra_tui.model.digest import content_hash
from astra_tui.model.events import (
    ApprovalAsked,
    BestChanged,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeWritten,
    CompileFinished,
    EngineStarted,
    Event,
    PlanningFinished,
    PlanProposed,
    ProfileTaken,
    RoundClosed,
    RoundOpened,
    SessionClosed,
    StopReason,
    VerdictReached,
)
from astra_tui.model.fold import apply
from astra_tui.model.state import SessionState
from astra_tui.sessions.journal_lines import Record, decode_record, encode_record, sealed, timestamp
from astra_tui.sessions.journal_reader import journal_path

from .samples import BASELINE, CASE, PLAN, PLAYBOOK, accepted, opened, profile, verdict

BEGIN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECONDS_A_EVENT = 0.25


def source_of(round_: int) -> str:
    """The source that a round writes."""
    return f"__global__ void k() {{ /* {round_} */ }}\n" if round_ else "__global__ void k() {}\r\n"


def hash_of(round_: int) -> str:
    """Its hash; round 0 is the baseline."""
    return content_hash(source_of(round_)) if round_ else BASELINE


def events_of(rounds: int, cases: int) -> Iterator[Event]:
    """A session in which every round is better than the one before."""
    yield opened()
    yield EngineStarted("host", 1, rounds)
    yield RoundOpened(0, 0, BASELINE)
    yield from _tried(BASELINE, cases, 64 + rounds)
    yield RoundClosed(0)
    for number in range(1, rounds + 1):
        yield from _round(number, cases, 64 + rounds - number)


def _round(number: int, cases: int, requests: int) -> Iterator[Event]:
    base, candidate = hash_of(number - 1), hash_of(number)
    plan = Question(f"{number}.0.plan", ApprovalGate.PLAN, number, 0, PLAN.hash)
    diff = Question(f"{number}.0.diff.0", ApprovalGate.DIFF, number, 0, candidate, 0, base, 1)
    yield RoundOpened(number, number - 1, base)
    yield PlanProposed(number, 0, PLAN, PLAYBOOK)
    yield PlanningFinished(number)
    yield ApprovalAsked(plan)
    yield accepted(plan)
    yield CodeWritten(number, 0, 0, candidate, base, PLAYBOOK, "wider")
    yield ApprovalAsked(diff)
    yield accepted(diff)
    yield from _tried(candidate, cases, requests)
    yield VerdictReached(number, 0, replace(verdict(), candidate=candidate, base=base))
    yield BestChanged(number, candidate)
    yield RoundClosed(number)


def _tried(candidate: str, cases: int, requests: int) -> Iterator[Event]:
    yield CompileFinished(candidate, True, (), "NVRTC", 0.1)
    yield CheckStarted(candidate, cases)
    for number in range(cases):
        case = replace(CASE, name=f"tokens={number}", dims={"tokens": number, "d": 8})
        yield CaseChecked(candidate, CaseResult(case, CaseOutcome.PASSED, outputs=_OUTPUTS))
    yield CheckFinished(candidate, CheckVerdict.PASSED, "", (), (), 0.25)
    yield ProfileTaken(candidate, profile(requests))


_OUTPUTS = (OutputError("out", 0.5, max_abs=1e-3, max_ulp=1.0, at=(0, 3), got=1.0, expected=1.001),)


def write_session(folder: Path, rounds: int, cases: int = 50) -> int:
    """Writes the journal of such a session at once, closed by its digest; returns its events."""
    state, lines = SessionState(), []
    folder.mkdir(parents=True)

    def put(event: Event) -> None:
        time = timestamp(BEGIN + timedelta(seconds=SECONDS_A_EVENT * len(lines)))
        line = encode_record(Record(len(lines), time, SECONDS_A_EVENT * len(lines), event))
        lines.append(sealed(line, decode_record(lines[-1]).seal if lines else ""))

    for event in events_of(rounds, cases):
        state = apply(state, event)
        put(event)
    put(SessionClosed(StopReason.ROUNDS, f"{rounds} rounds", state.digest()))
    journal_path(folder).write_bytes(b"".join(lines))
    return len(lines)
