"""Machine code next to its source: histogram, listing, and both as a diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from astra_tui.model.sass import (
    Disassembled,
    HistogramChange,
    Instruction,
    KernelDiff,
    ListingStep,
    SassDiff,
    SassKernel,
)
from astra_tui.present import document as doc
from astra_tui.present.tones import Phrase, Tone

_CONTEXT = 3
"""Equal instructions that are shown around a difference."""
_CODE_WIDTH = 60
_TONES = {"+": Tone.GOOD, "-": Tone.BAD, " ": Tone.PLAIN}


def sass_blocks(
    title: str, sources: Sequence[Disassembled], diff: SassDiff | None, histogram_only: bool
) -> list[doc.Block]:
    """Each kernel's histogram, then its listing; with a diff, of the newer of two sources first."""
    made = sources[0].disassembly
    head = doc.paragraphs(f"{title}, {made.arch}, {sources[0].compilation.compiler}, {made.tool}")
    if diff is None:
        return [*head, *(_kernel(sources[0], k, histogram_only) for k in made.kernels)]
    after, before = sources
    kernels = [_changed_kernel(after, before, each, histogram_only) for each in diff.kernels]
    lone = [
        f"{mark} {name}: only in {source.name}"
        for mark, source, names in (("-", before, diff.only_before), ("+", after, diff.only_after))
        for name in names
    ]
    return [*head, *kernels, *doc.paragraphs(*lone)]


def _kernel(source: Disassembled, kernel: SassKernel, histogram_only: bool) -> doc.Section:
    in_loops = sum(row.in_loops for row in kernel.histogram)
    size = f"{len(kernel.instructions)} instructions, {in_loops} of them in loops"
    rows = (
        (row.name, row.count or None, row.in_loops or None, row.category.value)
        for row in kernel.histogram
    )
    histogram = doc.table(("name", "count", "in loops", "class"), rows)
    blocks: list[doc.Block] = [*doc.paragraphs(size), histogram, *doc.paragraphs(_unknown(kernel))]
    if not histogram_only:
        blocks.append(_listing(map(Phrase, _listed(source, kernel))))
    return doc.Section(f"{source.name}: {kernel.name}", blocks)


def _listed(source: Disassembled, kernel: SassKernel) -> Iterator[str]:
    starts = {s.address: s.symbol for s in kernel.subroutines}
    last: Instruction | None = None
    for instruction in kernel.instructions:
        if instruction.address in starts:
            yield f"{starts[instruction.address]}:"
        yield f"{_code(instruction):<{_CODE_WIDTH}}  {source.place(instruction, last)}"
        last = instruction


def _unknown(*kernels: SassKernel) -> str:
    names = sorted({name for kernel in kernels for name in kernel.unknown})
    return f"not in the table of classes: {', '.join(names)}" if names else ""


def _listing(lines: Iterable[Phrase]) -> doc.Listing:
    head = f"{'addr':>5} loop  instruction"
    return doc.Listing(f"{head:<{_CODE_WIDTH}}   line", list(lines))


def _code(instruction: Instruction) -> str:
    depth = "|" * instruction.loop_depth
    return f"{instruction.address:5x} {depth:<4}  {instruction.text}"


def _changed_kernel(
    after: Disassembled, before: Disassembled, diff: KernelDiff, histogram_only: bool
) -> doc.Section:
    new, old = after.kernel(diff.after), before.kernel(diff.before)
    counts = f"{len(old.instructions)} -> {len(new.instructions)} instructions"
    rows = [_change(change) for change in diff.histogram if change.changed]
    blocks = doc.paragraphs(f"{counts}; the histograms are the same")
    if rows:
        columns = ("name", "before", "after", "change", "in loops", "class")
        left_out = f"{counts}; rows that are the same are left out"
        blocks = [*doc.paragraphs(left_out), doc.table(columns, rows)]
    told = f"- {before.file}, + {after.file}; numbers of registers may differ"
    if diff.same:
        told = "the instructions are the same, but for the numbers of registers"
    blocks += doc.paragraphs(_unknown(old, new), "" if histogram_only else told)
    if not histogram_only and not diff.same:
        blocks.append(_listing(_steps((before, old), (after, new), diff)))
    return doc.Section(f"{diff.before}  ->  {diff.after}", blocks)


def _change(change: HistogramChange) -> doc.Row:
    old, new, difference = change.before, change.after, change.after - change.before
    told = doc.Number(difference, f"{difference:+,}") if difference else None
    loops = change.before_in_loops, change.after_in_loops
    in_loops = f"{loops[0]} -> {loops[1]}" if any(loops) else None
    return change.name, old or None, new or None, told, in_loops, change.category.value


_Side = tuple[Disassembled, SassKernel]


def _steps(before: _Side, after: _Side, diff: KernelDiff) -> Iterator[Phrase]:
    """The instructions near a difference, with the number of equal ones left out between them."""
    changed = [i for i, s in enumerate(diff.listing) if s.before is None or s.after is None]
    near = {i + apart for i in changed for apart in range(-_CONTEXT, _CONTEXT + 1)}
    for is_near, places in groupby(range(len(diff.listing)), near.__contains__):
        if not is_near:
            yield Phrase(f"... {len(list(places))} the same", Tone.DIM)
            continue
        last: tuple[str, Instruction | None] = ("", None)
        for at in places:
            mark, source, instruction = _side(diff.listing[at], before, after)
            place = source.place(instruction, last[1] if last[0] == source.file else None)
            text = f"{mark} {_code(instruction):<{_CODE_WIDTH - 2}}  {place}"
            yield Phrase(text, _TONES[mark])
            last = source.file, instruction


def _side(step: ListingStep, before: _Side, after: _Side) -> tuple[str, Disassembled, Instruction]:
    """The mark of a step, and the instruction that stands for it with its source."""
    if step.after is not None:
        mark = " " if step.before is not None else "+"
        return mark, after[0], after[1].instructions[step.after]
    assert step.before is not None
    return "-", before[0], before[1].instructions[step.before]
