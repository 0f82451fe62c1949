"""Checks: the verdict on a source, what it rests on, and every failure with its place."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence

from astra_tui.model.check import (
    OPEN_CONDITION_HINT,
    CaseResult,
    CheckReport,
    CheckVerdict,
    ConditionResult,
    ConditionStatus,
    FullSizeResult,
    OutputError,
    by_cause,
)
from astra_tui.model.compilation import Compilation, Diagnostic
from astra_tui.model.findings import SanitizerReport, sanitizer_words
from astra_tui.model.values import Values
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, decimal, dimensions, pluralised, seconds, significant
from astra_tui.present.tones import Phrase, Tone, phrase_of, tone_of, words_of

MOST_SHOWN = 5
"""Causes of failure, warnings, open conditions, and findings of one tool."""

_Text = Sequence[str]
"""The lines of the source that was checked; empty where it cannot be read."""


def output_words(output: OutputError) -> str:
    """As in "out[3, 7] is 2, should be 1: not close (error 1e+03, allowed 1)"."""
    place = f"{output.argument}[{', '.join(map(str, output.at))}]"
    words = f"{place} is {output.got:g}, should be {output.expected:g}: {output.problem}"
    if math.isinf(output.error):  # There is no bound on what may not differ at all.
        return words
    return f"{words} (error {significant(output.error)}, allowed {significant(output.allowed)})"


# -- one source ------------------------------------------------------------------------------------


def check_blocks(
    report: CheckReport, *, shown: str, text: str = "", again: str = "", verbose: bool = False
) -> list[doc.Block]:
    """The verdict, what it rests on, and each failure with its place.

    `shown` names the source that has this text; the command `again` checks it.
    """
    parts = reasons_blocks(report, text.split("\n"), again, verbose=verbose)
    verdict = Phrase(words_of(report.verdict).upper(), tone_of(report.verdict))
    return [doc.Entry((verdict, f" {report.task} {shown}"), parts)]


def reasons_blocks(
    report: CheckReport, lines: _Text = (), again: str = "", *, verbose: bool = False
) -> list[doc.Block]:
    """What a verdict rests on, and each failure with its place."""
    passed = report.verdict is CheckVerdict.PASSED
    compiled = report.verdict is not CheckVerdict.COMPILE_ERROR
    message = f"{report.message}; " if compiled else ""
    on = ", ".join(filter(None, (report.device, report.compiler, seconds(report.seconds))))
    drawn = f"some cases are drawn by a seed; the same check again: {again}"
    parts = doc.paragraphs(f"{message}on {on}", drawn if compiled and again and report.seed else "")
    parts += diagnostics_blocks(report.diagnostics[: 3 if passed else None])
    if verbose:
        parts.append(_all_cases(report.cases))
    parts += failures_blocks(report.failed_cases, lines, again)
    wrong = by_cause(r for r in report.full_size if not r.outcome.ok)
    parts += [_at_full_size(alike, lines) for alike in wrong]
    parts += sanitizer_blocks(report.sanitizer, lines)
    parts += doc.paragraphs(*_remarks(report))
    if report.verdict is CheckVerdict.INCONCLUSIVE:
        parts += open_conditions_blocks(report.open_conditions, lines)
    return parts + doc.paragraphs(*_evidence(report)) if passed else parts


def diagnostics_blocks(diagnostics: Iterable[Diagnostic]) -> list[doc.Block]:
    """What a compiler says, each with its line of the source."""
    blocks: list[doc.Block] = []
    for said in diagnostics:
        place = f"line {said.line}: " if said.line else ""
        pointer = [" " * (said.column - 1) + "^"] if said.column else []
        shown = doc.listing(said.source_line, *pointer) if said.source_line else []
        blocks.append(doc.Entry((f"{place}{said.severity.value}: {said.message}",), shown))
    return blocks


def compile_error_blocks(file: str, compilation: Compilation) -> list[doc.Block]:
    """What the compiler says of a source that does not compile."""
    said = diagnostics_blocks(compilation.diagnostics)
    return [doc.Entry((Phrase("COMPILE ERROR", Tone.BAD), f" {file}"), said)]


def at_line(text: str, lines: _Text, at: int) -> doc.Entry:
    """A text with the line of the source that it is about, where there is one."""
    known = 0 < at <= len(lines) and lines[at - 1]
    return doc.Entry((text,), doc.listing(f"{at:4} | {lines[at - 1]}") if known else [])


def failures_blocks(
    failed: Iterable[CaseResult], lines: _Text = (), again: str = ""
) -> list[doc.Block]:
    """Each kind of failure by its smallest case; `again` is the command that checks the source."""
    causes, left = doc.first(by_cause(failed), MOST_SHOWN)
    shown: list[doc.Block] = []
    for alike in causes:
        result, case = alike[0], alike[0].case
        more = f" and {pluralised(len(alike) - 1, 'more case')}" if len(alike) > 1 else ""
        inputs = (f"inputs: {name}: {_drawn(values)}" for name, values in case.values.items())
        parts = [*doc.paragraphs(f"why: {case.why}", *inputs), *_what_is_wrong(result, lines)]
        if again and not case.is_of_plan:
            parts += doc.listing(f"alone: {again} --case {shlex.quote(case.id)}")
        sizes = f"  {case.id}  ({dimensions(case.dims)}){more}"
        shown.append(doc.Entry((phrase_of(result.outcome), sizes), parts))
    remark = f"{left}; check --verbose shows every case"
    return [*shown, *doc.paragraphs(remark if left else "")]


def _drawn(values: Values) -> str:
    """How an input is drawn, as the form of a case takes it: `uniform -1 1 nan`."""
    low, high = values.low_text or f"{values.low:.6g}", values.high_text or f"{values.high:.6g}"
    return " ".join((values.kind.value, low, high, *values.planted))


def _at_full_size(alike: Sequence[FullSizeResult], lines: _Text) -> doc.Block:
    """The first of several workloads that are wrong alike, or alike not established."""
    result = alike[0]
    more = f" and {pluralised(len(alike) - 1, 'more workload')}" if len(alike) > 1 else ""
    ran = doc.paragraphs(result.extent) if result.blocks else []
    title = f"  workload {result.workload} at its own size{more}"
    return doc.Entry((phrase_of(result.outcome), title), (*_what_is_wrong(result, lines), *ran))


def _what_is_wrong(result: CaseResult | FullSizeResult, lines: _Text) -> list[doc.Block]:
    wrong = [output_words(o) for o in result.outputs if not o.ok]
    found = (f for f in result.findings if not f.is_warning)
    faults = [at_line(f.describe(), lines, f.line) for f in found]
    return [*doc.paragraphs(*wrong), *faults] or doc.paragraphs(result.message)


def _remarks(report: CheckReport) -> Iterator[str]:
    """Properties that do not hold bit for bit, warnings, and what an engineer accepts."""
    for prop in report.properties:
        if not prop.ok or not prop.bitwise:
            yield f"{prop.name} ({prop.dtype.value}): {prop.message or 'not the same'}"
    warnings = dict.fromkeys(f.describe() for r in report.cases for f in r.findings if f.is_warning)
    yield from (f"warning: {text}" for text in list(warnings)[:MOST_SHOWN])
    yield from (f"accepted in task.toml: {ruling.describe()}" for ruling in report.accepted)


def open_conditions_blocks(
    conditions: Sequence[ConditionResult], lines: _Text = ()
) -> list[doc.Block]:
    """Sides of conditions that nothing took, and what to do about them."""
    if not conditions:
        return []
    shown, more = doc.first(conditions, MOST_SHOWN)
    told = (at_line(f"{c.describe()} ({c.why})", lines, c.line) for c in shown)
    every = f"{more}; --json shows every one" if more else ""
    return [*told, *doc.paragraphs(every, f"next: {OPEN_CONDITION_HINT}")]


# -- what a passed check rests on ------------------------------------------------------------------


def _evidence(report: CheckReport) -> Iterator[str]:
    if worst := report.worst:
        result, output = worst
        where = f"{output.argument} in {result.case.id}"
        yield f"worst error: {decimal(output.error, 2)} of the bound ({where})"
    yield from (f"{r.workload} at its own size: {r.extent}" for r in report.full_size)
    if report.properties and all(p.bitwise for p in report.properties):
        names = ", ".join(dict.fromkeys(p.name for p in report.properties))
        yield f"bit for bit the same: {names}"
    if report.fakes:
        caught = ", ".join(f"{f.name} ({f.rejected}/{f.cases})" for f in report.fakes)
        yield f"fakes that the cases reject: {caught}"
    yield from (f"not emulated: {what}" for what in report.not_emulated)
    if report.condition_sides:
        yield _conditions_words(report)
    if report.untried_lines:
        at = " and ".join(map(str, report.untried_lines))
        remedy = "list sizes in task.toml that take it, or bound them by its contract"
        yield f"no case takes the launch at line {at}: what it does is unchecked ({remedy})"
    if (c := report.counters) is not None:
        memory = f"{count(c.sectors)} sectors, {count(c.requests)} requests"
        yield f"all cases together: {memory}, {count(c.warp_instructions)} warp instructions"


def _conditions_words(report: CheckReport) -> str:
    """How many sides of conditions were taken, and what is known of the others."""
    text = f"sides of conditions taken: {report.condition_sides}"
    for status, words in (
        (ConditionStatus.REACHED, "of these by cases made for them"),
        (ConditionStatus.UNREACHABLE, "proved unreachable"),
        (ConditionStatus.ACCEPTED, "accepted in task.toml"),
    ):
        found = sum(c.status is status for c in report.conditions)
        text += f"; {words}: {found}" if found else ""
    return text


# -- compute-sanitizer -----------------------------------------------------------------------------


def sanitizer_blocks(reports: Sequence[SanitizerReport], lines: _Text = ()) -> list[doc.Block]:
    """A line for each outcome with the tools that had it, then every finding with its source."""
    remedies = dict.fromkeys(r.remedy for r in reports if r.remedy)
    found = [block for report in reports for block in _tool_findings(report, lines)]
    outcomes: list[doc.Line] = [
        (Phrase(words, tone_of(verdict)),)
        for verdict in dict.fromkeys(r.verdict for r in reports)
        for words in sanitizer_words(r for r in reports if r.verdict is verdict)
    ]
    inner = [*doc.paragraphs(*remedies), *found]
    last = len(outcomes) - 1
    return [doc.Entry(line, inner if at == last else []) for at, line in enumerate(outcomes)]


def _tool_findings(report: SanitizerReport, lines: _Text) -> Iterator[doc.Block]:
    tool = report.tool.value
    told = [(f.describe(), f.line) for f in report.findings] + [(t, 0) for t in report.unread]
    shown, more = doc.first(told, MOST_SHOWN)
    yield from (at_line(f"{tool}: {text}", lines, line) for text, line in shown)
    yield from doc.paragraphs(f"{tool}: {more}" if more else "")
    for warning in report.warnings[:MOST_SHOWN]:
        yield from doc.paragraphs(f"{tool} warns: {warning.describe()}")


# -- several sources -------------------------------------------------------------------------------


def reports_blocks(reports: Sequence[CheckReport]) -> list[doc.Block]:
    """One row for each source."""
    devices = dict.fromkeys(f"on {r.device}, {r.compiler}" for r in reports)
    named = [(r.task, doc.Code(r.source.rpartition("/")[2]), r, len(r.cases)) for r in reports]
    found = (
        f"{task} {source.text}: {words}"
        for task, source, r, _ in named
        for words in sanitizer_words(r.sanitizer)
    )
    return [*doc.paragraphs(*devices), checks_table("task", named), *doc.paragraphs(*found)]


def checks_table(
    first: str, checks: Iterable[tuple[str, doc.Code, CheckReport, int]], caption: str = ""
) -> doc.Table:
    """A row for each check: what it is of, its source, and how many cases it was to have."""
    rows: list[doc.Record] = []
    for name, source, r, cases in checks:
        case, error = r.worst or (None, None)
        bitwise, caught = [p.bitwise and p.ok for p in r.properties], [f.caught for f in r.fakes]
        row: dict[str, doc.Cell] = {
            first: name,
            "source": source,
            "verdict": phrase_of(r.verdict),
            "cases passed": f"{count(sum(c.outcome.ok for c in r.cases))} of {count(cases)}",
            "worst error": doc.number(error.error, decimal, 3) if error else None,
            "bound": doc.number(error.allowed, decimal, 2) if error else None,
            "time": doc.number(r.seconds, seconds),
            "bit for bit": f"{sum(bitwise)} of {len(bitwise)} properties" if bitwise else None,
            "fakes caught": f"{sum(caught)} of {len(caught)}" if caught else None,
            "worst in case": case.case.id if case else None,
        }
        rows.append(row)
    optional = ("bit for bit", "fakes caught", "worst in case")
    return doc.records(rows, caption, optional=optional).without_empty_columns()


def _all_cases(results: Sequence[CaseResult]) -> doc.Table:
    rows: list[doc.Record] = []
    for r in results:
        row: dict[str, doc.Cell] = {"case": r.case.id, "outcome": phrase_of(r.outcome)}
        error = doc.number(r.worst.error, decimal, 3) if r.worst else None
        ulp = doc.number(r.worst.max_ulp, decimal, 0) if r.worst else None
        rows.append({**row, "error": error, "ulp": ulp, "why": r.case.why})
    return doc.records(rows)
