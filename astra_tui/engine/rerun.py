"""Runs stored sources in lab processes, outside of any session: nothing is journaled."""

from __future__ import annotations

from astra_tui.engine.lab import Lab
from astra_tui.lab.requests import NamedSource
from astra_tui.model.check import Case, CaseResult, Checked, CheckReport
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.timing import Timing


def named_source(text: str, hash_: str) -> NamedSource:
    """A source with the name that messages give it."""
    return NamedSource(text, f"{short(hash_)}.cu")


async def check(
    lab: Lab, source: NamedSource, added: tuple[Case, ...] = (), seed: int | None = None
) -> Checked:
    """Checks a source against the task's suite and the added cases, drawn as Lab.check says."""
    results: list[CaseResult] = []
    report = None
    # To the very end: a process whose answer is left in the middle is killed.
    async for event in lab.open(source).check(added, seed):
        if isinstance(event, CaseResult):
            results.append(event)
        elif isinstance(event, CheckReport):
            report = event
    if report is None:
        raise UserError("the check did not come to an end", file=source.file)
    return Checked(tuple(results), report)


async def time_pair(
    lab: Lab,
    base: NamedSource,
    candidate: NamedSource,
    workloads: tuple[str, ...] = (),
    *,
    final: bool = False,
) -> Timing:
    """One interleaved timing of two sources that passed their checks, as Lab.time says. Raises
    UserError.
    """
    timing = None
    async for step in lab.open(candidate).time(base, final=final, workloads=workloads):
        if isinstance(step, Timing):
            timing = step
    if timing is None:
        raise UserError("the timing did not come to an end", file=candidate.file)
    return timing
