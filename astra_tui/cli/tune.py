"""`astra-tui tune`: sweeps what a source leaves open on a GPU, and joins what wins where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.check import find_source, read_text
from astra_tui.cli.command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode, KernelFailed, worst
from astra_tui.cli.flags import JSON
from astra_tui.cli.timed_sources import (
    GPU,
    WORKLOADS,
    OpenGpu,
    checked,
    chosen_workloads,
    environment_of,
    open_for_timing,
    refuse_emulator,
)
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.cli.answers import BenchEnvironment, TuneAnswer, TunedPart
    from astra_tui.lab.tuning.portfolio import Part
    from astra_tui.lab.tuning.tuner import Tuned, Tuner
    from astra_tui.model.task import KernelTask, Workload
    from astra_tui.model.timing import Timing
    from astra_tui.present.document import Block

_SHARE = 0.1


@command(
    "sweep block sizes, packs and `tune` constants of a source on a GPU",
    "The source is checked first. A model of the device orders the trials, and a tenth of them is "
    "timed on each workload; what is best is timed again. Winners of single workloads are joined "
    "by 'when' where they pay, and the result is checked and timed against the source.",
    argument("task", "TASK", "a task's name or folder"),
    argument("source", "SOURCE.cu", "the source to tune"),
    flag("--out", metavar="FILE", help="where the result goes (default: SOURCE-tuned.cu)"),
    flag(
        "--share",
        metavar="SHARE",
        type=float,
        default=_SHARE,
        help="share of the trials that is timed (default: 0.1; 1: the full sweep)",
    ),
    WORKLOADS,
    GPU,
    JSON,
)
def run(options: Options) -> int:
    """Sweeps, writes the result, prints what it consists of, or one JSON object."""
    from astra_tui.model.check import CheckVerdict
    from astra_tui.model.task import find_task

    task = find_task(options.task)
    file = find_source(task, options.source)
    text = read_text(file)
    workloads = chosen_workloads(task, options.workload)
    out = Path(options.out) if options.out else file.with_name(f"{file.stem}-tuned.cu")
    if not 0 < options.share <= 1:
        raise UserError("--share is more than 0 and at most 1")
    refuse_emulator(options.device)
    with open_for_timing(task, options.device) as opened:
        (report,) = checked(task, options.task, [(file, text)], opened, quiet=options.json)
        if report.verdict is not CheckVerdict.PASSED:
            return worst([report.verdict])
        environment = environment_of(opened.gpu.facts, opened.compiler)
        answer, made = _tuned(task, text, workloads, opened, environment, options)
        if made != text:
            (report,) = checked(task, options.task, [(out, made)], opened, quiet=options.json)
    code = worst([report.verdict])
    kept = code is ExitCode.OK and made != text
    if kept:
        out.write_text(made, encoding="utf-8")
    answer = replace(answer, exit_code=int(code), out=str(out) if kept else "")
    plain.print_answer(answer, options.json, lambda: _blocks(answer, (file.name, out.name)))
    return code


def _tuned(
    task: KernelTask,
    text: str,
    workloads: tuple[Workload, ...],
    opened: OpenGpu,
    environment: BenchEnvironment,
    options: Options,
) -> tuple[TuneAnswer, str]:
    """What was found, and the source that it makes."""
    from astra_tui.lab import compiler as compilers
    from astra_tui.lab.on_gpu.bench import Bench
    from astra_tui.lab.on_gpu.measuring import MeasurementFailed
    from astra_tui.lab.on_gpu.workload import compile_source
    from astra_tui.lab.tuning.search import places, result_of
    from astra_tui.lab.tuning.sweep import SCREENING
    from astra_tui.lab.tuning.trials import compile_trials
    from astra_tui.lab.tuning.tuner import Tuner
    from astra_tui.playbook import Evidence
    from astra_tui.playbook.space import space_of

    facts, compiler = opened.gpu.facts, opened.compiler
    space = space_of(text, Evidence(task, device=environment.device, arch=facts.arch))
    if len(space.settings()) < 2:
        raise UserError("there is nothing to sweep", hint="declare 'tune NAME = VALUE in A, B'")
    trials = compile_trials(
        task,
        facts.attributes,
        space.sources(),
        lambda: compilers.Compiler(arch=facts.arch, upstream=compiler.upstream),
    )
    opened.device.close()  # The process that measures has the GPU to itself.
    choices = [d.choices for d in space.dimensions]
    where = places(choices, [list(t.settings.values()) for t in trials])
    told = (lambda _: None) if options.json else plain.note
    try:
        with Bench(task, facts, opened.gpu.tools, opened.oracle, SCREENING) as bench:
            tuner = Tuner(task, bench, workloads, trials, where)
            tuned = result_of(tuner.tune(options.share), told)
            made = _joined(task, text, tuner, tuned)
            compiled = (
                compile_source(task, compiler, facts.attributes, source, name)
                for source, name in ((text, "the source"), (made, "the result"))
            )
            timing = tuner.against(*compiled) if made != text else None
    except MeasurementFailed as error:
        raise KernelFailed(f"the measurement failed on workload {error}") from None
    return _answer(environment, tuner, tuned, timing), made


def _joined(task: KernelTask, text: str, tuner: Tuner, tuned: Tuned) -> str:
    """The result's source; the given one where nothing is better."""
    from astra_tui.lab.tuning.portfolio import words
    from astra_tui.lab.tuning.tuner import OWN
    from astra_tui.playbook.portfolio import Part, joined

    found = tuned.portfolio
    if found.default == OWN and not found.parts:
        return text
    parts = [Part(p.condition, tuner.trials[p.trial].text, words(p)) for p in found.parts]
    return joined(task, tuner.trials[found.default].text, parts)


def _answer(
    environment: BenchEnvironment, tuner: Tuner, tuned: Tuned, timing: Timing | None
) -> TuneAnswer:
    from astra_tui.cli.answers import TuneAnswer

    found, trials = tuned.portfolio, tuner.trials
    return TuneAnswer(
        exit_code=0,
        task=tuner.task.name,
        environment=environment,
        sources=len(trials),
        trials=sum(s.candidates for s in tuned.searched),
        timed=sum(s.tried for s in tuned.searched),
        default=dict(trials[found.default].settings),
        parts=tuple(_part(tuner, part) for part in found.parts),
        dropped={_words(trials[t].settings): why for t, why in found.dropped.items()},
        timing=timing,
    )


def _part(tuner: Tuner, part: Part) -> TunedPart:
    from astra_tui.cli.answers import TunedPart
    from astra_tui.lab.tuning.portfolio import words
    from astra_tui.model.launch import print_expression

    settings = dict(tuner.trials[part.trial].settings)
    return TunedPart(print_expression(part.condition), settings, words(part))


def _blocks(answer: TuneAnswer, names: tuple[str, str]) -> list[Block]:
    from astra_tui.gpu.timing.verdict import minimum_detectable
    from astra_tui.present.document import pairs
    from astra_tui.present.timing import CaveatMarks, Names, timing_blocks

    rows = {"timed": f"{answer.timed} of {answer.trials} trials"}
    rows |= {f"when {p.condition}": f"{_words(p.settings)}; {p.gains}" for p in answer.parts}
    rows |= {"otherwise" if answer.parts else "everywhere": _words(answer.default)}
    rows |= {f"not kept: {settings}": why for settings, why in answer.dropped.items()}
    rows |= {"written to": answer.out or "nothing: no trial is better than the source"}
    blocks: list[Block] = [pairs(rows)]
    if answer.timing is not None:
        marks = CaveatMarks.of_timing(answer.timing.workloads)
        least = minimum_detectable(answer.timing.control)
        blocks += timing_blocks(answer.timing, Names(*names), marks, least)
    return blocks


def _words(settings: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())
