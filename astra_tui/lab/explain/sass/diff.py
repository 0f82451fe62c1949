"""Compares the machine code of two versions of a source."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from astra_tui.lab.explain.sass.classes import row_order
from astra_tui.lab.explain.sass.listing import NAMED_LABEL
from astra_tui.model.sass import (
    HistogramChange,
    Instruction,
    InstructionClass,
    KernelDiff,
    ListingStep,
    SassDiff,
    SassKernel,
)

_REGISTER = re.compile(r"\b(U?[RP]|S?B)\d+\b")
_DISTANCE = re.compile(r" -?0x[0-9a-f]+$")
_BRANCH_BY_TABLE = ("BRX", "BRXU")


def compare(before: Sequence[SassKernel], after: Sequence[SassKernel]) -> SassDiff:
    """Pairs kernels by C++ name, then by name without template arguments, then by order."""
    pairs, only_before, only_after = _pairs(before, after)
    return SassDiff(
        kernels=tuple(compare_kernels(old, new) for old, new in pairs),
        only_before=tuple(kernel.name for kernel in only_before),
        only_after=tuple(kernel.name for kernel in only_after),
    )


def compare_kernels(before: SassKernel, after: SassKernel) -> KernelDiff:
    """Histograms side by side, and the listings aligned."""
    steps = tuple(_aligned(before.instructions, after.instructions))
    return KernelDiff(before.name, after.name, _histogram_changes(before, after), steps)


def canonical(instruction: Instruction) -> str:
    """The instruction's text without the numbers of registers and barriers, and without addresses.

    Which registers hold what is up to the register allocator: one more live value renames them all.
    RZ, PT and the other constants keep their names, subroutines theirs without the kernel's.
    """
    addresses = {f"{target:#x}" for target in instruction.targets}
    words = " ".join((instruction.predicate, instruction.opcode, *instruction.operands)).split()
    text = " ".join("there" if word in addresses else word for word in words)
    if instruction.opcode.startswith(_BRANCH_BY_TABLE):
        text = _DISTANCE.sub("", text)
    return _REGISTER.sub(r"\1", NAMED_LABEL.sub(_function, text.replace(".reuse", "")))


def _function(label: re.Match[str]) -> str:
    """The name of a subroutine without that of the kernel around it."""
    _, dollar, name = label[1].rpartition("$")
    return name if dollar else "kernel"


def _pairs(
    before: Sequence[SassKernel], after: Sequence[SassKernel]
) -> tuple[list[tuple[SassKernel, SassKernel]], list[SassKernel], list[SassKernel]]:
    pairs: list[tuple[SassKernel, SassKernel]] = []
    old, new = list(before), list(after)
    for alike in (_same_name, _same_template):
        for kernel in list(new):
            found = next((k for k in old if alike(k, kernel)), None)
            if found is not None:
                pairs.append((found, kernel))
                old.remove(found)
                new.remove(kernel)
    matched = min(len(old), len(new))
    pairs += zip(old[:matched], new[:matched], strict=True)
    places = {id(kernel): i for i, kernel in enumerate(after)}
    pairs.sort(key=lambda pair: places[id(pair[1])])
    return pairs, old[matched:], new[matched:]


def _same_name(a: SassKernel, b: SassKernel) -> bool:
    return a.name == b.name


def _same_template(a: SassKernel, b: SassKernel) -> bool:
    return a.name.partition("<")[0] == b.name.partition("<")[0]


def _histogram_changes(before: SassKernel, after: SassKernel) -> tuple[HistogramChange, ...]:
    old, new = _counts(before), _counts(after)
    nothing = (0, 0)
    rows = []
    for key in sorted({*old, *new}, key=row_order):
        (was, was_in), (now, now_in) = old.get(key, nothing), new.get(key, nothing)
        rows.append(HistogramChange(*key, was, now, was_in, now_in))
    return tuple(rows)


def _counts(kernel: SassKernel) -> dict[tuple[InstructionClass, str], tuple[int, int]]:
    return {(row.category, row.name): (row.count, row.in_loops) for row in kernel.histogram}


def _aligned(before: Sequence[Instruction], after: Sequence[Instruction]) -> Iterator[ListingStep]:
    old, new = ([canonical(i) for i in side] for side in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield from (ListingStep(i, j1 + i - i1) for i in range(i1, i2))
        else:
            yield from (ListingStep(i, None) for i in range(i1, i2))
            yield from (ListingStep(None, j) for j in range(j1, j2))
