"""`astra-tui counters`: memory traffic and instructions of a source, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.check import find_source, read_text
from astra_tui.cli.command import Options, argument, at_least_one, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON
from astra_tui.model.errors import UserError
from astra_tui.model.ncu import NcuReport

if TYPE_CHECKING:
    from astra_tui.cli.answers import CountedEntry
    from astra_tui.lab.check.counting import Count
    from astra_tui.model.check import Case
    from astra_tui.model.task import KernelTask

_NO_BUDGET = 1 << 40
"""Instructions that a count may take: it ends when the user interrupts it."""


@command(
    "count memory traffic and instructions, line by line",
    "Counts come from the emulator: they are exact for memory, and never a time. --hardware "
    "puts those of a GPU next to them.",
    argument("task", "TASK", "a task's name or folder"),
    argument("source", "SOURCE.cu", "the kernel source to count"),
    flag("--against", metavar="OTHER.cu", help="a version to compare with"),
    flag("--workload", metavar="NAME", help="the workload; by default the first"),
    flag(
        "--rows",
        metavar="N",
        type=at_least_one,
        help="rows to run; by default as many as stay quick",
    ),
    flag("--hardware", help="read the first GPU's own counters with ncu as well, and show both"),
    JSON,
)
def run(options: Options) -> int:
    """Prints the annotated source, next to another version if there is one, or JSON."""
    from astra_tui.cli.answers import CountersAnswer
    from astra_tui.cli.hardware import compare_counters
    from astra_tui.lab.check.counting import workload_case
    from astra_tui.model.task import find_task
    from astra_tui.plain.hardware import print_compared

    task = find_task(options.task)
    if options.rows is not None and not task.rows:
        raise UserError(f"{task.name} has no dimension of rows, so --rows means nothing here")
    case = workload_case(task, options.workload, options.rows)
    names = [options.source, *([options.against] if options.against else [])]
    counted = _count(task, case, [find_source(task, name) for name in names])
    compulsory = task.compulsory_bytes(case.dims, case.dtype)
    on_gpu = _on_gpu(task, case, counted) if options.hardware else {}
    if options.json:
        entries = tuple(_entry(*each, on_gpu.get(each[0])) for each in counted)
        plain.print_json(CountersAnswer(task.name, case, compulsory, entries))
    else:
        _print(task, case, compulsory, counted)
        for file, count in ((file, count) for file, _, count in counted if file in on_gpu):
            print_compared(str(file), on_gpu[file], compare_counters(count.counters, on_gpu[file]))
    if not all(count.compilation.ok for _, _, count in counted):
        return ExitCode.COMPILE_ERROR
    return ExitCode.FAILED if any(count.faults for _, _, count in counted) else ExitCode.OK


def _count(task: KernelTask, case: Case, files: list[Path]) -> list[tuple[Path, str, Count]]:
    """Each file with its text and its counts."""
    from astra_tui.cli.devices import open_compiler
    from astra_tui.emulator.device import Emulator
    from astra_tui.lab.check.counting import count
    from astra_tui.lab.check.execution import read_source

    sources = [(file, read_source(task, read_text(file), str(file))) for file in files]
    counted: list[tuple[Path, str, Count]] = []
    with open_compiler(task) as compiler:
        device = Emulator(budget=_NO_BUDGET)
        for file, source in sources:
            plain.note(f"counting {file.name} ...")
            counted.append((file, source.text, count(task, source, case, compiler, device)))
    return counted


def _on_gpu(
    task: KernelTask, case: Case, counted: list[tuple[Path, str, Count]]
) -> dict[Path, NcuReport]:
    """What ncu says about each file that compiles and does not fault."""
    from astra_tui.cli.hardware import read_on_gpu

    sound = [(f, text) for f, text, c in counted if c.compilation.ok and not c.faults]
    return dict(zip((f for f, _ in sound), read_on_gpu(task, case, sound), strict=True))


def _entry(file: Path, _text: str, count: Count, on_gpu: NcuReport | None) -> CountedEntry:
    from astra_tui.cli.answers import CountedEntry
    from astra_tui.cli.hardware import compare_counters

    return CountedEntry(
        source=str(file),
        compiled=count.compilation.ok,
        diagnostics=count.compilation.diagnostics,
        kernels=count.kernels,
        requests=count.counters.requests,
        sectors=count.counters.sectors,
        bytes=count.counters.bytes,
        bank_conflicts=count.counters.bank_conflicts,
        warp_instructions=count.counters.warp_instructions,
        counters=count.counters,
        findings=count.faults,
        hardware=on_gpu,
        compared=compare_counters(count.counters, on_gpu) if on_gpu is not None else (),
    )


def _print(
    task: KernelTask, case: Case, compulsory: int, counted: list[tuple[Path, str, Count]]
) -> None:
    from astra_tui.plain.counters import CountedSource, print_counters
    from astra_tui.plain.reports import print_compile_errors

    broken = [(file, count) for file, _, count in counted if not count.compilation.ok]
    for file, count in broken:
        print_compile_errors(str(file), count.compilation)
    if not broken:
        versions = [
            CountedSource(str(file), text, c.counters, c.compilation, c.faults)
            for file, text, c in counted
        ]
        print_counters(task.name, case, compulsory, versions)
