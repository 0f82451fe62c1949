"""The attempts of one proposal, as the journal has them: how far each came, and the best."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec

from astra_tui.engine.candidate_steps import (
    ProposalId,
    describe_failures,
    errors_in,
)
from astra_tui.engine.judging import judge_counters, judge_timed
from astra_tui.engine.record import Record
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import CheckVerdict
from astra_tui.model.compilation import describe_errors
from astra_tui.model.constraints import broken_words
from astra_tui.model.events import CodeFailed, CodeWritten
from astra_tui.model.team_protocol import Failure
from astra_tui.model.verdict import Outcome, RoundVerdict

Attempt = CodeWritten | CodeFailed

_OPEN = (CheckVerdict.INCONCLUSIVE, CheckVerdict.UNSUPPORTED)
"""Checks that say nothing against a source, and let nothing be measured."""
_ORDER = (Outcome.BETTER, Outcome.SAME, Outcome.INCONCLUSIVE, Outcome.WORSE)


SWEEP = Author(AuthorKind.PLAYBOOK, "sweep")
"""Who writes what a sweep makes of a candidate."""


class Attempts:
    """Reads the record each time, so that a session continues where it stopped."""

    def __init__(self, record: Record, place: ProposalId, timed: bool):
        self._record = record
        self._place = place
        self._timed = timed

    @property
    def _all(self) -> tuple[Attempt, ...]:
        round_ = self._record.state.round(self._place.round)
        return round_.proposals[self._place.proposal].attempts

    @property
    def _base(self) -> str:
        return self._record.state.round(self._place.round).base

    def judge(self, candidate: str) -> RoundVerdict:
        """The verdict on a correct candidate that was profiled, and timed where it can be."""
        base = self._record.state.candidate(self._base).profile
        known = self._record.state.candidate(candidate)
        assert base is not None
        assert known.profile is not None
        timing = known.timing(self._base)
        if self.is_base(candidate):
            verdict = RoundVerdict(Outcome.SAME, (), base=self._base)
        elif timing is not None:
            verdict = judge_timed(base, known.profile, timing)
        else:
            verdict = judge_counters(self._base, base, candidate, known.profile)
        place = self._place.round, self._place.proposal
        origin = self._record.state.origin_words(candidate, place)
        reasons = (*([origin] if origin else []), *verdict.reasons)
        return msgspec.structs.replace(verdict, candidate=candidate, reasons=reasons)

    def is_base(self, candidate: str) -> bool:
        """Whether a candidate runs the code of what it was made from."""
        return self._base in (candidate, self._record.state.candidate(candidate).copy_of)

    def judged(self, attempt: Attempt) -> RoundVerdict | None:
        """The verdict on an attempt for which all was measured that it takes."""
        if isinstance(attempt, CodeFailed) or attempt.candidate == self._base:
            return None
        known = self._record.state.candidate(attempt.candidate)
        is_timed = known.timing(self._base) is not None or not self._timed
        is_timed = is_timed or self.is_base(attempt.candidate)
        if not known.correct or known.profile is None or not is_timed:
            return None
        return self.judge(attempt.candidate)

    def reflections(self) -> int:
        """How many attempts were written after one that was judged."""
        return sum(
            self._was_reflected_on(before) and not by_engineer(after) and not self.is_swept(after)
            for before, after in pairwise(self._all)
        )

    @property
    def swept(self) -> bool:
        """Whether what the sweep made is among them."""
        return any(map(self.is_swept, self._all))

    def is_swept(self, attempt: Attempt) -> bool:
        """Whether it is what the sweep made."""
        return isinstance(attempt, CodeWritten) and attempt.author == SWEEP

    def _was_reflected_on(self, attempt: Attempt) -> bool:
        if isinstance(attempt, CodeFailed):
            return False
        check = self._record.state.candidate(attempt.candidate).check
        return (check is not None and check.verdict in _OPEN) or self.judged(attempt) is not None

    def best_of(self, verdict: RoundVerdict) -> RoundVerdict:
        """The best verdict of all attempts, which may be an earlier one's than the last."""
        judged = [v for a in self._all if (v := self.judged(a)) is not None]
        earlier = (v for v in judged if v.candidate != verdict.candidate)
        return min((verdict, *earlier), key=_rank)

    def with_earlier(self, failure: Failure) -> Failure:
        """The failure of the last attempt, with the results of those before it."""
        return replace(failure, earlier=tuple(map(self._result, self._all[:-1])))

    def _result(self, attempt: Attempt) -> Failure:
        """How far an attempt came."""
        if isinstance(attempt, CodeFailed):
            return Failure(self._record.store.get(self._base), "code", attempt.reason)
        text = self._record.store.get(attempt.candidate)
        known = self._record.state.candidate(attempt.candidate)
        if known.compilation is not None and not known.compilation.ok:
            errors = describe_errors(errors_in(known.compilation.diagnostics))
            return Failure(text, "compile", errors)
        if (verdict := self.judged(attempt)) is not None:
            return Failure(text, "verdict", verdict_words(verdict))
        if known.check is not None:
            return Failure(text, "check", describe_failures(self._record, attempt.candidate))
        proposal = self._record.state.round(self._place.round).proposals[self._place.proposal]
        breaks = broken_words(proposal.rulings(attempt.candidate))
        return Failure(text, "review", breaks or "it was not accepted")


def verdict_words(verdict: RoundVerdict) -> str:
    """A verdict as the coding agent reads it."""
    return f"{verdict.outcome.value.replace('_', ' ')}: {'; '.join(verdict.reasons)}"


def by_engineer(attempt: Attempt) -> bool:
    """Whether the engineer wrote it."""
    return isinstance(attempt, CodeWritten) and attempt.author.kind is AuthorKind.ENGINEER


def _rank(verdict: RoundVerdict) -> tuple[float, ...]:
    """Less is better; what was never judged is behind all that was."""
    if verdict.outcome not in _ORDER or verdict.comparison is None:
        return (float(len(_ORDER)),)
    return (float(_ORDER.index(verdict.outcome)), *verdict.comparison.rank)
