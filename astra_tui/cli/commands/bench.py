"""`astra-tui bench`: kernel sources against each other on a GPU, checked before they are timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import OneOf, Options, argument, command, flag
from astra_tui.cli.commands.check import find_source, read_text
from astra_tui.cli.exit_codes import ExitCode, KernelFailed, worst
from astra_tui.cli.flags import JSON
from astra_tui.cli.timed_sources import (
    GPU,
    WORKLOADS,
    OpenGpu,
    checked,
    chosen_workloads,
    open_for_timing,
    refuse_emulator,
    source_entry,
)
from astra_tui.model.digest import content_hash
from astra_tui.model.timing import WRONG_OUTPUT, Progress, Timing

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import BenchComparison, BenchEnvironment
    from astra_tui.lab.on_gpu.bench import Bench
    from astra_tui.lab.on_gpu.measuring import Options as Protocols
    from astra_tui.lab.on_gpu.workload import Compiled
    from astra_tui.model.check import CheckReport
    from astra_tui.model.events import RoundsTimed
    from astra_tui.model.task import KernelTask, Workload
    from astra_tui.present.document import Block

_COUNT = "without a GPU, memory traffic and instructions are counted: astra-tui counters"

PROTOCOLS = ("both", "paired", "paper")


@dataclass(frozen=True)
class _Wanted:
    """What is to be measured; the first source is the base of all others."""

    task: KernelTask
    named: str
    workloads: tuple[Workload, ...]
    sources: tuple[tuple[Path, str], ...]
    """Files with their texts; two at least."""
    protocol: str
    energy: bool

    @property
    def names(self) -> tuple[str, ...]:
        """How the sources are named in tables: without their folders unless that is ambiguous."""
        files = [file for file, _ in self.sources]
        names = Counter(file.name for file in set(files))
        return tuple(file.name if names[file.name] == 1 else str(file) for file in files)


@command(
    "time sources against each other on a GPU",
    "Every source is checked first; one that is wrong is not timed. The first is the base, the "
    "others are candidates; a single one is timed against itself, which shows what differences "
    "this machine can tell. docs/timing.md says what is measured.",
    argument("task", "TASK", "a task's name or folder"),
    argument("sources", "SOURCE.cu", "the base, then the candidates", nargs=-1, required=True),
    WORKLOADS,
    flag(
        "--protocol",
        type=OneOf(("both", "paired", "paper")),
        default="both",
        help="paired graph replay, the Astra paper's host launches, or both (default)",
    ),
    GPU,
    flag("--energy", help="also measure the energy of a launch, in blocks of more than a second"),
    JSON,
    example="astra-tui bench silu_and_mul baseline.cu my_version.cu",
)
def run(options: Options) -> int:
    """Checks the sources, times them, prints a table for each candidate, or one JSON object."""
    from astra_tui.cli.json_answers import BenchAnswer
    from astra_tui.model.check import CheckVerdict

    wanted = _wanted(options)
    refuse_emulator(options.device)
    with open_for_timing(wanted.task, options.device) as opened:
        environment = opened.environment
        reports = checked(wanted.task, wanted.named, wanted.sources, opened, quiet=options.json)
        timings: tuple[Timing, ...] = ()
        if all(r.verdict is CheckVerdict.PASSED for r in reports):
            timings = _timed(wanted, opened)
    code = worst([r.verdict for r in reports])
    if any(_wrong_when_timed(t) for t in timings):
        code = ExitCode.FAILED
    comparisons = _comparisons(wanted, timings)
    if options.json:
        sources = tuple(map(source_entry, reports))
        task, protocol = wanted.task.name, wanted.protocol
        plain.print_json(BenchAnswer(int(code), task, protocol, environment, sources, comparisons))
    elif comparisons:
        plain.print_blocks(_blocks(wanted, environment, reports, comparisons))
    return code


# -- what is asked for -----------------------------------------------------------------------------


def _wanted(options: Options) -> _Wanted:
    """Raises UserError for a task, workload or file that is not there."""
    from astra_tui.model.task import find_task

    task = find_task(options.task)
    files = [find_source(task, name) for name in options.sources]
    sources = [(file, read_text(file)) for file in files]
    if len(sources) == 1:  # Against itself: what this machine can tell apart.
        sources *= 2
    workloads = chosen_workloads(task, options.workload)
    return _Wanted(task, options.task, workloads, tuple(sources), options.protocol, options.energy)


# -- checking and timing ---------------------------------------------------------------------------


def _timed(wanted: _Wanted, opened: OpenGpu) -> tuple[Timing, ...]:
    """One timing a candidate. Raises KernelFailed where the GPU could not do it."""
    from astra_tui.lab.on_gpu.bench import Bench
    from astra_tui.lab.on_gpu.measuring import MeasurementFailed
    from astra_tui.lab.on_gpu.workload import compile_source

    versions = [
        compile_source(wanted.task, opened.compiler, opened.device.attributes, text, str(file))
        for file, text in wanted.sources
    ]
    opened.device.close()  # The process that measures has the GPU to itself.
    gpu, options = opened.gpu, _options(wanted.protocol, wanted.energy)
    try:
        with Bench(wanted.task, gpu.facts, gpu.tools, opened.oracle, options) as bench:
            return tuple(_followed(bench, wanted, versions))
    except MeasurementFailed as error:
        raise KernelFailed(
            f"the measurement failed on workload {error}",
            hint="every source had passed its check; see which one it is with --workload",
        ) from None


def _followed(bench: Bench, wanted: _Wanted, versions: Sequence[Compiled]) -> Iterator[Timing]:
    """The timings; on the way it shows how far the bench is."""
    from astra_tui.lab.on_gpu.bench import WorkloadDone
    from astra_tui.plain.console import TimingProgress, live_display

    hashes = [content_hash(text) for _, text in wanted.sources]
    base, *candidates = versions
    progress = TimingProgress(wanted.names[1:])
    with live_display(progress) as refresh:
        for event in bench.time(wanted.workloads, base, candidates):
            if isinstance(event, Timing):
                yield event
            elif isinstance(event, WorkloadDone):
                progress.done(event.candidate, event.timing)
            else:
                progress.rounds(event.candidate, _rounds_timed(event, hashes))
            refresh()


def _rounds_timed(progress: Progress, hashes: Sequence[str]) -> RoundsTimed:
    from astra_tui.model.events import RoundsTimed

    return RoundsTimed(
        candidate=hashes[1 + progress.candidate],
        base=hashes[0],
        workload=progress.workload,
        base_us=progress.base_us,
        candidate_us=progress.candidate_us,
        speedup=progress.speedup,
        rounds=progress.rounds,
    )


def _options(protocol: str, energy: bool) -> Protocols:
    from astra_tui.gpu.timing.stopping import LOOKS
    from astra_tui.lab.on_gpu.measuring import Options as Protocols

    if protocol == "paper":  # The paired rounds are still needed to see that the GPU is sound.
        return Protocols(warm=False, paper=True, energy=energy, round_limit=LOOKS[0])
    return Protocols(paper=protocol == "both", energy=energy)


def _wrong_when_timed(timing: Timing) -> bool:
    return any(d.kind == WRONG_OUTPUT for w in timing.workloads for d in w.caveats)


# -- output ----------------------------------------------------------------------------------------


def _comparisons(wanted: _Wanted, timings: Iterable[Timing]) -> tuple[BenchComparison, ...]:
    from astra_tui.cli.json_answers import BenchComparison
    from astra_tui.gpu.timing.stopping import minimum_detectable

    base, *candidates = (str(file) for file, _ in wanted.sources)
    return tuple(
        BenchComparison(base, candidate, minimum_detectable(timing.control), timing)
        for candidate, timing in zip(candidates, timings, strict=False)
    )


def _blocks(
    wanted: _Wanted,
    environment: BenchEnvironment,
    reports: Sequence[CheckReport],
    comparisons: Sequence[BenchComparison],
) -> list[Block]:
    from astra_tui.present.document import Section
    from astra_tui.present.timing import circumstances_blocks, timing_blocks
    from astra_tui.present.words import device_words

    named = {str(file): n for (file, _), n in zip(wanted.sources, wanted.names, strict=True)}
    gpu = device_words(environment.device, environment.gpu)
    blocks = circumstances_blocks(
        f"{wanted.task.name}: {gpu}, {environment.compiler}, {environment.arch}",
        [f"{named[r.source]}: {r.message}" for r in reports],
        wanted.protocol,
    )
    base, *candidates = wanted.names
    for candidate, found in zip(candidates, comparisons, strict=True):
        by_paper = wanted.protocol == "paper"
        least = None if by_paper else found.minimum_detectable
        parts = timing_blocks(found.timing, base, candidate, detectable=least, by_paper=by_paper)
        blocks.append(Section(candidate, parts))
    return blocks
