"""Machine code as the source pane draws it: counts of each line, rows below it, the listing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from astra_tui.model.sass import (
    Disassembly,
    Instruction,
    InstructionClass,
    SassKernel,
    instructions_by_line,
)
from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark


class Sass(msgspec.Struct, frozen=True):
    """The machine code of a source, ready to be drawn; or why there is none, in `problem`."""

    columns: tuple[LineColumn, ...] = ()
    rows: Mapping[int, tuple[str, ...]] = {}
    """The instructions of each line, counted from 1, as the rows that unfold below it."""
    listing: str = ""
    """All of it in the order of addresses, kernel after kernel."""
    first_rows: Mapping[int, int] = {}
    """The row of the listing, from 0, at which the code of a source line begins."""
    words: str = ""
    """How much there is, for a title."""
    problem: str = ""


class SourceView(msgspec.Struct, frozen=True):
    """A source with messages about its lines and columns of values next to them, from line 1.

    `sass` reads the machine code when someone asks for it; None where there is nothing to say.
    """

    text: str
    name: str = ""
    marks: tuple[LineMark, ...] = ()
    columns: tuple[LineColumn, ...] = ()
    sass: Callable[[], Sass] | None = None


_Class = InstructionClass

_MEMORY = frozenset({
    _Class.GLOBAL_LOAD, _Class.GLOBAL_STORE, _Class.SHARED_LOAD, _Class.SHARED_STORE,
    _Class.LOCAL_LOAD, _Class.LOCAL_STORE, _Class.GENERIC_LOAD, _Class.GENERIC_STORE,
    _Class.CONSTANT_LOAD, _Class.ASYNC_COPY, _Class.ATOMIC, _Class.TEXTURE,
})  # fmt: skip
_FLOAT = frozenset({
    _Class.FLOAT64, _Class.FLOAT32, _Class.HALF, _Class.TENSOR, _Class.SPECIAL_FUNCTION,
    _Class.CONVERSION,
})  # fmt: skip

_LOOP = "↻"
_DEEPEST = 3


def sass_of(code: Disassembly) -> Sass:
    """What the pane needs of a disassembly."""
    lines = instructions_by_line(code.kernels)
    text, first_rows = _listing(code)
    return Sass(
        columns=_columns({n: found for n, found in lines.items() if n}),
        rows=_rows(code.kernels),
        listing=text,
        first_rows=first_rows,
        words=_words(code, lines),
    )


def _words(code: Disassembly, lines: Mapping[int, Sequence[Instruction]]) -> str:
    nowhere = len(lines.get(0, ()))
    total = sum(map(len, lines.values()))
    unplaced = f", {nowhere} of no line" if nowhere else ""
    return f"{total} instructions of {code.arch}{unplaced}"


def _columns(lines: Mapping[int, Sequence[Instruction]]) -> tuple[LineColumn, ...]:
    """All instructions of a line, those in loops, and how many access memory or compute."""
    columns = (
        LineColumn("SASS", _counts(lines, lambda _: True)),
        LineColumn("looped", _counts(lines, lambda i: i.loop_depth > 0)),
        LineColumn("memory", _counts(lines, _in(_MEMORY))),
        LineColumn("float", _counts(lines, _in(_FLOAT))),
    )
    return tuple(column for column in columns if column.values)


def _in(classes: Collection[InstructionClass]) -> Callable[[Instruction], bool]:
    return lambda instruction: instruction.category in classes


def _counts(
    lines: Mapping[int, Sequence[Instruction]], counts: Callable[[Instruction], bool]
) -> dict[int, str]:
    numbers = {line: sum(map(counts, found)) for line, found in lines.items()}
    return {line: str(number) for line, number in numbers.items() if number}


def _rows(kernels: Iterable[SassKernel]) -> dict[int, tuple[str, ...]]:
    """Under the name of its kernel where a line is part of several."""
    found: dict[int, list[tuple[str, list[Instruction]]]] = {}
    for kernel in kernels:
        for line, instructions in instructions_by_line((kernel,)).items():
            found.setdefault(line, []).append((kernel.name, instructions))
    return {line: tuple(_line_rows(groups)) for line, groups in found.items() if line}


def _line_rows(groups: Sequence[tuple[str, list[Instruction]]]) -> Iterator[str]:
    for name, instructions in groups:
        if len(groups) > 1:
            yield name
        yield from map(_instruction, instructions)


def _instruction(instruction: Instruction) -> str:
    loops = _LOOP * min(instruction.loop_depth, _DEEPEST)
    return f"{instruction.address:04x} {loops:<{_DEEPEST}} {instruction.text}"


def _listing(code: Disassembly) -> tuple[str, dict[int, int]]:
    rows: list[str] = [f"{code.arch}, {code.tool}", f"address, line, {_LOOP} a loop around it"]
    first: dict[int, int] = {}
    for kernel in code.kernels:
        starts = {s.address: s.symbol for s in kernel.subroutines}
        rows += ["", kernel.name]
        for instruction in kernel.instructions:
            if instruction.address in starts:
                rows += ["", starts[instruction.address]]
            if instruction.category is InstructionClass.PADDING:
                continue
            first.setdefault(instruction.line, len(rows))
            address, _, rest = _instruction(instruction).partition(" ")
            rows.append(f"{address} {instruction.line or '':>5} {rest}")
    return "\n".join(rows), first
