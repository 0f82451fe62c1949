"""The result of a session, as `astra-tui run --json` prints it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from astra_tui.model.approval import ApprovalGate, ApprovalStatus
from astra_tui.model.check import CheckReport
from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.counters import NcuReport
from astra_tui.model.digest import short
from astra_tui.model.events import ParentChoice, SessionOpened
from astra_tui.model.findings import SanitizerReport
from astra_tui.model.ledger import LedgerEntry, Score, ledger, score
from astra_tui.model.plan import Citation, Observation, Prediction, Risk
from astra_tui.model.state import (
    CandidateState,
    ProposalState,
    RoundState,
    SessionState,
    Usage,
)
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import Outcome, Profile
from astra_tui.model.yardsticks import ShippedTimes
from astra_tui.sessions.folder import source_path

COUNTERS = (
    "requests",
    "sectors",
    "bytes",
    "warp_instructions",
    "shared_requests",
    "bank_conflicts",
    "barriers",
)
"""The counters of a report, each added up over the workloads."""


class CandidateReport(msgspec.Struct, frozen=True):
    """One kernel source; `verdict` is that of its check, `counters` what its profile adds up to.

    `sanitizer` and `hardware` are there where the session asked for them.
    """

    candidate: str
    source: str
    verdict: str | None
    message: str
    counters: dict[str, int] | None
    sanitizer: tuple[SanitizerReport, ...]
    hardware: NcuReport | None


class DecisionReport(msgspec.Struct, frozen=True):
    """What was decided at a gate of a proposal, and by whom."""

    gate: ApprovalGate
    status: ApprovalStatus
    by: str
    reason: str


class CitationReport(msgspec.Struct, frozen=True):
    """A number that a plan's evidence cites, with the one of the version that it starts from."""

    citation: Citation
    known: float | None
    """None where nothing of that name was measured there."""
    standing: CitationStatus


class EvidenceReport(msgspec.Struct, frozen=True):
    """One sentence of a plan's evidence, and the numbers that it cites."""

    sentence: str
    cites: tuple[CitationReport, ...]


class ProposalReport(msgspec.Struct, frozen=True):
    """One plan as it was decided, what it predicted, and its result."""

    title: str
    author: str
    written_by: str
    risk: Risk
    move: str
    evidence: tuple[EvidenceReport, ...]
    decisions: tuple[DecisionReport, ...]
    candidate: str | None
    source: str | None
    outcome: Outcome | None
    reasons: tuple[str, ...]
    prediction: Prediction
    measured: Score | None
    """None where the candidate was not measured, or the base did not have the counter."""


class RoundReport(msgspec.Struct, frozen=True):
    """One round; `best` is set where it changed the best candidate."""

    number: int
    parent: int
    base: str
    best: str | None
    proposals: tuple[ProposalReport, ...]
    no_plan: str
    refused: tuple[str, ...]
    other: str = ""
    """The candidate that the round was to merge with its base."""
    why: ParentChoice = ParentChoice.BEST


BASELINE, TUNED = "baseline.cu", "tuned.cu"
"""The files of a task that a winner is measured against, its slow start and its yardstick."""


class FinalTiming(msgspec.Struct, frozen=True):
    """The best candidate on a GPU, measured again; `against` names the other version's file."""

    against: str
    timing: Timing


class KindReport(msgspec.Struct, frozen=True):
    """The winner on GPUs of another kind than the session's, the baseline where none is better."""

    kind: str
    winner: str
    reason: str
    timing: Timing | None


class RunReport(msgspec.Struct, frozen=True):
    """The whole session. Rounds count from 1; the baseline, round 0, is `baseline`."""

    task: str
    team: str
    device: str
    session: str
    folder: str
    status: str
    stopped: str | None
    message: str
    baseline: CandidateReport
    best: CandidateReport
    timings: tuple[FinalTiming, ...]
    shipped: ShippedTimes | None
    kinds: tuple[KindReport, ...]
    """The winners on GPUs of other kinds that the run had."""
    rounds: tuple[RoundReport, ...]
    ledger: tuple[LedgerEntry, ...]
    usage: Usage
    troubles: tuple[str, ...]
    digest: str
    """Of the state that the report was made from."""


def run_report(state: SessionState, folder: Path) -> RunReport:
    """The report of a session in a folder. Raises ValueError before the session was opened."""
    opened, closed = state.opened, state.closed
    if opened is None:
        raise ValueError("a session that was never opened has nothing to report")
    settings = opened.settings
    return RunReport(
        task=settings.task,
        team=settings.team.value,
        device=state.device_name,
        session=opened.session,
        folder=str(folder),
        status=state.status.value,
        stopped=closed.reason.value if closed else None,
        message=closed.message if closed else "",
        baseline=_candidate_report(state, folder, opened.baseline),
        best=_candidate_report(state, folder, state.best),
        timings=final_timings(state),
        shipped=state.candidate(state.best).shipped,
        kinds=tuple(_kind_report(state, opened, name) for name in state.kinds),
        rounds=tuple(_round_report(state, folder, r) for r in state.rounds if r.number > 0),
        ledger=ledger(state),
        usage=state.usage,
        troubles=tuple(f"{t.where}: {t.message}" for t in state.troubles),
        digest=state.digest(),
    )


def _kind_report(state: SessionState, opened: SessionOpened, kind: str) -> KindReport:
    known = state.kinds[kind]
    timing = known.timing(known.winner, opened.baseline, final=True)
    return KindReport(kind, known.winner, known.reason, timing)


def final_timings(state: SessionState) -> tuple[FinalTiming, ...]:
    """The best candidate against baseline.cu and tuned.cu; empty where nothing was timed.

    A winner is measured again against these two and no other version.
    """
    if state.opened is None:
        return ()
    baseline, best = state.opened.baseline, state.candidate(state.best)
    latest = {t.timing.base: t.timing for t in best.timings if t.final}
    return tuple(
        FinalTiming(BASELINE if base == baseline else TUNED, timing)
        for base, timing in latest.items()
    )


def told_timing(state: SessionState) -> tuple[str, Timing] | None:
    """The timing that says how good the best is, after what it is against; None where counters do:
    the last ones, else that by which the best became the best.
    """
    if not state.has_better:
        return None
    final = {found.against: found.timing for found in final_timings(state)}
    for file in (TUNED, BASELINE):
        if file in final:
            return file, final[file]
    base = next((r.base for r in reversed(state.rounds) if r.best == state.best), None)
    timing = None if base is None else state.candidate(state.best).timing(base)
    return ("its base", timing) if timing is not None else None


def check_of(version: CandidateState, device: str) -> CheckReport | None:
    """The check of a session's candidate as a check of a source alone; None where there is none."""
    found, compilation = version.check, version.compilation
    if found is None:
        return None
    return CheckReport(
        task="",
        task_hash="",
        source=short(version.hash),
        source_hash=version.hash,
        device=device,
        compiler=compilation.compiler if compilation else "",
        verdict=found.verdict,
        message=found.message,
        diagnostics=compilation.diagnostics if compilation else (),
        cases=version.results,
        properties=found.properties,
        fakes=found.fakes,
        counters=None,
        seconds=found.seconds,
        sanitizer=version.sanitizer,
        conditions=found.open_conditions,
        accepted=found.accepted,
        full_size=found.full_size,
    )


def counter_totals(profile: Profile) -> dict[str, int]:
    """The counters of a profile, each added up over its workloads."""
    return {name: profile.total(name) for name in COUNTERS}


def _candidate_report(state: SessionState, folder: Path, hash_: str) -> CandidateReport:
    known = state.candidate(hash_)
    return CandidateReport(
        candidate=hash_,
        source=str(source_path(folder, hash_)),
        verdict=known.check.verdict.value if known.check else None,
        message=known.check.message if known.check else "",
        counters=counter_totals(known.profile) if known.profile else None,
        sanitizer=known.sanitizer,
        hardware=known.hardware,
    )


def _round_report(state: SessionState, folder: Path, round_: RoundState) -> RoundReport:
    return RoundReport(
        number=round_.number,
        parent=round_.parent,
        base=round_.base,
        best=round_.best or None,
        proposals=tuple(_proposal_report(state, folder, round_, p) for p in round_.proposals),
        no_plan=round_.no_plan,
        refused=round_.refused,
        other=round_.other,
        why=round_.why,
    )


def _proposal_report(
    state: SessionState, folder: Path, round_: RoundState, proposal: ProposalState
) -> ProposalReport:
    timed = state.candidate(round_.base).is_timed
    plan = state.plan_of(round_.number, proposal.index).for_device(timed)
    verdict = proposal.verdict
    candidate = verdict.candidate if verdict else ""
    return ProposalReport(
        title=plan.title,
        author=proposal.author.describe(),
        written_by=state.written_by(round_.number, proposal.index, candidate),
        risk=plan.risk,
        move=plan.move,
        evidence=tuple(_evidence(o, state.candidate(round_.base)) for o in plan.observations),
        decisions=tuple(
            DecisionReport(d.gate, d.status, d.by.describe(), d.reason)
            for d in state.decisions_of(round_.number, proposal.index)
        ),
        candidate=candidate or None,
        source=str(source_path(folder, candidate)) if candidate else None,
        outcome=verdict.outcome if verdict else None,
        reasons=verdict.reasons if verdict else (),
        prediction=plan.prediction,
        measured=score(plan.prediction, proposal.comparison),
    )


def _evidence(observation: Observation, base: CandidateState) -> EvidenceReport:
    cites = (
        CitationReport(r.citation, r.known, r.standing) for r in check_citations(observation, base)
    )
    return EvidenceReport(observation.sentence, tuple(cites))
