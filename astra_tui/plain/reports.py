"""Kernel tasks, cases and check reports in words and tables."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from astra_tui.model.check import (
    OPEN_CONDITION_HINT,
    Case,
    CaseOutcome,
    CaseResult,
    CheckReport,
    CheckVerdict,
    ConditionStatus,
    FullSizeResult,
    OutputError,
)
from astra_tui.model.compilation import Compilation, Diagnostic
from astra_tui.model.findings import Finding
from astra_tui.model.sanitizer import sanitizer_words
from astra_tui.model.task import KernelTask
from astra_tui.plain.console import console, indented, print_table, table, toned
from astra_tui.plain.output import visible
from astra_tui.plain.sanitizer import print_sanitizer
from astra_tui.present.checks import by_cause, output_words
from astra_tui.present.numbers import dimensions, pluralised, seconds
from astra_tui.present.tones import tone_of
from astra_tui.present.words import phrase_of, words_of

MAX_SHOWN_CAUSES = 5


def print_tasks(tasks: Sequence[KernelTask]) -> None:
    """The kernel tasks in a table."""
    rows = table("task", "types", "workloads", "what it does")
    for task in tasks:
        types = " ".join(d.short for d in task.dtypes)
        rows.add_row(task.name, types, str(len(task.workloads)), visible(task.summary))
    print_table(console(), rows)


def print_cases(task: str, cases: Sequence[Case]) -> None:
    """The cases of a task, with the reason for each."""
    out = console()
    out.print(f"{task}: {pluralised(len(cases), 'case')}")
    rows = table("case", "sizes", "why")
    for case in cases:
        sizes = dimensions(case.dims)
        why = case.why
        if case.outside_contract:
            why += f" (outside the contract: {case.outside_contract}; has to be refused)"
        rows.add_row(case.id, sizes, visible(why))
    print_table(out, rows)


# -- check reports ---------------------------------------------------------------------------------


def print_report_table(reports: Sequence[CheckReport]) -> None:
    """One line for each source."""
    out = console()
    for device in dict.fromkeys(f"on {r.device}, {r.compiler}" for r in reports):
        out.print(device)
    rows = table("task", "source", "verdict", "cases", "error/bound", "time")
    for report in reports:
        worst = _worst_output(report)
        rows.add_row(
            report.task,
            visible(report.source.rpartition("/")[2]),
            toned(*phrase_of(report.verdict)),
            str(len(report.cases)),
            f"{worst[1].error:.2f}" if worst else "",
            seconds(report.seconds),
        )
    print_table(out, rows)
    for report in reports:
        for words in sanitizer_words(report.sanitizer):
            indented(out, f"{report.task} {report.source.rpartition('/')[2]}: {words}", 0)


def print_report(
    report: CheckReport, *, shown: str, again: str = "", verbose: bool = False
) -> None:
    """A check's outcome: the verdict, what it rests on, and each failure with its place.

    `shown` is how the source is named here; `again` the command that checks it.
    """
    out = console()
    verdict = toned(words_of(report.verdict).upper(), tone_of(report.verdict))
    title = f" {report.task} {visible(shown)}"
    out.print(Text.assemble(verdict, title))
    how = f"on {report.device}, {report.compiler}, {seconds(report.seconds)}"
    if report.verdict is CheckVerdict.COMPILE_ERROR:
        out.print(f"  {how}")
    else:
        indented(out, f"{report.message}; {how}", 2)
        if again and report.seed:
            indented(out, f"some cases are drawn by a seed; the same check again: {again}", 2)
    for diagnostic in report.diagnostics[: 3 if report.verdict is CheckVerdict.PASSED else None]:
        _print_diagnostic(out, diagnostic)
    if verbose:
        _print_all_cases(out, report)
    causes = by_cause(report.failed_cases)
    for alike in causes[:MAX_SHOWN_CAUSES]:
        _print_failure(out, report, alike, again)
    if len(causes) > MAX_SHOWN_CAUSES:
        left = pluralised(len(causes) - MAX_SHOWN_CAUSES, "more kind")
        out.print(f"  and {left} of failure; --verbose shows every case, --json everything")
    for at_size in by_cause(r for r in report.full_size if not r.outcome.ok):
        _print_at_full_size(out, report, at_size)
    print_sanitizer(out, report.sanitizer, lambda line: source_line(report.source, line))
    _print_remarks(out, report)
    _print_open_conditions(out, report)
    if report.verdict is CheckVerdict.PASSED:
        _print_evidence(out, report)


def _print_remarks(out: Console, report: CheckReport) -> None:
    """Properties that do not hold bit for bit, warnings, and what an engineer accepts."""
    for prop in report.properties:
        if not prop.ok or not prop.bitwise:
            indented(out, f"{prop.name} ({prop.dtype.value}): {prop.message or 'not the same'}", 2)
    warnings = {f.describe(): f for r in report.cases for f in r.findings if f.is_warning}
    for text in list(warnings)[:MAX_SHOWN_CAUSES]:
        indented(out, f"warning: {text}", 2)
    for ruling in report.accepted:
        indented(out, f"accepted in task.toml: {ruling.describe()}", 2)


def _print_open_conditions(out: Console, report: CheckReport) -> None:
    """Sides of conditions that nothing took, and what to do about them."""
    if report.verdict is not CheckVerdict.INCONCLUSIVE or not report.open_conditions:
        return
    for condition in report.open_conditions[:MAX_SHOWN_CAUSES]:
        indented(out, f"{condition.describe()} ({condition.why})", 2)
        _print_source_line(out, report, condition.line)
    left = len(report.open_conditions) - MAX_SHOWN_CAUSES
    if left > 0:
        out.print(f"  and {left} more; --json shows every one")
    indented(out, f"next: {OPEN_CONDITION_HINT}", 2)


def _print_evidence(out: Console, report: CheckReport) -> None:
    """What a passed check rests on."""
    worst = _worst_output(report)
    if worst:
        result, output = worst
        where = f"{output.argument} in {result.case.id}"
        indented(out, f"worst error: {output.error:.2f} of the bound ({where})", 2)
    if report.full_size:
        names = ", ".join(r.workload for r in report.full_size)
        run = sum(r.blocks_run for r in report.full_size)
        blocks = sum(r.blocks for r in report.full_size)
        text = f"at their own sizes: {names} ({run:,} of {blocks:,} blocks in full"
        if all(r.covered for r in report.full_size):
            text += "; every output byte is stored"
        indented(out, f"{text})", 2)
        for reduced in (r for r in report.full_size if r.reduced):
            indented(out, f"{reduced.workload}: {reduced.reduced}", 2)
    if report.properties and all(p.bitwise for p in report.properties):
        names = ", ".join(dict.fromkeys(p.name for p in report.properties))
        indented(out, f"bit for bit the same: {names}", 2)
    if report.fakes:
        caught = ", ".join(f"{f.name} ({f.rejected}/{f.cases})" for f in report.fakes)
        indented(out, f"fakes that the cases reject: {caught}", 2)
    for what in report.not_emulated:
        out.print(visible(f"not emulated: {what}"))
    if report.condition_sides:
        indented(out, _conditions_in_words(report), 2)
    if report.untried_lines:
        lines = " and ".join(str(line) for line in report.untried_lines)
        text = f"no case takes the launch at line {lines}: what it does is unchecked"
        indented(out, f"{text} (list sizes in task.toml that take it)", 2)
    if report.counters is not None:
        c = report.counters
        text = (
            f"all cases together: {c.sectors:,} sectors, {c.requests:,} requests, "
            f"{c.warp_instructions:,} warp instructions"
        )
        indented(out, text, 2)


def _conditions_in_words(report: CheckReport) -> str:
    """How many sides of conditions were taken, and what is known of the others."""
    text = f"sides of conditions taken: {report.condition_sides}"
    for status, words in (
        (ConditionStatus.REACHED, "of these by cases made for them"),
        (ConditionStatus.UNREACHABLE, "proved unreachable"),
        (ConditionStatus.ACCEPTED, "accepted in task.toml"),
    ):
        count = sum(c.status is status for c in report.conditions)
        text += f"; {words}: {count}" if count else ""
    return text


def _print_all_cases(out: Console, report: CheckReport) -> None:
    rows = table("case", "outcome", "error", "ulp", "why")
    for result in report.cases:
        worst = result.worst
        rows.add_row(
            result.case.id,
            words_of(result.outcome),
            f"{worst.error:.3f}" if worst else "",
            f"{worst.max_ulp:.0f}" if worst else "",
            visible(result.case.why),
        )
    print_table(out, rows)


def _print_failure(
    out: Console, report: CheckReport, alike: Sequence[CaseResult], again: str
) -> None:
    """The first of several cases that failed alike."""
    result = alike[0]
    case = result.case
    sizes = dimensions(case.dims)
    more = f" and {pluralised(len(alike) - 1, 'more case')}" if len(alike) > 1 else ""
    out.print(
        Text.assemble("  ", toned(*phrase_of(result.outcome)), f"  {case.id}  ({sizes}){more}")
    )
    indented(out, f"why: {case.why}", 4)
    wrong = [o for o in result.outputs if not o.ok]
    for output in wrong:
        indented(out, output_words(output), 4)
    faults = [f for f in result.findings if not f.is_warning]
    for finding in faults:
        _print_finding(out, report, finding)
    if not faults and not wrong:
        indented(out, result.message, 4)
    if again and not case.is_of_plan:
        out.print(f"    alone: {visible(again)} --case {shlex.quote(case.id)}")


def _print_at_full_size(out: Console, report: CheckReport, alike: Sequence[FullSizeResult]) -> None:
    """The first of several workloads that are wrong alike, or alike not established."""
    result = alike[0]
    more = f" and {pluralised(len(alike) - 1, 'more workload')}" if len(alike) > 1 else ""
    title = f"  workload {visible(result.workload)} at its own size{more}"
    out.print(Text.assemble("  ", toned(*phrase_of(result.outcome)), title))
    wrong = [o for o in result.outputs if not o.ok]
    faults = [f for f in result.findings if not f.is_warning]
    if not wrong and not faults:
        indented(out, result.message, 4)
    for output in wrong:
        indented(out, output_words(output), 4)
    for finding in faults:
        _print_finding(out, report, finding)
    if result.blocks_run:
        indented(out, result.extent, 4)


def _print_finding(out: Console, report: CheckReport, finding: Finding) -> None:
    indented(out, finding.describe(), 4)
    _print_source_line(out, report, finding.line)


def _print_source_line(out: Console, report: CheckReport, number: int) -> None:
    line = source_line(report.source, number) if number else ""
    if line:
        out.print(f"      {number:4} | {visible(line)}")


def source_line(file: str, line: int) -> str:
    """One line of a file, or "" when it cannot be read."""
    try:
        with open(file, encoding="utf-8") as text:  # noqa: PTH123
            for number, content in enumerate(text, 1):
                if number == line:
                    return content.rstrip("\n")
    except (OSError, UnicodeDecodeError):
        pass
    return ""


def _print_diagnostic(out: Console, diagnostic: Diagnostic) -> None:
    place = f"line {diagnostic.line}: " if diagnostic.line else ""
    indented(out, f"{place}{diagnostic.severity.value}: {diagnostic.message}", 2)
    if diagnostic.source_line:
        out.print(f"    {visible(diagnostic.source_line)}")
        if diagnostic.column:
            out.print("    " + " " * (diagnostic.column - 1) + "^")


def _worst_output(report: CheckReport) -> tuple[CaseResult, OutputError] | None:
    found = [
        (result, result.worst)
        for result in report.cases
        if result.worst is not None and result.outcome is CaseOutcome.PASSED
    ]
    if not found:
        return None
    result, output = max(found, key=lambda pair: pair[1].error if pair[1] else 0.0)
    assert output is not None
    return result, output


def print_compile_errors(file: str, compilation: Compilation) -> None:
    """What the compiler says of a source that does not compile."""
    out = console()
    out.print(Text.assemble(("COMPILE ERROR ", "bold red"), visible(file)))
    for diagnostic in compilation.diagnostics:
        _print_diagnostic(out, diagnostic)
