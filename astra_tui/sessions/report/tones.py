"""Which tone an outcome or a verdict has, in tables and drawings alike."""

from __future__ import annotations

from astra_tui.model.check import CheckVerdict
from astra_tui.model.timing import TimingVerdict
from astra_tui.model.verdict import Outcome
from astra_tui.sessions.report.document import Badge, Tone

OUTCOMES = {
    Outcome.BETTER: Tone.GOOD,
    Outcome.SAME: Tone.PLAIN,
    Outcome.WORSE: Tone.BAD,
    Outcome.INCONCLUSIVE: Tone.UNSURE,
    Outcome.WRONG: Tone.BAD,
    Outcome.NOT_COMPILED: Tone.BAD,
    Outcome.UNSUPPORTED: Tone.UNSURE,
    Outcome.REJECTED: Tone.PLAIN,
    Outcome.NOT_WRITTEN: Tone.BAD,
}

TIMINGS = {
    TimingVerdict.FASTER: Tone.GOOD,
    TimingVerdict.SLOWER: Tone.BAD,
    TimingVerdict.SAME: Tone.PLAIN,
    TimingVerdict.INCONCLUSIVE: Tone.UNSURE,
}

CHECKS = {
    CheckVerdict.PASSED: Tone.GOOD,
    CheckVerdict.FAILED: Tone.BAD,
    CheckVerdict.COMPILE_ERROR: Tone.BAD,
    CheckVerdict.PLAN_ERROR: Tone.BAD,
    CheckVerdict.UNSUPPORTED: Tone.UNSURE,
    CheckVerdict.INCONCLUSIVE: Tone.UNSURE,
}


def outcome_badge(outcome: Outcome | None) -> Badge:
    """The outcome of a proposal; None is one that was never judged."""
    if outcome is None:
        return Badge("not judged", Tone.PLAIN)
    return Badge(outcome.value.replace("_", " "), OUTCOMES[outcome])
