"""The sweep of a candidate by timing: what its source leaves open, and what serves which sizes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from astra_tui.engine.candidate_steps import ProposalId, named_source
from astra_tui.engine.lab import Lab
from astra_tui.engine.record import Record
from astra_tui.model.errors import UserError
from astra_tui.model.events import StageBegan, SweepAdvanced, SweepFinished
from astra_tui.model.launch.expression_parser import parse_expression
from astra_tui.model.task import KernelTask
from astra_tui.model.tuning import Swept, SweptCandidate
from astra_tui.playbook.api import Evidence
from astra_tui.playbook.portfolio import Part, joined
from astra_tui.playbook.space import Space, space_of


async def sweep_candidate(
    record: Record, lab: Lab, task: KernelTask, base: str, candidate: str, share: float,
    place: ProposalId,
) -> SweptCandidate:  # fmt: skip
    """Sweeps a candidate that passed its check, unless the journal says its result.

    `share` of the trials is timed. What cannot be swept is in the journal as such.
    """
    known = record.state.candidate(candidate)
    if known.swept is not None:
        return known.swept
    assert known.profile is not None
    record.emit(StageBegan("sweep", place.round, place.proposal))
    evidence = Evidence(task, device=known.profile.device, arch=known.profile.arch)
    try:
        swept = await _swept(record, lab, evidence, base, candidate, share)
    except UserError as error:
        swept = SweptCandidate(f"it cannot be swept: {error.describe()}")
    record.emit(SweepFinished(candidate, swept))
    return swept


async def _swept(
    record: Record, lab: Lab, evidence: Evidence, base: str, candidate: str, share: float
) -> SweptCandidate:
    text = record.store.get(candidate)
    space = await asyncio.to_thread(space_of, text, evidence)
    trials = await asyncio.to_thread(space.sources)
    sweep = lab.open(named_source(record, candidate)).sweep(
        named_source(record, base),
        tuple((dict(settings), source) for settings, source in trials),
        tuple(d.choices for d in space.dimensions),
        share,
    )
    found: Swept | None = None
    async for step in sweep:
        if isinstance(step, Swept):
            found = step
        else:
            record.emit(SweepAdvanced(candidate, step.text))
    assert found is not None
    counts = found.trials, found.timed, found.gpu_seconds
    if not found.parts and found.default in (0, len(trials)):
        return SweptCandidate("nothing is better than the source", "", *counts)
    sources = [*trials, ({}, record.store.get(base))]
    made, summary = await asyncio.to_thread(_joined, evidence.task, space, sources, found)
    return SweptCandidate(summary, record.store.put_source(made), *counts)


def _joined(
    task: KernelTask, space: Space, sources: list[tuple[Mapping[str, int], str]], found: Swept
) -> tuple[str, str]:
    """The source that a sweep makes, and what it consists of. Raises CannotJoin."""
    parts = [Part(parse_expression(p.condition), sources[p.trial][1], p.gains) for p in found.parts]
    own = {d.name: d.own for d in space.dimensions}

    def words(trial: int) -> str:
        settings = sources[trial][0]
        changed = {n: v for n, v in settings.items() if v != own[n]}
        named = ", ".join(f"{name} = {value}" for name, value in changed.items())
        return named or ("as before" if settings else "the round's base")

    lines = [f"{words(p.trial)} when {p.condition} ({p.gains})" for p in found.parts]
    summary = "; ".join(
        [*lines, f"otherwise {words(found.default)}" if lines else words(found.default)]
    )
    return joined(task, sources[found.default][1], parts), summary
