"""`astra-tui check`: correctness of kernel sources, result by result."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode, UnavailableHere, error_entry, print_error, worst
from astra_tui.cli.flags import DEVICE, JSON, SANITIZE, SEED, chosen_seed
from astra_tui.cli.read_file import read_user_file
from astra_tui.model.errors import Place, UserError

if TYPE_CHECKING:
    from astra_tui.lab.check.runner import Checker
    from astra_tui.lab.compiler import Compiler
    from astra_tui.lab.devices import Opened
    from astra_tui.model.check import Case, CheckReport
    from astra_tui.model.task import KernelTask


@dataclass(frozen=True)
class _Wanted:
    """The cases of one task that were asked for, and how the user would name the task."""

    task: KernelTask
    named: str
    cases: tuple[Case, ...]


@dataclass
class _Errors:
    """What could not be checked. Each error is printed once, when it comes up."""

    found: list[UserError] = field(default_factory=list)

    def add(self, error: UserError) -> None:
        if error.describe() not in [e.describe() for e in self.found]:
            self.found.append(error)
            print_error(error)


@command(
    "check that kernels compute what their task says",
    "Without SOURCE, every source in the task's folder is checked.",
    argument("task", "TASK", "a task's name or folder", required=False),
    argument("sources", "SOURCE.cu", "kernel sources to check", nargs=-1, required=False),
    flag("--all", help="check every source of every task whose files are here"),
    flag(
        "--case",
        metavar="PATTERN",
        multiple=True,
        help="only cases that match, such as 'float16/d=769' or '*shifted*'; may be repeated",
    ),
    flag("--list", help="list the cases with their reasons"),
    SEED,
    flag("--verbose", "-v", help="show every case"),
    SANITIZE,
    DEVICE,
    JSON,
    example="astra-tui check silu_and_mul my_version.cu",
)
def run(options: Options) -> int:
    """Checks one task, or all; prints a summary of each source, or one JSON object."""
    from astra_tui.cli.json_answers import CheckAnswer
    from astra_tui.present.checks import reports_blocks

    if options.all == bool(options.task):
        raise UserError("name a task, or say --all", hint="astra-tui kernels lists the tasks")
    errors = _Errors()
    options.seed = 0 if options.list and options.seed is None else chosen_seed(options.seed)
    wanted = _wanted(options, errors)
    if options.list:
        return _list_cases(wanted, options.json)
    reports: list[CheckReport] = []
    for each in wanted:
        for report in _check_task(each, options, errors):
            reports.append(report)
            if not options.json and not options.all:
                print_check(each.task, each.named, report, verbose=options.verbose)
    code = worst([r.verdict for r in reports])
    if errors.found and code in (ExitCode.OK, ExitCode.UNSUPPORTED):
        code = ExitCode.BAD_INPUT
    if options.json:
        entries = tuple(map(error_entry, errors.found))
        plain.print_json(CheckAnswer(int(code), tuple(reports), entries))
    elif options.all:
        plain.print_blocks(reports_blocks(reports))
        _print_failures(wanted, reports, options.verbose)
    return code


def _wanted(options: Options, errors: _Errors) -> list[_Wanted]:
    """The tasks to check, with the cases that the filters leave. Raises UserError for none."""
    from astra_tui.lab.check.runner import NoSuchCase, select_cases
    from astra_tui.lab.upstream import must_fetch
    from astra_tui.model.task import find_task, list_tasks, load_task

    patterns, seed = tuple(options.case), options.seed
    if not options.all:
        task = find_task(options.task)
        return [_Wanted(task, options.task, select_cases(task, patterns, seed))]
    wanted: list[_Wanted] = []
    for found in list_tasks():
        try:
            task = load_task(found.folder)
            cases = select_cases(task, patterns, seed)
            package = must_fetch(task)
            if package is not None and not options.list:
                plain.note(f"{task.name} is left out: it needs {package}, fetched on its own check")
                continue
            wanted.append(_Wanted(task, found.name, cases))
        except NoSuchCase:
            continue
        except UserError as error:
            errors.add(error)
    if patterns and not wanted:
        raise UserError(
            f"no case of any task matches {', '.join(patterns)}",
            hint="list them with: astra-tui check --all --list",
        )
    return wanted


def _check_task(wanted: _Wanted, options: Options, errors: _Errors) -> Iterator[CheckReport]:
    """Checks the sources one after the other; one that cannot be checked does not stop the rest."""
    from astra_tui.cli.devices import open_compiler, open_device
    from astra_tui.lab.check.emulator_check import EmulatorCheck
    from astra_tui.lab.check.runner import Checker
    from astra_tui.lab.on_gpu.opening import open_oracle
    from astra_tui.model.check import CheckVerdict

    texts: dict[Path, str] = {}
    for file in _sources(wanted.task, options.sources):
        try:
            texts[file] = read_text(file)
        except UserError as error:
            errors.add(error)
    with ExitStack() as opened:
        compiler = opened.enter_context(open_compiler(wanted.task))
        device = opened.enter_context(open_device(options.device, compiler))
        oracle = opened.enter_context(open_oracle(wanted.task, device.gpu))
        emulator_check = EmulatorCheck(wanted.task) if device.gpu is not None else None
        if emulator_check is not None:
            opened.enter_context(emulator_check)
        checker = Checker(
            wanted.task, device.device, compiler, oracle, options.seed, emulator_check
        )
        for file, text in texts.items():
            try:
                chosen = wanted.cases if options.case else None
                report = check_source(checker, file, text, chosen, len(wanted.cases))
                if options.sanitize and report.verdict is CheckVerdict.PASSED:
                    report = _sanitized(wanted.task, compiler, device, text, report, chosen)
                yield report
            except UnavailableHere:
                raise
            except UserError as error:
                errors.add(error)


def _sanitized(
    task: KernelTask,
    compiler: Compiler,
    opened: Opened,
    text: str,
    report: CheckReport,
    cases: tuple[Case, ...] | None,
) -> CheckReport:
    """The report with what compute-sanitizer says; what it finds turns the verdict.

    It watches the cases that were named, else a few small ones.
    """
    from astra_tui.lab.on_gpu.sanitizing import sanitize_source
    from astra_tui.model.check import CheckVerdict

    if opened.gpu is not None:
        plain.note(f"running compute-sanitizer on {Path(report.source).name} ...")
    named = tuple(c for c in cases if not c.outside_contract) if cases else None
    found = sanitize_source(task, compiler, opened, text, report.source, named)
    report = replace(report, sanitizer=found)
    names = [r.tool.value for r in found if r.found]
    if not names:
        return report
    message = f"{report.message}, but compute-sanitizer found errors ({', '.join(names)})"
    return replace(report, verdict=CheckVerdict.FAILED, message=message)


def check_source(
    checker: Checker, file: Path, text: str, cases: tuple[Case, ...] | None, total: int
) -> CheckReport:
    """Checks a source by some cases, or by the whole suite, and shows how far it is.

    `total` is how many cases that makes. Raises UserError as Checker.check does.
    """
    from astra_tui.model.check import CaseResult, CheckReport

    report: CheckReport | None = None
    with plain.progress(f"{checker.task.name}/{file.name}", total) as advance:
        for event in checker.check(text, str(file), cases):
            if isinstance(event, CaseResult):
                advance()
            elif isinstance(event, CheckReport):
                report = event
    assert report is not None, "a check ends with its report"
    return report


def _sources(task: KernelTask, names: list[str]) -> list[Path]:
    """The sources that were named, else those in the task's folder, the baseline first."""
    if names:
        return [find_source(task, name) for name in names]
    return sorted(task.folder.glob("*.cu"), key=lambda p: (p != task.baseline_file, p.name))


def find_source(task: KernelTask, name: str) -> Path:
    """A path, else the name of a file in the task's folder such as baseline.cu."""
    path, inside = Path(name), task.folder / name
    return inside if not path.exists() and inside.is_file() else path


def read_text(file: Path) -> str:
    """A source's text. Raises UserError that says why when it cannot be read."""
    try:
        text = read_user_file(file, ".cu file").decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"byte 0x{error.object[error.start]:02x} is not UTF-8",
            file=str(file),
            place=Place(line),
            hint="save the file as UTF-8",
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


# -- output ----------------------------------------------------------------------------------------


def print_check(
    task: KernelTask, named: str, report: CheckReport, *, verbose: bool = False
) -> None:
    """A report, with the command that checks the source again; `named` is how the task was."""
    from astra_tui.present.checks import check_blocks

    file = Path(report.source)
    inside = file.parent == task.folder and find_source(task, file.name) == file
    shown = file.name if inside else report.source
    seed = ["--seed", str(report.seed)] if report.seed else []
    again = shlex.join(["astra-tui", "check", named, shown, *seed])
    try:
        text = read_text(file)
    except UserError:  # It was there when it was checked.
        text = ""
    plain.print_blocks(check_blocks(report, shown=shown, text=text, again=again, verbose=verbose))


def _print_failures(wanted: list[_Wanted], reports: list[CheckReport], verbose: bool) -> None:
    from astra_tui.model.check import CheckVerdict

    for each in wanted:
        for report in reports:
            if report.task_hash == each.task.hash and (
                verbose or report.verdict is not CheckVerdict.PASSED
            ):
                print_check(each.task, each.named, report, verbose=verbose)


def _list_cases(wanted: list[_Wanted], as_json: bool) -> ExitCode:
    from astra_tui.cli.json_answers import CasesAnswer, TaskCases
    from astra_tui.present.tasks import cases_blocks

    answer = CasesAnswer(tuple(TaskCases(w.task.name, w.cases) for w in wanted))
    plain.print_answer(
        answer, as_json, lambda: [b for w in wanted for b in cases_blocks(w.task.name, w.cases)]
    )
    return ExitCode.OK
