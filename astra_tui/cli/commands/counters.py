"""`astra-tui counters`: memory traffic and instructions of a source, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, at_least_one, command, flag
from astra_tui.cli.commands.check import find_source, read_text
from astra_tui.cli.devices import open_compiler, open_device
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import CountedEntry, CountersAnswer
    from astra_tui.model.check import Case, CountedSource
    from astra_tui.model.counters import ComparedCounter, Counters, NcuReport
    from astra_tui.model.task import KernelTask
    from astra_tui.present.document import Block

_NO_BUDGET = 1 << 40
"""Instructions that a count may take: it ends when the user interrupts it."""


@command(
    "count memory traffic and instructions, line by line",
    "Counts come from the emulator: they are exact for memory, and never a time. What is moved "
    "in vain is looked for on every workload. --hardware puts the counters of a GPU next "
    "to them.",
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
    example="astra-tui counters silu_and_mul tuned.cu --against baseline.cu",
)
def run(options: Options) -> int:
    """Prints the annotated source, next to another version if there is one, or JSON."""
    from astra_tui.cli.json_answers import CountersAnswer
    from astra_tui.lab.check.counting import workload_case
    from astra_tui.model.task import find_task

    task = find_task(options.task)
    if options.rows is not None and not task.rows:
        raise UserError(f"{task.name} has no dimension of rows, so --rows means nothing here")
    case = workload_case(task, options.workload, options.rows)
    names = [options.source, *([options.against] if options.against else [])]
    counted = _count(task, case, [find_source(task, name) for name in names])
    compulsory = task.compulsory_bytes(case.dims, case.dtype)
    on_gpu = _on_gpu(task, case, counted) if options.hardware else {}
    entries = tuple(_entry(each, on_gpu.get(each.file)) for each in counted)
    answer = CountersAnswer(task.name, case, compulsory, entries)
    plain.print_answer(answer, options.json, lambda: _blocks(answer, counted))
    if not all(each.compilation.ok for each in counted):
        return ExitCode.COMPILE_ERROR
    return ExitCode.FAILED if any(each.faults for each in counted) else ExitCode.OK


def _count(task: KernelTask, case: Case, files: list[Path]) -> list[CountedSource]:
    """Each file with its counts."""
    from astra_tui.cli.devices import open_compiler
    from astra_tui.emulator.device import Emulator
    from astra_tui.lab.check.counting import count, count_traffic
    from astra_tui.lab.check.execution import read_source
    from astra_tui.model.check import CountedSource

    sources = [(file, read_source(task, read_text(file), str(file))) for file in files]
    counted: list[CountedSource] = []
    with open_compiler(task) as compiler:
        device = Emulator(budget=_NO_BUDGET)
        for file, source in sources:
            plain.note(f"counting {file.name} ...")
            found = count(task, source, case, compiler, device)
            sound = found.compilation.ok and not found.faults
            traffic = count_traffic(task, source, compiler, device) if sound else ()
            counts = found.counters, found.compilation, found.kernels, found.faults, found.traffic
            counted.append(CountedSource(str(file), source.text, *counts, traffic))
    return counted


def _on_gpu(task: KernelTask, case: Case, counted: list[CountedSource]) -> dict[str, NcuReport]:
    """What ncu says about each file that compiles and does not fault."""
    sound = [c for c in counted if c.compilation.ok and not c.faults]
    reports = read_on_gpu(task, case, [(Path(c.file), c.text) for c in sound])
    return {c.file: report for c, report in zip(sound, reports, strict=True)}


def _entry(counted: CountedSource, on_gpu: NcuReport | None) -> CountedEntry:
    from astra_tui.cli.json_answers import CountedEntry
    from astra_tui.model.traffic import wasted_traffic

    return CountedEntry(
        source=counted.file,
        compiled=counted.compilation.ok,
        diagnostics=counted.compilation.diagnostics,
        kernels=counted.kernels,
        requests=counted.counters.requests,
        sectors=counted.counters.sectors,
        bytes=counted.counters.bytes,
        bank_conflicts=counted.counters.bank_conflicts,
        warp_instructions=counted.counters.warp_instructions,
        counters=counted.counters,
        traffic=counted.workloads,
        wasted=wasted_traffic((w.workload, w.arguments) for w in counted.workloads),
        findings=counted.faults,
        hardware=on_gpu,
        compared=compare_counters(counted.counters, on_gpu) if on_gpu is not None else (),
    )


def _blocks(answer: CountersAnswer, counted: list[CountedSource]) -> list[Block]:
    from astra_tui.present.checks import compile_error_blocks
    from astra_tui.present.counters import compared_blocks, counters_blocks

    broken = [each for each in counted if not each.compilation.ok]
    if broken:
        errors = (compile_error_blocks(b.file, b.compilation) for b in broken)
        return [block for error in errors for block in error]
    blocks = counters_blocks(answer.task, answer.case, answer.compulsory_bytes, counted)
    for entry in answer.sources:
        if entry.hardware is not None:
            blocks += compared_blocks(entry.source, entry.hardware, entry.compared)
    return blocks


GPU = "cuda"


def read_on_gpu(
    task: KernelTask, case: Case, sources: Sequence[tuple[Path, str]]
) -> list[NcuReport]:
    """What ncu counts when the first GPU runs each source on the case, or why it does not."""
    from astra_tui.gpu.ncu.metrics import COMPARED
    from astra_tui.lab.on_gpu.hardware_counters import read_source_counters
    from astra_tui.model.counters import NcuReport
    from astra_tui.model.task import Workload

    workload = Workload(case.name, case.dims, case.dtype)
    reports = []
    with open_compiler(task) as compiler:
        try:
            with open_device(GPU, compiler) as opened:
                for file, text in sources:
                    plain.note(f"reading hardware counters of {file.name} ...")
                    reports.append(
                        read_source_counters(
                            task, compiler, opened, text, str(file), workload, COMPARED
                        )
                    )
        except UserError as error:
            left = len(sources) - len(reports)
            reports += [NcuReport(case.name, problem=error.message)] * left
    return reports


def compare_counters(counters: Counters, report: NcuReport) -> tuple[ComparedCounter, ...]:
    """The counters that both have; the GPU's added up over the launches."""
    from astra_tui.gpu.ncu.metrics import REQUESTS, SECTORS
    from astra_tui.model.counters import ComparedCounter, total

    excess = [launch.excess_shared_wavefronts for launch in report.launches]
    known = [passes for passes in excess if passes is not None]
    conflicts = sum(known) if known and len(known) == len(excess) else None
    return (
        ComparedCounter("requests", counters.requests, total(report.launches, REQUESTS)),
        ComparedCounter("sectors", counters.sectors, total(report.launches, SECTORS)),
        ComparedCounter("bank_conflicts", counters.bank_conflicts, conflicts),
    )
