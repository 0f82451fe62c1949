"""`astra-tui yardstick`: the kernels that others ship for a task: listed, fetched, opened, timed.

`astra-tui yardstick time` times sources against every shipped kernel that can be had, on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from astra_tui import plain
from astra_tui.cli.click_command import OneOf, Options, argument, command, flag
from astra_tui.cli.commands.check import find_source, read_text
from astra_tui.cli.exit_codes import ExitCode, KernelFailed, error_entry, print_error, worst
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
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.lab.compiler import Compiler
    from astra_tui.lab.on_gpu.measuring import Chain
    from astra_tui.lab.yardsticks import NotBuilt, Shipped
    from astra_tui.lab.yardsticks.timing import YardstickTimer
    from astra_tui.model.pin import Pin
    from astra_tui.model.task import KernelTask, Workload
    from astra_tui.model.task.yardstick import Yardstick
    from astra_tui.model.yardsticks import ChainTimes, YardstickEntry
    from astra_tui.packages import Packages
    from astra_tui.plain.output import Steps

    Found = tuple[KernelTask, Yardstick]

CHAINS = ("both", "itself", "producer")

Sources = Sequence[tuple[Path, str]]


def time_yardsticks(options: Options) -> int:
    """Checks the sources, times all versions in each chain, prints tables or JSON."""
    from astra_tui.cli.json_answers import YardstickTimesAnswer
    from astra_tui.model.check import CheckVerdict
    from astra_tui.present.timing import chain_blocks

    task = _task(options.task)
    sources = _sources(task, options.sources)
    workloads = chosen_workloads(task, options.workload)
    refuse_emulator(options.device)
    with open_for_timing(task, options.device) as opened:
        environment = opened.environment
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
    from astra_tui.model.task.yardstick import load_yardsticks
    from astra_tui.plain.output import Steps

    found = []
    with Steps() as shown:
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
    from astra_tui.lab.on_gpu.measuring import Chain, MeasurementFailed
    from astra_tui.lab.on_gpu.measuring import Options as Protocols
    from astra_tui.lab.on_gpu.workload import compile_source
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


LIST, UPDATE, TIME = "list", "update", "time"


@command(
    "list, fetch or time the kernels that others ship for a task",
    "A task's yardsticks.toml says which (docs/yardsticks.md). `list` uses no network; `update` "
    "fetches the pinned packages by pip, extracts or compiles every kernel, compares its "
    "parameters, and says which newer versions the index has. Pins are never changed. `time` times "
    "them on a GPU against the baseline and the sources that are named, which are checked first.",
    argument("action", "list|update|time", "what to do", type=OneOf([LIST, UPDATE, TIME])),
    argument("task", "TASK", "a task's name or folder (default: all tasks)", required=False),
    argument("sources", "SOURCE.cu", "for `time`: sources next to the baseline", nargs=-1),
    WORKLOADS,
    flag(
        "--chain",
        type=OneOf(CHAINS),
        default="both",
        help="for `time`: what each launch follows: itself, a producer, or both in turn (default)",
    ),
    GPU,
    JSON,
    example="astra-tui yardstick list silu_and_mul",
)
def run(options: Options) -> int:
    """Prints a table, or JSON; for an update, exit code 1 where something was not built."""
    if options.action == TIME:
        return time_yardsticks(options)
    if options.sources:
        raise UserError(f"yardstick {options.action} takes no sources")
    from astra_tui.cli.json_answers import YardsticksAnswer
    from astra_tui.lab.upstream import user_packages
    from astra_tui.present.tasks import yardsticks_blocks

    tasks, broken = _tasks(options.task)
    packages = user_packages()
    found = _yardsticks(tasks, broken)
    entries = [_entry(task, yardstick, packages) for task, yardstick in found]
    if options.action == UPDATE:
        entries = list(_updated(found, entries, packages))
    missing = broken or any(entry.built is False for entry in entries)
    code = ExitCode.FAILED if missing else ExitCode.OK
    unserved = _unserved(found, entries)
    errors = tuple(map(error_entry, broken))
    answer = YardsticksAnswer(int(code), tuple(entries), unserved, errors)
    if entries or options.json:
        plain.print_answer(answer, options.json, lambda: yardsticks_blocks(entries, unserved))
    else:
        plain.note("no task here has a yardsticks.toml; see docs/yardsticks.md")
    for problem in broken:
        print_error(problem)
    return code


def _tasks(named: str | None) -> tuple[list[KernelTask], list[UserError]]:
    """The named task, or all; of all, those that cannot be read are errors."""
    from astra_tui.model.task import find_task, list_tasks, load_task

    if named:
        return [find_task(named)], []
    tasks, broken = [], []
    for found in list_tasks():
        try:
            tasks.append(load_task(found.folder))
        except UserError as error:
            broken.append(error)
    return tasks, broken


def _yardsticks(tasks: Sequence[KernelTask], broken: list[UserError]) -> list[Found]:
    from astra_tui.model.task.yardstick import load_yardsticks

    found: list[Found] = []
    for task in tasks:
        try:
            found += [(task, yardstick) for yardstick in load_yardsticks(task)]
        except UserError as error:
            broken.append(error)
    return found


def _entry(task: KernelTask, yardstick: Yardstick, packages: Packages) -> YardstickEntry:
    from astra_tui.lab.yardsticks import refusal
    from astra_tui.model.yardsticks import YardstickEntry

    pin = yardstick.package
    serves = [w.name for w in task.workloads if not refusal(task, yardstick, w)]
    return YardstickEntry(
        task=task.name,
        name=yardstick.name,
        about=yardstick.about,
        kind=yardstick.kind,
        package=pin.name,
        version=pin.version,
        released=pin.released.isoformat(),
        age_days=(datetime.now(UTC).date() - pin.released).days,
        licence=pin.licence,
        home=_home(packages, pin),
        arch=yardstick.arch,
        pdl=yardstick.pdl,
        dtypes=yardstick.dtypes,
        requires=" ".join(yardstick.requires.split()),
        serves=tuple(serves),
        refuses=tuple(w.name for w in task.workloads if w.name not in serves),
        cached=packages.has(pin),
    )


def _home(packages: Packages, pin: Pin) -> str:
    """Where the package says that it comes from; "" before it was fetched."""
    from astra_tui.packages import Archive

    try:
        return Archive(pin, packages.place_of(pin)).origin().home if packages.has(pin) else ""
    except UserError:
        return ""


def _unserved(
    found: Sequence[Found], entries: Sequence[YardstickEntry]
) -> dict[str, tuple[str, ...]]:
    """Workloads by task that no yardstick serves."""
    served = {(e.task, name) for e in entries for name in e.serves}
    tasks = {task.name: task for task, _ in found}
    return {
        name: tuple(w.name for w in task.workloads if (name, w.name) not in served)
        for name, task in tasks.items()
    }


def _updated(
    found: Sequence[Found], entries: Sequence[YardstickEntry], packages: Packages
) -> Iterator[YardstickEntry]:
    """Every entry with the result of opening its yardstick, and newer versions in the index."""
    from astra_tui.cli.devices import open_compiler
    from astra_tui.plain.output import Steps

    newer = {pin: _newer(packages, pin) for pin in {y.package for _, y in found}}
    with open_compiler() as compiler, Steps() as shown:
        for (task, yardstick), entry in zip(found, entries, strict=True):
            yield msgspec.structs.replace(
                _opened(task, yardstick, entry, compiler, packages, shown),
                home=_home(packages, yardstick.package),
                cached=packages.has(yardstick.package),
                newer=newer[yardstick.package],
            )


def _opened(
    task: KernelTask,
    yardstick: Yardstick,
    entry: YardstickEntry,
    compiler: Compiler,
    packages: Packages,
    shown: Steps,
) -> YardstickEntry:
    from astra_tui.lab.yardsticks import NotBuilt, open_yardstick
    from astra_tui.model.task.yardstick import OutOfReach

    if isinstance(yardstick.code, OutOfReach):
        return msgspec.structs.replace(entry, problem=yardstick.code.reason)
    progress = shown.begin(f"opening {yardstick.package}")
    opened = open_yardstick(task, yardstick, compiler, yardstick.arch, packages, progress)
    if isinstance(opened, NotBuilt):
        return msgspec.structs.replace(entry, built=False, problem=opened.reason, hint=opened.hint)
    return msgspec.structs.replace(entry, built=True)


def _newer(packages: Packages, pin: Pin) -> tuple[str, ...] | None:
    """Versions above the pinned one; None where the index does not say."""
    try:
        return packages.newer(pin)
    except UserError as error:
        plain.note(error.message)
        return None
