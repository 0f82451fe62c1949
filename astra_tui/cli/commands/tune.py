"""`astra-tui tune`: sweeps what a source leaves open on a GPU, and joins what wins where."""

from __future__ import annotations

import dataclasses
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.commands.check import find_source, print_check, read_text
from astra_tui.cli.exit_codes import ExitCode, KernelFailed, UnavailableHere, worst
from astra_tui.cli.flags import JSON, WORKERS, chosen_seed
from astra_tui.cli.timed_sources import (
    GPU,
    WORKLOADS,
    chosen_workloads,
    environment_of,
    gpu_for_timing,
    refuse_emulator,
)
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import BenchEnvironment, TuneAnswer, TunedPart
    from astra_tui.engine.lab import Lab
    from astra_tui.lab.tuning.portfolio import Part
    from astra_tui.lab.tuning.tuner import Tuned
    from astra_tui.model.task import KernelTask, Workload
    from astra_tui.model.timing import Timing
    from astra_tui.playbook.space import Space
    from astra_tui.present.document import Block
    from astra_tui.workers import Workers

_SHARE = 0.1
_NOT_TIMED = "the result was not timed against the source"


@command(
    "sweep block sizes, packs and `tune` constants of a source on a GPU",
    "The source is checked first. A model of the device orders the trials, and a tenth of them is "
    "timed on each workload; what is best is timed again. Winners of single workloads are joined "
    "by 'when' where they pay, and the result is checked and timed against the source. Ctrl-C cuts "
    "the sweep: the best of what is measured by then is checked and written, a second one ends it.",
    argument("task", "TASK", "a task's name or folder"),
    argument("source", "SOURCE.cu", "the source to tune"),
    flag("--out", metavar="FILE", help="where the result goes (default: SOURCE-tuned.cu)"),
    flag(
        "--share",
        metavar="SHARE",
        type=float,
        default=_SHARE,
        help="share of the trials that is timed (default: 0.1, at least 5 of each workload; "
        "1: the full sweep)",
    ),
    WORKLOADS,
    GPU,
    *WORKERS,
    JSON,
    example="astra-tui tune silu_and_mul my_version.cu --out tuned_here.cu",
)
def run(options: Options) -> int:
    """Sweeps, writes the result, prints what it consists of, or one JSON object."""
    import asyncio

    from astra_tui.cli.devices import asked_workers, fetch_upstream
    from astra_tui.engine.lab import LabFailed
    from astra_tui.model.task import find_task

    task = find_task(options.task)
    file = find_source(task, options.source)
    text = read_text(file)
    workloads = chosen_workloads(task, options.workload)
    out = Path(options.out) if options.out else file.with_name(f"{file.stem}-tuned.cu")
    if not 0 < options.share <= 1:
        raise UserError("--share is more than 0 and at most 1")
    refuse_emulator(options.device)
    fetch_upstream(task)
    with asked_workers(options, live=not options.json) as workers:
        if workers is None:
            device = gpu_for_timing(options.device)
        else:
            chosen = workers.device(options.device)
            device, workers = chosen.name, workers.of_kind(chosen.kind)
            refuse_emulator(device)
        tuning = _Tuning(task, (file, text), out, workloads, device, workers, options)
        try:
            answer = asyncio.run(tuning.carry_out())
        except LabFailed as error:
            raise UnavailableHere(str(error), hint="see: astra-tui doctor") from None
    if answer is None:
        return int(tuning.code)
    plain.print_answer(answer, options.json, lambda: _blocks(answer, (file.name, out.name)))
    return answer.exit_code


@dataclass
class _Tuning:
    """A sweep with all that comes before and after it, in the processes of a lab."""

    task: KernelTask
    source: tuple[Path, str]
    out: Path
    workloads: tuple[Workload, ...]
    device: str
    workers: Workers | None
    options: Options
    code: ExitCode = ExitCode.OK
    """What the last check comes to."""
    cut: str = ""
    """What is left out since Ctrl-C was pressed."""

    async def carry_out(self) -> TuneAnswer | None:
        """Writes what is better, and passes its check; None for a source that does not pass."""
        from astra_tui.engine.lab import Lab

        lab = Lab(self.task, self.device, seed=chosen_seed(None), workers=self.workers)
        try:
            return await self._carried_out(lab)
        finally:
            lab.close()

    async def _carried_out(self, lab: Lab) -> TuneAnswer | None:
        import asyncio

        from astra_tui.engine.sweeping import joined_in_turn
        from astra_tui.lab.requests import ReadGpu
        from astra_tui.lab.tuning.tuner import OWN
        from astra_tui.playbook import Evidence
        from astra_tui.playbook.space import space_of

        file, text = self.source
        if not await self._passes(lab, file, text):
            return None
        read = await lab.one(ReadGpu())
        environment = environment_of(read.facts, read.identity, read.compiler)
        evidence = Evidence(self.task, device=environment.device, arch=environment.arch)
        space = await asyncio.to_thread(space_of, text, evidence)
        if len(space.settings()) < 2:
            raise UserError("there is nothing to sweep", hint="declare 'tune NAME = VALUE in A, B'")
        sources = await asyncio.to_thread(space.sources)
        tuned, out, timing = await self._swept(lab, space, sources), "", None
        in_turn = joined_in_turn(self.task, sources, tuned.portfolio, OWN, told=plain.note)
        for found, made in in_turn:
            if await self._to_its_end(self._passes(lab, self.out, made)):
                timing = None if self.cut else await self._timed(lab, made)
                self.out.write_text(made, encoding="utf-8")
                out, tuned = str(self.out), dataclasses.replace(tuned, portfolio=found)
                break
        answer = _answer(self.task, environment, [s for s, _ in sources], tuned)
        code = ExitCode.INTERRUPTED if self.cut else self.code
        return replace(answer, exit_code=int(code), out=out, timing=timing, cut=self.cut)

    async def _swept(
        self, lab: Lab, space: Space, sources: Sequence[tuple[Mapping[str, int], str]]
    ) -> Tuned:
        """What the sweep finds, or what there is of it at a Ctrl-C. Raises KernelFailed."""
        import asyncio

        from astra_tui.engine.sweeping import tuner_of

        try:
            tuner = await tuner_of(lab, space, sources, self.workloads, told=plain.note)
            try:
                return await tuner.tune(self.options.share)
            except asyncio.CancelledError:
                found = tuner.so_far()
                if found is None:
                    raise
                self._interrupted(f"the sweep was cut: {found.cut}")
                return found
        except UserError as error:
            raise KernelFailed(f"the measurement failed: {error.describe()}") from None

    async def _timed(self, lab: Lab, made: str) -> Timing | None:
        """The result against the source; None where Ctrl-C came first."""
        import asyncio

        from astra_tui.engine.rerun import time_pair
        from astra_tui.lab.requests import NamedSource

        file, text = self.source
        base, candidate = NamedSource(text, file.name), NamedSource(made, self.out.name)
        try:
            return await time_pair(lab, base, candidate, tuple(w.name for w in self.workloads))
        except asyncio.CancelledError:
            self._interrupted(_NOT_TIMED)
            return None

    async def _to_its_end(self, work: Coroutine[None, None, bool]) -> bool:
        """What some work comes to, also where Ctrl-C is pressed meanwhile."""
        import asyncio

        task = asyncio.create_task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._interrupted(_NOT_TIMED)
            return await task

    def _interrupted(self, cut: str) -> None:
        """Continues after the first Ctrl-C; a second one ends the command."""
        import asyncio

        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        self.cut = cut
        plain.note(cut)

    async def _passes(self, lab: Lab, file: Path, text: str) -> bool:
        from astra_tui.engine.rerun import check
        from astra_tui.lab.requests import NamedSource
        from astra_tui.model.check import CheckVerdict

        plain.note(f"checking {file.name}")
        done = await check(lab, NamedSource(text, str(file)))
        self.code = worst([done.report.verdict])
        if done.report.verdict is CheckVerdict.PASSED:
            return True
        if self.options.json:
            plain.note(f"{file.name}: {done.report.verdict.value}: {done.report.message}")
        else:
            print_check(self.task, self.options.task, replace(done.report, cases=done.results))
        return False


def _answer(
    task: KernelTask,
    environment: BenchEnvironment,
    settings: Sequence[Mapping[str, int]],
    tuned: Tuned,
) -> TuneAnswer:
    from astra_tui.cli.json_answers import TuneAnswer

    found = tuned.portfolio
    return TuneAnswer(
        exit_code=0,
        task=task.name,
        environment=environment,
        sources=len(settings),
        trials=tuned.trials,
        timed=tuned.timed,
        gpus=tuned.gpus,
        gpu_seconds=tuned.gpu_seconds,
        seconds=tuned.seconds,
        default=dict(settings[found.default]),
        parts=tuple(_part(settings[part.trial], part) for part in found.parts),
        dropped={_words(settings[t]): why for t, why in found.dropped.items()},
    )


def _part(settings: Mapping[str, int], part: Part) -> TunedPart:
    from astra_tui.cli.json_answers import TunedPart
    from astra_tui.lab.tuning.portfolio import words
    from astra_tui.model.launch import print_expression

    return TunedPart(print_expression(part.condition), dict(settings), words(part))


def _blocks(answer: TuneAnswer, names: tuple[str, str]) -> list[Block]:
    from astra_tui.gpu.timing.stopping import minimum_detectable
    from astra_tui.present.document import fields
    from astra_tui.present.timing import timing_blocks

    rows = {"timed": f"{answer.timed} of {answer.trials} trials"}
    rows |= {"on": f"{len(answer.gpus)} GPUs"} if len(answer.gpus) > 1 else {}
    rows |= {f"when {p.condition}": f"{_words(p.settings)}; {p.gains}" for p in answer.parts}
    rows |= {"otherwise" if answer.parts else "everywhere": _words(answer.default)}
    rows |= {f"not kept: {settings}": why for settings, why in answer.dropped.items()}
    nothing = {
        ExitCode.OK: "no trial is better than the source",
        ExitCode.INTERRUPTED: "nothing better that passes its check is known yet",
    }.get(ExitCode(answer.exit_code), "what was found does not pass its check")
    rows |= {"interrupted": answer.cut} if answer.cut else {}
    rows |= {"written to": answer.out or f"nothing: {nothing}"}
    blocks: list[Block] = [fields(rows)]
    if answer.timing is not None:
        least = minimum_detectable(answer.timing.control)
        blocks += timing_blocks(answer.timing, *names, detectable=least)
    return blocks


def _words(settings: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())
