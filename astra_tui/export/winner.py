"""The candidate that leaves a session: its text, what was found out about it, and who wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case, CheckVerdict
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.events import CodeWritten
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.model.timing import Ratio, Timing
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import Session, Trust

BEST = "best"
"""Names the candidate that the session ended with."""

_ALTERED = "no figure of it can be relied on; to export it all the same, so marked: --allow-altered"


@dataclass(frozen=True)
class Step:
    """One version on the way from the baseline to the winner, and who wrote it."""

    round: int
    candidate: str
    author: Author
    summary: str


@dataclass(frozen=True)
class Winner:
    """A candidate that passed its check, with where it comes from.

    `task_hash` is that of the task the session ran on; `baseline` is the text it began with.
    """

    session: str
    task: str
    task_hash: str
    team: str
    device: str
    candidate: str
    text: str
    baseline: str
    steps: tuple[Step, ...]
    verdict: str
    versions: dict[str, str]
    cases: tuple[Case, ...] = ()
    """Cases that were added in the session."""
    trust: Trust | None = None
    """The verdict on the session; None where there is none."""
    seed: int = 0
    """What the session's drawn cases follow from."""
    gpu: str = ""
    """The GPU on which it was timed."""
    speedup: Ratio | None = None
    """Over the baseline of the session, where it was timed."""
    shipped: Ratio | None = None
    """The fastest shipped kernel's time over its own, where the session measured both."""
    elsewhere: tuple[str, ...] = ()
    """How it does on GPUs of other kinds, and which candidate wins there, a line each."""

    @property
    def is_baseline(self) -> bool:
        """Whether nothing was won."""
        return self.text == self.baseline


def find_winner(session: Session, candidate: str = BEST, *, allow_altered: bool = False) -> Winner:
    """The candidate of a session that `candidate` names: "best", the beginning of its hash, or a
    kind of GPU, for the winner there.

    Raises UserError when there is none, or when it has not passed its check, and for a session
    that was altered unless that is allowed.
    """
    if not allow_altered:
        session.refuse_altered(_ALTERED)
    state, folder = session.state, session.folder
    assert state.opened is not None
    base = state.opened.baseline
    hash_ = _named(state, candidate, folder)
    found = state.candidate(hash_)
    if not found.correct:
        what = found.check.message if found.check else "it was never checked to the end"
        raise UserError(
            f"candidate {short(hash_)} has not passed its check: {what}",
            file=str(folder),
            hint="only a correct candidate can be exported",
        )
    settings = state.opened.settings
    timing = found.timing(base, final=True) or found.timing(base)
    return Winner(
        session=folder.name,
        task=Path(settings.task).name,
        task_hash=state.opened.task_hash,
        team=settings.team.value,
        device=state.device_name,
        candidate=hash_,
        text=read_blob(folder, hash_),
        baseline=read_blob(folder, base),
        steps=_steps(state, hash_),
        verdict=_verdict(state, found, timing),
        versions=dict(state.opened.versions),
        cases=state.cases,
        trust=session.trust,
        seed=state.seed,
        gpu=timing.gpu if timing is not None else "",
        speedup=timing.speedup if timing is not None else None,
        shipped=found.shipped.speedup if found.shipped is not None else None,
        elsewhere=tuple(_elsewhere(state, kind, hash_) for kind in state.kinds),
    )


def _elsewhere(state: SessionState, kind: str, hash_: str) -> str:
    known, opened = state.kinds[kind], state.opened
    assert opened is not None
    timing = known.timing(hash_, opened.baseline, final=True) or known.timing(
        hash_, opened.baseline
    )
    told = _timed_words(timing) if timing is not None else f"it was not timed on {kind}"
    if known.winner in ("", hash_):
        return told
    if known.winner == opened.baseline:
        return f"{told}; nothing is better than the baseline there"
    return f"{told}; candidate {short(known.winner)} wins there, and is exported by --candidate"


def _timed_words(timing: Timing) -> str:
    speedup = timing.speedup
    return (
        f"{timing.verdict.value} against the baseline on {timing.gpu}: "
        f"{speedup.value:.3f} times [{speedup.low:.3f}, {speedup.high:.3f}]"
    )


def _named(state: SessionState, candidate: str, folder: Path) -> str:
    of_kind = state.kinds.get(candidate)
    if of_kind is not None and of_kind.winner:
        return of_kind.winner
    if candidate == BEST:
        if state.best:
            return state.best
        raise UserError("this session has no best candidate: no check passed", file=str(folder))
    matching = [hash_ for hash_ in state.candidates if hash_.startswith(candidate)]
    if len(matching) == 1:
        return matching[0]
    problem = "there is no candidate" if not matching else "more than one candidate begins with"
    known = ", ".join(short(h) for h in state.candidates)
    raise UserError(f"{problem} '{candidate}'", file=str(folder), hint=f"candidates: {known}")


def _steps(state: SessionState, hash_: str) -> tuple[Step, ...]:
    """The versions from the baseline, which is left out, to the candidate."""
    assert state.opened is not None
    written = {
        attempt.candidate: attempt
        for round_ in reversed(state.rounds)
        for proposal in reversed(round_.proposals)
        for attempt in reversed(proposal.attempts)
        if isinstance(attempt, CodeWritten)
    }
    steps: list[Step] = []
    while hash_ in written and hash_ not in {s.candidate for s in steps}:
        code = written[hash_]
        steps.append(Step(code.round, hash_, code.author, code.summary))
        hash_ = code.base
    if not steps:
        steps.append(Step(0, hash_, Author(AuthorKind.TASK), "the task's baseline"))
    return tuple(reversed(steps))


def checked(found: CandidateState) -> str:
    """How many cases it passed, or what its check found instead."""
    if found.check is not None and found.check.verdict is not CheckVerdict.PASSED:
        return found.check.verdict.value
    cases = max(found.cases, len(found.results))
    return f"{sum(r.outcome.ok for r in found.results)} of {cases} cases passed"


def _verdict(state: SessionState, found: CandidateState, timing: Timing | None) -> str:
    parts = [checked(found)]
    for round_ in state.rounds:
        for proposal in round_.proposals:
            verdict = proposal.verdict
            if verdict is not None and verdict.candidate == found.hash:
                reason = f" ({verdict.reasons[0]})" if verdict.reasons else ""
                parts.append(f"round {round_.number}: {verdict.outcome.value}{reason}")
    if timing is not None:
        parts.append(_timed_words(timing))
    return "; ".join(parts)
