"""From what a check has seen to its verdict.

Wrong outweighs unsupported, which outweighs inconclusive, which outweighs passed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_tui.lab.check.emulator_check import EmulatorVerdict
from astra_tui.model.check import (
    CaseOutcome,
    CaseResult,
    CheckVerdict,
    ConditionResult,
    ConditionStatus,
    FakeResult,
    FullSizeResult,
    PropertyResult,
)


@dataclass
class CheckEvidence:
    """All that a check has seen of one source so far."""

    results: list[CaseResult] = field(default_factory=list)
    properties: list[PropertyResult] = field(default_factory=list)
    fakes: list[FakeResult] = field(default_factory=list)
    full_size: list[FullSizeResult] = field(default_factory=list)
    conditions: tuple[ConditionResult, ...] = ()
    on_emulator: EmulatorVerdict | None = None
    """The emulator's verdict, where a GPU checks."""

    @property
    def has_failed(self) -> bool:
        """Whether a case speaks against the source."""
        return any(not result.outcome.ok for result in self.results)


def verdict_of(seen: CheckEvidence) -> tuple[CheckVerdict, str]:
    """The verdict, and what decided it."""
    outcomes = [r.outcome for r in seen.results]
    bad = [r for r in seen.results if not r.outcome.ok]
    if CaseOutcome.PLAN_ERROR in outcomes:
        first = next(r for r in bad if r.outcome is CaseOutcome.PLAN_ERROR)
        return CheckVerdict.PLAN_ERROR, first.message
    says_nothing = (CaseOutcome.UNSUPPORTED, CaseOutcome.INCONCLUSIVE)
    wrong = [r for r in bad if r.outcome not in says_nothing]
    if wrong:
        return CheckVerdict.FAILED, f"{len(wrong)} of {len(outcomes)} cases failed"
    at_size = [f for f in seen.full_size if not f.outcome.ok]
    for found in at_size:
        if found.outcome not in (CaseOutcome.UNSUPPORTED, CaseOutcome.INCONCLUSIVE):
            return CheckVerdict.FAILED, _at_size(found)
    broken = [p for p in seen.properties if not p.ok]
    if broken:
        return CheckVerdict.FAILED, f"{broken[0].name}: {broken[0].message}"
    missed = [f for f in seen.fakes if not f.caught]
    if missed:
        return (
            CheckVerdict.FAILED,
            f"the suite accepts a fake ({missed[0].name}): it proves nothing",
        )
    unsupported = [r for r in bad if r.outcome is CaseOutcome.UNSUPPORTED]
    if unsupported:
        return CheckVerdict.UNSUPPORTED, unsupported[0].message
    if bad:
        return CheckVerdict.INCONCLUSIVE, f"{bad[0].case.id}: {bad[0].message}"
    if seen.on_emulator is not None and seen.on_emulator.open:
        return CheckVerdict.INCONCLUSIVE, f"on the emulator: {seen.on_emulator.open}"
    if at_size:
        return (
            CheckVerdict.UNSUPPORTED
            if at_size[0].outcome is CaseOutcome.UNSUPPORTED
            else CheckVerdict.INCONCLUSIVE
        ), _at_size(at_size[0])
    left = [c for c in seen.conditions if c.status is ConditionStatus.OPEN]
    if left:
        more = f", and {len(left) - 1} more" if len(left) > 1 else ""
        return CheckVerdict.INCONCLUSIVE, f"{left[0].describe()}{more}"
    count = len(outcomes)
    return CheckVerdict.PASSED, f"{count} case{'s' * (count != 1)} passed"


def _at_size(result: FullSizeResult) -> str:
    return f"workload {result.workload} at its own size: {result.message}"
