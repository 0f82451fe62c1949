"""The sweep of a candidate by timing: what its source leaves open, and what serves which sizes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from astra_tui.engine.candidate_steps import ProposalId
from astra_tui.engine.concurrency import FirstErrorGroup
from astra_tui.engine.lab import Lab, LabEnded
from astra_tui.engine.record import Record
from astra_tui.gpu.messages import DeviceFacts
from astra_tui.lab.requests import (
    CompiledTrial,
    CompileTrials,
    ReadGpu,
    TimeTrials,
    TrialSource,
    TrialTimings,
)
from astra_tui.lab.tuning.portfolio import Portfolio
from astra_tui.lab.tuning.portfolio import words as gains_of
from astra_tui.model.errors import UserError
from astra_tui.model.events import StageBegan, SweepAdvanced, SweepFinished
from astra_tui.model.launch import print_expression
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.tuning import SweptCandidate
from astra_tui.playbook.api import Evidence
from astra_tui.playbook.portfolio import CannotJoin, Part, joined
from astra_tui.playbook.space import Space, space_of, unbounded

if TYPE_CHECKING:
    from astra_tui.lab.tuning.tuner import Tuner

_LEAST_TEXTS = 4
"""So many sources are compiled together at least: a compiler has to start."""


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
    sources = [*trials, ({}, record.store.get(base))]
    tuner = await tuner_of(
        lab, space, sources, lab.task.workloads, rivals=1,
        told=lambda text: record.emit(SweepAdvanced(candidate, text)),
    )  # fmt: skip
    tuned = await tuner.tune(share)
    counts = tuned.trials, tuned.timed, tuned.gpu_seconds, tuned.gpus
    if not tuned.portfolio.parts and tuned.portfolio.default in (0, len(trials)):
        return SweptCandidate("nothing is better than the source", "", *counts)
    said: list[str] = []
    in_turn = joined_in_turn(evidence.task, sources, tuned.portfolio, 0, said.append)
    first = await asyncio.to_thread(next, in_turn, None)
    for why in said:
        record.emit(SweepAdvanced(candidate, why))
    if first is None:
        return SweptCandidate("what is better cannot be one source", "", *counts)
    found, made = first
    return SweptCandidate(_summary(space, sources, found), record.store.put_source(made), *counts)


async def tuner_of(
    lab: Lab,
    space: Space,
    sources: Sequence[tuple[Mapping[str, int], str]],
    workloads: Sequence[Workload],
    *,
    rivals: int = 0,
    told: Callable[[str], None] = lambda _: None,
) -> Tuner:
    """What sweeps sources of a space, with their settings, of which the first is the one that is
    tuned, and so many of the last are `rivals` that are timed with the best.

    They are compiled wherever a process is free, and measured on all GPUs of the lab. `told` hears
    how far it is.
    """
    from astra_tui.lab.tuning.search import places
    from astra_tui.lab.tuning.tuner import Tuner

    facts = (await lab.one(ReadGpu())).facts
    told(f"compiling {len(sources)} sources")
    compiled = await _compiled(lab.without_device, facts, [text for _, text in sources])
    own = len(sources) - rivals
    settings = [s for s, _ in sources[:own]]
    where = places([d.choices for d in space.dimensions], [list(s.values()) for s in settings])
    timed = [(text, one) for (_, text), one in zip(sources, compiled, strict=True)]
    return Tuner(
        lab.task, facts, tuple(workloads), compiled[:own], where, _TimesTrials(lab, timed),
        compiled[own:], lab.timings_at_once, told, unbounded(settings),
    )  # fmt: skip


async def _compiled(lab: Lab, facts: DeviceFacts, texts: Sequence[str]) -> list[CompiledTrial]:
    """By one process of this machine with all its processors, or by many workers with one each."""
    at_once = lab.jobs_at_once
    count = max(_LEAST_TEXTS, -(-len(texts) // (2 * at_once))) if at_once > 1 else len(texts)
    pieces = [texts[first : first + count] for first in range(0, len(texts), count)]

    async def of(piece: Sequence[str]) -> list[CompiledTrial]:
        processes = 1 if at_once > 1 else 0
        request = CompileTrials(tuple(piece), facts.arch, facts.attributes, processes)
        return [trial async for trial in lab.ask(request)]

    async with FirstErrorGroup() as group:
        tasks = [group.create_task(of(piece)) for piece in pieces]
    return [trial for task in tasks for trial in task.result()]


@dataclass(frozen=True)
class _TimesTrials:
    """Has a lab time the trials of a sweep, by number (`lab/tuning/sweep.py`)."""

    lab: Lab
    trials: Sequence[tuple[str, CompiledTrial]]
    """Texts with what they compiled to."""
    sweep: str = field(default_factory=lambda: uuid4().hex)

    async def __call__(
        self, workloads: Sequence[Workload], base: int, trials: Sequence[int], *, final: bool
    ) -> TrialTimings:
        """The timings, all on one GPU. A trial that ends its process has none."""
        async with self.lab.alone_on_gpu():
            request = TimeTrials(
                self._source(base), tuple(map(self._source, trials)), tuple(workloads),
                f"{self.sweep} {final}", final,
            )  # fmt: skip
            try:
                (found,) = [reply async for reply in self.lab.ask(request, timed=True)]
            except LabEnded as error:
                return TrialTimings((), 0.0, error.message)
        return found

    def _source(self, number: int) -> TrialSource:
        text, trial = self.trials[number]
        if trial.compilation is None:
            raise UserError(trial.problem)
        return TrialSource(text, trial.compilation)


def _summary(
    space: Space, sources: Sequence[tuple[Mapping[str, int], str]], found: Portfolio
) -> str:
    """What the source that a sweep makes consists of."""
    own = {d.name: d.own for d in space.dimensions}

    def words(trial: int) -> str:
        settings = sources[trial][0]
        changed = {n: v for n, v in settings.items() if v != own[n]}
        named = ", ".join(f"{name} = {value}" for name, value in changed.items())
        return named or ("as before" if settings else "the round's base")

    lines = [
        f"{words(p.trial)} when {print_expression(p.condition)} ({gains_of(p)})"
        for p in found.parts
    ]
    return "; ".join(
        [*lines, f"otherwise {words(found.default)}" if lines else words(found.default)]
    )


def joined_in_turn(
    task: KernelTask,
    sources: Sequence[tuple[Mapping[str, int], str]],
    found: Portfolio,
    own: int,
    told: Callable[[str], None],
) -> Iterator[tuple[Portfolio, str]]:
    """The source that a portfolio of some sources makes, then with fewer and fewer parts, as in
    `Portfolio.to_try`. What cannot be one source is left out, and `told` hears why.
    """
    for fewer in found.to_try(own):
        parts = [Part(p.condition, sources[p.trial][1], gains_of(p)) for p in fewer.parts]
        try:
            source = joined(task, sources[fewer.default][1], parts)
        except CannotJoin as error:
            told(f"{error.message}; trying fewer branches")
            continue
        yield fewer, source
