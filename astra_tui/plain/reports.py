"""Kernel tasks, cases and check reports in words and tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from astra_tui.model.check import Case, CaseOutcome, CaseResult, CheckReport, OutputError, Verdict
from astra_tui.model.compilation import Compilation, Diagnostic
from astra_tui.model.findings import Finding
from astra_tui.model.task import KernelTask
from astra_tui.plain.output import console, print_table, table, visible

MAX_SHOWN_CASES = 5

_SHORT_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}

_STYLES = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "bold red",
    Verdict.COMPILE_ERROR: "bold red",
    Verdict.PLAN_ERROR: "bold red",
    Verdict.UNSUPPORTED: "yellow",
}


def print_tasks(tasks: Sequence[KernelTask]) -> None:
    """The kernel tasks in a table."""
    rows = table("task", "types", "workloads", "what it does")
    for task in tasks:
        types = " ".join(_SHORT_TYPES[d.value] for d in task.dtypes)
        rows.add_row(task.name, types, str(len(task.workloads)), visible(task.summary))
    print_table(console(), rows)


def print_cases(cases: Sequence[Case]) -> None:
    """The cases of a suite, with the reason for each."""
    rows = table("case", "sizes", "why")
    for case in cases:
        sizes = ", ".join(f"{k}={v}" for k, v in case.dims.items())
        why = case.why
        if case.outside_contract:
            why += f" (outside the contract: {case.outside_contract}; has to be refused)"
        rows.add_row(case.id, sizes, visible(why))
    print_table(console(), rows)


# -- check reports ---------------------------------------------------------------------------------


def print_report_table(reports: Sequence[CheckReport]) -> None:
    """One line for each source, then the failures in full."""
    out = console()
    for device in dict.fromkeys(f"on {r.device}, {r.compiler}" for r in reports):
        out.print(device)
    rows = table("task", "source", "verdict", "cases", "error/bound", "time")
    for report in reports:
        worst = _worst_output(report)
        rows.add_row(
            report.task,
            visible(report.source.rpartition("/")[2]),
            Text(report.verdict.value, style=_STYLES[report.verdict]),
            str(len(report.cases)),
            f"{worst[1].error:.2f}" if worst else "",
            f"{report.seconds:.1f} s",
        )
    print_table(out, rows)
    for report in reports:
        if report.verdict is not Verdict.PASSED:
            print_report(report)


def print_report(report: CheckReport, verbose: bool = False) -> None:
    """A check's outcome: the verdict, what it rests on, and each failure with its place."""
    out = console()
    out.print(
        Text.assemble(
            (f"{report.verdict.value.upper()} ", _STYLES[report.verdict]),
            f"{report.task}  {visible(report.source)}  on {report.device}, {report.compiler}",
        )
    )
    out.print(f"  {visible(report.message)}  ({report.seconds:.1f} s)")
    for diagnostic in report.diagnostics[: 3 if report.verdict is Verdict.PASSED else None]:
        _print_diagnostic(out, diagnostic)
    if verbose:
        _print_all_cases(out, report)
    failed = report.failed_cases
    for result in failed[:MAX_SHOWN_CASES]:
        _print_failure(out, report, result)
    if len(failed) > MAX_SHOWN_CASES:
        left = len(failed) - MAX_SHOWN_CASES
        out.print(f"  and {left} more; --verbose shows every case, --json everything")
    _print_evidence(out, report)


def _print_evidence(out: Console, report: CheckReport) -> None:
    worst = _worst_output(report)
    if worst:
        result, output = worst
        out.print(
            f"  worst error: {output.error:.2f} of the bound "
            f"({output.argument} in {result.case.id})"
        )
    for prop in report.properties:
        if not prop.ok or not prop.bitwise:
            text = prop.message or "not the same"
            out.print(f"  {prop.name} ({prop.dtype.value}): {visible(text)}")
    if report.properties and all(p.bitwise for p in report.properties):
        names = ", ".join(dict.fromkeys(p.name for p in report.properties))
        out.print(f"  bit for bit the same: {names}")
    if report.fakes:
        caught = [f"{f.name} ({f.rejected}/{f.cases})" for f in report.fakes]
        out.print(f"  fakes that the cases reject: {', '.join(caught)}")
    warnings = {f.describe(): f for r in report.cases for f in r.findings if f.is_warning}
    for finding in list(warnings.values())[:MAX_SHOWN_CASES]:
        out.print(f"  warning: {visible(finding.describe())}")
    if report.counters is not None:
        c = report.counters
        out.print(
            f"  all cases together: {c.sectors:,} sectors, {c.requests:,} requests, "
            f"{c.warp_instructions:,} warp instructions"
        )


def _print_all_cases(out: Console, report: CheckReport) -> None:
    rows = table("case", "outcome", "error", "ulp", "kernels", "why")
    for result in report.cases:
        worst = result.worst
        rows.add_row(
            result.case.id,
            result.outcome.value,
            f"{worst.error:.3f}" if worst else "",
            f"{worst.max_ulp:.0f}" if worst else "",
            visible(", ".join(result.kernels)),
            visible(result.case.why),
        )
    print_table(out, rows)


def _print_failure(out: Console, report: CheckReport, result: CaseResult) -> None:
    case = result.case
    sizes = ", ".join(f"{k}={v}" for k, v in case.dims.items())
    out.print(Text.assemble("  ", (result.outcome.value, "red"), f"  {case.id}  ({sizes})"))
    out.print(f"    {visible(case.why)}")
    for output in result.outputs:
        if not output.ok:
            out.print(f"    {visible(_output_words(output))}")
    faults = [f for f in result.findings if not f.is_warning]
    for finding in faults:
        _print_finding(out, report, finding)
    if not faults and not any(not o.ok for o in result.outputs):
        out.print(f"    {visible(result.message)}")
    out.print(
        f"    alone: astra-tui check {report.task} {visible(report.source)} --case '{case.id}'"
    )


def _output_words(output: OutputError) -> str:
    place = f"{output.argument}[{', '.join(map(str, output.at))}]"
    return (
        f"{place} is {output.got:g}, should be {output.expected:g}: {output.problem} "
        f"(error {output.error:.3g}, allowed {output.allowed:.3g})"
    )


def _print_finding(out: Console, report: CheckReport, finding: Finding) -> None:
    out.print(f"    {visible(finding.describe())}")
    if finding.line:
        line = source_line(report.source, finding.line)
        if line:
            out.print(f"      {finding.line:4} | {visible(line)}")


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
    out.print(f"  {place}{diagnostic.severity.value}: {visible(diagnostic.message)}")
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
    out.print(Text.assemble(("COMPILE_ERROR ", "bold red"), f"{visible(file)}"))
    for diagnostic in compilation.diagnostics:
        _print_diagnostic(out, diagnostic)
