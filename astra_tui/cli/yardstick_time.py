"""`astra-tui yardstick time`: sources against every shipped kernel that can be had, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.check import find_source, read_text
from astra_tui.cli.command import Options
from astra_tui.cli.exit_codes import ExitCode, worst
from astra_tui.cli.failures import KernelFailed
from astra_tui.cli.timed_sources import (
    OpenGpu,
    checked,
    chosen_workloads,
    environment_of,
    open_for_timing,
    refuse_emulator,
    source_entry,
)
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.lab.on_gpu.measuring import Chain
    from astra_tui.lab.yardsticks import NotBuilt, Shipped
    from astra_tui.lab.yardsticks.timing import YardstickTimer
    from astra_tui.model.task import KernelTask, Workload
    from astra_tui.model.yardsticks import ChainTimes

CHAINS = ("both", "itself", "producer")

Sources = Sequence[tuple[Path, str]]


def time_yardsticks(options: Options) -> int:
    """Checks the sources, times all versions in each chain, prints tables or JSON."""
    from astra_tui.cli.answers import YardstickTimesAnswer
    from astra_tui.model.check import CheckVerdict
    from astra_tui.present.timing import chain_blocks

    task = _task(options.task)
    sources = _sources(task, options.sources)
    workloads = chosen_workloads(task, options.workload)
    refuse_emulator(options.device)
    with open_for_timing(task, options.device) as opened:
        environment = environment_of(opened.gpu.facts, opened.compiler)
        shipped = _shipped(task, opened)
        reports = checked(task, options.task, sources, opened, quiet=options.json)
        chains: tuple[ChainTimes, ...] = ()
        if all(r.verdict is CheckVerdict.PASSED for r in reports):
            chains = tuple(_chains(options.chain, task, sources, workloads, shipped, opened))
    code = worst([r.verdict for r in reports])
    if any(v.caveats for c in chains for s in c.shapes for v in s.versions):
        code = ExitCode.FAILED
    entries = tuple(map(source_entry, reports))
    answer = YardstickTimesAnswer(int(code), task.name, environment, entries, chains)
    plain.print_answer(
        answer, options.json, lambda: [b for c in chains for b in chain_blocks(task.name, c)]
    )
    return code


def _task(named: str | None) -> KernelTask:
    from astra_tui.model.task import find_task

    if not named:
        raise UserError("name the task whose yardsticks are to be timed")
    return find_task(named)


def _sources(task: KernelTask, named: Sequence[str]) -> Sources:
    """The baseline, then the named sources."""
    files = [task.baseline_file, *(find_source(task, name) for name in named)]
    return [(file, read_text(file)) for file in dict.fromkeys(files)]


def _shipped(task: KernelTask, opened: OpenGpu) -> list[Shipped | NotBuilt]:
    from astra_tui.lab.yardsticks import NotBuilt, open_yardstick
    from astra_tui.model.task.yardstick_file import load_yardsticks
    from astra_tui.plain.output import steps

    found = []
    with steps() as shown:
        for yardstick in load_yardsticks(task):
            progress = shown.begin(f"opening {yardstick.package}")
            arch = opened.gpu.facts.arch
            one = open_yardstick(task, yardstick, opened.compiler, arch, progress=progress)
            if isinstance(one, NotBuilt):
                plain.note(f"{yardstick.name} is not timed: {one.reason}")
            found.append(one)
    return found


def _chains(
    asked: str,
    task: KernelTask,
    sources: Sources,
    workloads: tuple[Workload, ...],
    shipped: Sequence[Shipped | NotBuilt],
    opened: OpenGpu,
) -> Iterator[ChainTimes]:
    """Raises KernelFailed where the GPU could not do it."""
    from astra_tui.lab.on_gpu.bench import Bench
    from astra_tui.lab.on_gpu.compiling import compile_source
    from astra_tui.lab.on_gpu.measuring import Chain, MeasurementFailed
    from astra_tui.lab.on_gpu.measuring import Options as Protocols
    from astra_tui.lab.yardsticks.timing import MIN_ROUNDS, TimedVersion, YardstickTimer

    base, *ours = (
        TimedVersion(
            file.name,
            compile_source(task, opened.compiler, opened.device.attributes, text, str(file)),
        )
        for file, text in sources
    )
    opened.device.close()  # The process that measures has the GPU to itself.
    gpu = opened.gpu
    for chain in (Chain.ITSELF, Chain.PRODUCER):
        if asked not in ("both", chain.value):
            continue
        protocols = Protocols(warm=False, chain=chain, least_rounds=MIN_ROUNDS)
        try:
            with Bench(task, gpu.facts, gpu.tools, opened.oracle, protocols) as bench:
                timer = YardstickTimer(task, bench, base, ours, shipped, gpu.facts.attributes)
                yield _followed(timer, workloads, chain)
        except MeasurementFailed as error:
            raise KernelFailed(f"the measurement failed on workload {error}") from None


def _followed(timer: YardstickTimer, workloads: tuple[Workload, ...], chain: Chain) -> ChainTimes:
    """Times all shapes; says on stderr how far it is."""
    from astra_tui.model.yardsticks import ChainTimes, ShapeTimes

    done = 0
    for event in timer.time(workloads):
        if isinstance(event, ShapeTimes):
            done += 1
            plain.note(f"after {chain.value}: {done} of {len(workloads)} workloads")
        elif isinstance(event, ChainTimes):
            return event
    raise AssertionError("the timer ends with its ChainTimes")
