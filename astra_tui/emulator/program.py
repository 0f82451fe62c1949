"""Turns a PTX function into steps: closures over register slots, checked against the opcode table.

All decisions that depend on the instruction alone (types, modes, widths) are taken here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from astra_tui.emulator.control_flow import aside_ends, needed_slots
from astra_tui.emulator.data_dependence import Dependence
from astra_tui.emulator.ptx.module import (
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
)
from astra_tui.emulator.step import BOTH_SIDES, Step, side_bit
from astra_tui.model.device import COMMUNICATES


@dataclass(frozen=True)
class Program:
    """A decoded kernel: steps, the type of each register slot, and what it needs of memory."""

    steps: tuple[Step, ...]
    instructions: tuple[Instruction, ...]
    """What the steps were decoded from; the last step, the end of the kernel, has none."""
    parameters: frozenset[str]
    """The names of the kernel's parameters."""
    slot_dtypes: list[np.dtype[Any]]
    special_slots: dict[int, str]
    smallest_global_access: int
    smallest_shared_access: int
    uses_release: bool
    """Whether fences and atomics may order blocks among each other."""
    is_asynchronous: bool
    """Whether clusters, barriers in memory or bulk copies order what its threads do."""
    conditions: Mapping[int, int]
    """The conditions that report their sides, each with the sides that it can have here."""

    @cached_property
    def dependence(self) -> Dependence:
        """What its steps follow from."""
        return Dependence(self.steps, self.instructions)

    @cached_property
    def communicates(self) -> bool:
        """Whether it has atomics, fences or volatile accesses, by which blocks may meet."""
        return any(COMMUNICATES in step.traits for step in self.steps)

    @cached_property
    def register_bytes(self) -> int:
        """Bytes of all registers of a thread, if none ever shares its place with another."""
        return sum(dtype.itemsize for dtype in self.slot_dtypes)

    @cached_property
    def asides(self) -> list[int]:
        """See `aside_ends`."""
        return aside_ends(self.steps)

    @cached_property
    def needed(self) -> list[int]:
        """See `needed_slots`."""
        return needed_slots(self.steps)


def is_condition(instruction: Instruction) -> bool:
    """Whether an instruction is the report of a condition, which no real program holds."""
    return instruction.operation == "astra" and instruction.modifiers == ("cond",)


def condition_number(report: Instruction) -> int:
    """Which condition of the source a report is about."""
    number = report.operands[0]
    assert isinstance(number, Immediate)
    return number.value


def possible_sides(function: Function) -> dict[int, int]:
    """The sides that each reporting condition can have: a constant has its own only."""
    reports = [i for i in function.instructions if is_condition(i)]
    if not reports:
        return {}
    values: dict[str, int] = {}
    for instruction in function.instructions:
        target = instruction.operands[0] if instruction.operands else None
        if isinstance(target, Register):
            source = instruction.operands[1] if instruction.operation == "mov" else None
            known = _side_of(source) if instruction.predicate is None else BOTH_SIDES
            values[target.name] = values.get(target.name, 0) | known
    sides: dict[int, int] = {}
    for report in reports:
        operand = report.operands[1]
        found = values.get(operand.name, 3) if isinstance(operand, Register) else _side_of(operand)
        number = condition_number(report)
        sides[number] = sides.get(number, 0) | found
    return sides


def _side_of(operand: Operand | None) -> int:
    return side_bit(operand.value != 0) if isinstance(operand, Immediate) else BOTH_SIDES
