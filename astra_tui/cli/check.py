"""`astra-tui check`: correctness of kernel sources, result by result."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.devices import open_device
from astra_tui.cli.exit_codes import ExitCode, worst
from astra_tui.model.check import CaseResult, CheckReport
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, find_task, list_tasks, load_task


def run(options: argparse.Namespace) -> int:
    """Checks one task, or all; prints a summary of each source, or one JSON object."""
    if options.all == bool(options.task):
        raise UserError("name a task, or say --all", hint="astra-tui kernels lists the tasks")
    if options.list:
        return _list_cases(find_task(options.task), tuple(options.case), options.json)
    reports: list[CheckReport] = []
    many = options.all
    for task, sources in _wanted(options):
        for report in _check_task(task, sources, options):
            reports.append(report)
            if not options.json and not many:
                plain.print_report(report, verbose=options.verbose)
    code = worst([r.verdict for r in reports])
    if options.json:
        plain.print_json({"exit_code": int(code), "reports": reports})
    elif many:
        plain.print_report_table(reports)
    return code


def _wanted(options: argparse.Namespace) -> Iterator[tuple[KernelTask, list[Path]]]:
    if options.all:
        for found in list_tasks():
            task = load_task(found.folder)
            yield task, _sources_of(task)
        return
    task = find_task(options.task)
    yield task, [Path(s) for s in options.sources] or _sources_of(task)


def _sources_of(task: KernelTask) -> list[Path]:
    """The sources in the task's folder, the baseline first."""
    return sorted(task.folder.glob("*.cu"), key=lambda p: (p != task.baseline_file, p.name))


def _check_task(
    task: KernelTask, sources: list[Path], options: argparse.Namespace
) -> Iterator[CheckReport]:
    from astra_tui.lab.check.oracle import Oracle
    from astra_tui.lab.check.runner import Checker, select_cases
    from astra_tui.lab.compiler import Compiler

    cases = select_cases(task, tuple(options.case))
    with Oracle(task) as oracle, Compiler() as compiler, open_device(options.device) as device:
        oracle.warm_up(cases)
        checker = Checker(task, device, compiler, oracle)
        for source in sources:
            text = read_text(source)
            events = checker.check(text, str(source), cases if options.case else None)
            with plain.progress(f"{task.name}/{source.name}", len(cases)) as advance:
                for event in events:
                    if isinstance(event, CaseResult):
                        advance()
                    elif isinstance(event, CheckReport):
                        yield event


def read_text(file: Path) -> str:
    """A source's text. Raises UserError when there is no such file."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError("there is no such file", file=str(file)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", file=str(file)) from None


def _list_cases(task: KernelTask, patterns: tuple[str, ...], as_json: bool) -> int:
    from astra_tui.lab.check.runner import select_cases

    cases = select_cases(task, patterns)
    if as_json:
        plain.print_json({"cases": cases})
    else:
        plain.print_cases(cases)
    return ExitCode.OK
