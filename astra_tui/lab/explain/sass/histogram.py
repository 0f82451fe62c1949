"""Counts the instructions of a kernel by class and name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from astra_tui.model.sass import HistogramRow, Instruction, InstructionClass

_ORDER = {kind: i for i, kind in enumerate(InstructionClass)}


def histogram(instructions: Iterable[Instruction]) -> tuple[HistogramRow, ...]:
    """One row for each name, in the order of the classes; each instruction is in one row."""
    everywhere: Counter[tuple[InstructionClass, str]] = Counter()
    in_loops: Counter[tuple[InstructionClass, str]] = Counter()
    for instruction in instructions:
        key = (instruction.category, instruction.name)
        everywhere[key] += 1
        in_loops[key] += instruction.loop_depth > 0
    ordered = sorted(everywhere, key=row_order)
    return tuple(HistogramRow(*key, everywhere[key], in_loops[key]) for key in ordered)


def row_order(key: tuple[InstructionClass, str]) -> tuple[int, str]:
    """Where a row stands in a histogram."""
    return _ORDER[key[0]], key[1]
