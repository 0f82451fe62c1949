"""`astra-tui counters`: memory traffic and instructions of a source, line by line."""

from __future__ import annotations

import argparse
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.check import read_text
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.task import KernelTask, find_task


def run(options: argparse.Namespace) -> int:
    """Prints the annotated source, beside another version if there is one, or JSON."""
    from astra_tui.lab.check.counting import Count, count, workload_case
    from astra_tui.lab.check.runner import read_source
    from astra_tui.lab.compiler import Compiler
    from astra_tui.lab.emulator.device import Emulator

    task = find_task(options.task)
    case = workload_case(task, options.workload, options.rows)
    files = [_resolve(task, options.source)]
    if options.against:
        files.append(_resolve(task, options.against))
    counted: list[tuple[str, str, Count]] = []
    with Compiler() as compiler:
        device = Emulator(budget=1 << 40)
        for file in files:
            text = read_text(file)
            plain.note(f"counting {file} ...")
            source = read_source(task, text, str(file))
            counted.append((str(file), text, count(task, source, case, compiler, device)))
    for name, _, result in counted:
        if not result.compilation.ok:
            plain.print_compile_errors(name, result.compilation)
            return ExitCode.COMPILE_ERROR
    if options.json:
        plain.print_json(
            {
                "task": task.name,
                "case": case,
                "sources": [
                    {
                        "source": file,
                        "kernels": result.kernels,
                        "requests": result.counters.requests,
                        "sectors": result.counters.sectors,
                        "bytes": result.counters.bytes,
                        "bank_conflicts": result.counters.bank_conflicts,
                        "warp_instructions": result.counters.warp_instructions,
                        "counters": result.counters,
                        "findings": result.faults,
                    }
                    for file, _, result in counted
                ],
            }
        )
    else:
        compulsory = task.compulsory_bytes(case.dims, case.dtype)
        plain.print_counters(
            task.name,
            case,
            compulsory,
            [plain.CountedSource(f, t, r.counters, r.compilation, r.faults) for f, t, r in counted],
        )
    return ExitCode.FAILED if any(result.faults for _, _, result in counted) else ExitCode.OK


def _resolve(task: KernelTask, name: str) -> Path:
    """A path, or the name of a file in the task's folder such as baseline.cu."""
    path = Path(name)
    inside = task.folder / name
    return inside if not path.exists() and inside.is_file() else path
