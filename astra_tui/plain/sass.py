"""Machine code next to its source: histogram, listing, and both as a diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from astra_tui.model.sass import (
    Disassembly,
    HistogramChange,
    Instruction,
    KernelDiff,
    ListingStep,
    SassDiff,
    SassKernel,
)
from astra_tui.plain.console import console, indented, print_table, table
from astra_tui.plain.output import visible

_CONTEXT = 3
"""Equal instructions that are shown around a difference."""
_CODE_WIDTH = 60
_MARK_STYLES = {"+": "green", "-": "red", " ": ""}


@dataclass(frozen=True)
class SassSource:
    """One version of a source: its text and its machine code."""

    file: str
    text: str
    compiler: str
    disassembly: Disassembly

    @property
    def lines(self) -> list[str]:
        """The text by line; line 1 is at 0."""
        return self.text.splitlines()

    def kernel(self, name: str) -> SassKernel:
        """A kernel by the name that a diff gives."""
        return next(k for k in self.disassembly.kernels if k.name == name)


def print_sass(
    title: str, sources: Sequence[SassSource], diff: SassDiff | None, histogram_only: bool
) -> None:
    """Each kernel's histogram, then its listing unless only histograms are wanted.

    With a diff, `sources` are the newer version and the one before it.
    """
    out = console()
    made = sources[0].disassembly
    indented(out, f"{title}, {made.arch}, {sources[0].compiler}, {made.tool}", 0)
    if diff is None:
        for kernel in made.kernels:
            _print_kernel(out, sources[0], kernel, histogram_only)
    else:
        _print_diff(out, sources[0], sources[1], diff, histogram_only)


# -- one version -----------------------------------------------------------------------------------


def _print_kernel(
    out: Console, source: SassSource, kernel: SassKernel, histogram_only: bool
) -> None:
    out.print()
    _heading(out, f"{_short(source.file)}: {kernel.name}")
    in_loops = sum(row.in_loops for row in kernel.histogram)
    indented(out, f"{len(kernel.instructions)} instructions, {in_loops} of them in loops", 0)
    rows = table("name", "count", "in loops", "class")
    for column in rows.columns[1:3]:
        column.justify = "right"
    for row in kernel.histogram:
        rows.add_row(row.name, str(row.count), _count(row.in_loops), row.category.value)
    print_table(out, rows)
    _remark_unknown(out, kernel)
    if histogram_only:
        return
    out.print()
    _legend(out)
    starts = {s.address: s.symbol for s in kernel.subroutines}
    place = (0, "")
    for instruction in kernel.instructions:
        if instruction.address in starts:
            _print_line(out, f"{starts[instruction.address]}:", "")
        line = _source_line(source.lines, instruction, place)
        _print_line(out, f"{_code(instruction):<{_CODE_WIDTH}}  {line}", "")
        place = instruction.line, instruction.header


def _remark_unknown(out: Console, *kernels: SassKernel) -> None:
    names = sorted({name for kernel in kernels for name in kernel.unknown})
    if names:
        indented(out, f"not in the table of classes: {', '.join(names)}", 0)


def _legend(out: Console) -> None:
    head = f"{'addr':>5} loop  instruction"
    out.print(Text(f"{head:<{_CODE_WIDTH}}   line", style="bold"))


def _code(instruction: Instruction) -> str:
    depth = "|" * instruction.loop_depth
    return f"{instruction.address:5x} {depth:<4}  {instruction.text}"


def _source_line(lines: Sequence[str], instruction: Instruction, before: tuple[int, str]) -> str:
    """The source line of an instruction, where it is not that of the instruction before."""
    number, header = instruction.line, instruction.header
    if (number, header) == before:
        return ""
    text = f"{number:5}  {lines[number - 1].strip()}" if 0 < number <= len(lines) else ""
    return f"{text:5}  {header}" if header else text


# -- two versions ----------------------------------------------------------------------------------


def _print_diff(
    out: Console, after: SassSource, before: SassSource, diff: SassDiff, histogram_only: bool
) -> None:
    for each in diff.kernels:
        new, old = after.kernel(each.after), before.kernel(each.before)
        out.print()
        _heading(out, f"{each.before}  ->  {each.after}")
        _print_changes(out, old, new, each)
        _remark_unknown(out, old, new)
        if not histogram_only:
            out.print()
            _print_steps(out, (before, old), (after, new), each)
    for mark, source, names in (("-", before, diff.only_before), ("+", after, diff.only_after)):
        for name in names:
            indented(out, f"{mark} {name}: only in {_short(source.file)}", 0)


def _print_changes(out: Console, old: SassKernel, new: SassKernel, diff: KernelDiff) -> None:
    counts = f"{len(old.instructions)} -> {len(new.instructions)} instructions"
    changed = [change for change in diff.histogram if change.changed]
    if not changed:
        indented(out, f"{counts}; the histograms are the same", 0)
        return
    indented(out, f"{counts}; rows that are the same are left out", 0)
    rows = table("name", "before", "after", "change", "in loops", "class")
    for column in rows.columns[1:5]:
        column.justify = "right"
    for change in changed:
        rows.add_row(*_change_cells(change))
    print_table(out, rows)


def _change_cells(change: HistogramChange) -> tuple[str, ...]:
    in_loops = ""
    if change.before_in_loops or change.after_in_loops:
        in_loops = f"{change.before_in_loops} -> {change.after_in_loops}"
    difference = change.after - change.before
    return (
        change.name,
        _count(change.before),
        _count(change.after),
        f"{difference:+}" if difference else "",
        in_loops,
        change.category.value,
    )


_Side = tuple[SassSource, SassKernel]


def _print_steps(out: Console, before: _Side, after: _Side, diff: KernelDiff) -> None:
    if diff.same:
        indented(out, "the instructions are the same, but for the numbers of registers", 0)
        return
    indented(out, f"- {before[0].file}, + {after[0].file}; numbers of registers may differ", 0)
    _legend(out)
    for steps, skipped in _hunks(diff.listing):
        if skipped:
            _print_line(out, f"... {skipped} the same", "dim")
        shown = ("", (0, ""))
        for step in steps:
            mark, (source, instruction) = _side(step, before, after)
            last = shown[1] if shown[0] == source.file else (0, "")
            line = _source_line(source.lines, instruction, last)
            text = f"{mark} {_code(instruction):<{_CODE_WIDTH - 2}}  {line}"
            _print_line(out, text, _MARK_STYLES[mark])
            shown = (source.file, (instruction.line, instruction.header))


def _side(
    step: ListingStep, before: _Side, after: _Side
) -> tuple[str, tuple[SassSource, Instruction]]:
    """The mark of a step, and the instruction that stands for it with its source."""
    if step.after is not None:
        mark = " " if step.before is not None else "+"
        return mark, (after[0], after[1].instructions[step.after])
    assert step.before is not None
    return "-", (before[0], before[1].instructions[step.before])


def _hunks(steps: Sequence[ListingStep]) -> Iterator[tuple[Sequence[ListingStep], int]]:
    """Runs of steps near a difference, each with the number of equal ones left out before it."""
    changed = [i for i, s in enumerate(steps) if s.before is None or s.after is None]
    start = end = 0
    skipped = 0
    for i in changed:
        if i - _CONTEXT > end:
            if end > start:
                yield steps[start:end], skipped
            start = i - _CONTEXT
            skipped = start - end
        end = min(i + _CONTEXT + 1, len(steps))
    if end > start:
        yield steps[start:end], skipped
    if end < len(steps):
        yield (), len(steps) - end


# -- both ------------------------------------------------------------------------------------------


def _heading(out: Console, text: str) -> None:
    out.print(Text(visible(text), style="bold"))


def _print_line(out: Console, text: str, style: str) -> None:
    """One line, cut at the edge of a terminal so that the columns stay in line."""
    width = out.width if out.file.isatty() else None
    out.print(Text(visible(text).expandtabs(8).rstrip()[:width], style=style))


def _short(file: str) -> str:
    return visible(file).rpartition("/")[2]


def _count(count: int) -> str:
    return str(count) if count else ""
