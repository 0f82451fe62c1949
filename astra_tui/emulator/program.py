"""Turns a PTX function into steps: closures over register slots, checked against the opcode table.

All decisions that depend on the instruction alone (types, modes, widths) are taken here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from astra_tui.emulator.data_dependence import Dependence
from astra_tui.emulator.decode import Decoder, type_of
from astra_tui.emulator.faults import Unsupported
from astra_tui.emulator.opcodes import Opcode, opcode_of, refusal
from astra_tui.emulator.ops import HANDLERS
from astra_tui.emulator.ptx.module import (
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
)
from astra_tui.emulator.ptx.parser import TYPE_SIZES
from astra_tui.emulator.step import BOTH_SIDES, Flow, Step, side_bit
from astra_tui.model.compilation import UPSTREAM_PREFIX


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
    conditions: Mapping[int, int]
    """The conditions that report their sides, each with the sides that it can have here."""

    @cached_property
    def dependence(self) -> Dependence:
        """What its steps follow from."""
        return Dependence(self.steps, self.instructions)


def decode(function: Function, symbols: dict[str, int]) -> Program:
    """Decodes a function whose calls are inlined. `symbols` are generic addresses of variables.

    Raises Unsupported, whose message begins with the source line, for what is not emulated.
    """
    decoder = Decoder(function, symbols)
    steps = []
    for index, instruction in enumerate(function.instructions):
        decoder.begin(index)
        steps.append(_step(decoder, instruction))
        steps[-1].traits = frozenset(decoder.traits)
    end = Step(Flow.EXIT)
    end.text = "ret"
    if steps:
        end.location = steps[-1].location
    return Program(
        steps=(*steps, end),
        instructions=function.instructions,
        parameters=frozenset(p.name for p in function.params),
        slot_dtypes=decoder.slot_dtypes,
        special_slots=decoder.special_slots,
        smallest_global_access=_smallest(function, "shared"),
        smallest_shared_access=_smallest(function, "global"),
        uses_release=any(map(_orders_blocks, function.instructions)),
        conditions=possible_sides(function),
    )


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


def _step(decoder: Decoder, instruction: Instruction) -> Step:
    entry = None if is_condition(instruction) else _opcode(decoder, instruction)
    try:
        made = HANDLERS[entry.name if entry else "astra.cond"](decoder, instruction)
    except Unsupported as error:
        text = str(error)
        is_placed = text.startswith(("line ", UPSTREAM_PREFIX[1:]))
        raise Unsupported(text if is_placed else instruction.location.of(text)) from None
    step = made if isinstance(made, Step) else Step(Flow.NEXT, made)
    step.reads = frozenset(decoder.reads)
    step.writes = frozenset(decoder.writes)
    step.addresses = frozenset(decoder.addresses)
    step.written = decoder.written
    step.computes = entry is not None and entry.computes
    step.sources = decoder.sources
    step.location = instruction.location
    step.text = instruction.text
    if instruction.predicate is not None:
        step.predicate = decoder.slot(instruction.predicate.name)
        step.negated = instruction.negated
    return step


def _opcode(decoder: Decoder, instruction: Instruction) -> Opcode:
    why_not = refusal(instruction.operation, instruction.modifiers)
    entry = opcode_of(instruction.operation, instruction.modifiers)
    if why_not or entry is None:
        decoder.refuse(instruction, why_not)
    return entry


def _orders_blocks(instruction: Instruction) -> bool:
    return instruction.operation in ("fence", "membar") or bool(
        {"acquire", "release", "acq_rel"} & set(instruction.modifiers)
    )


def _smallest(function: Function, other_space: str) -> int:
    """Bytes of the narrowest access to a space; `other_space` is the one that is left out."""
    sizes = [16]
    for instruction in function.instructions:
        if instruction.operation in ("ld", "ldu", "st", "atom", "red"):
            spaces = {m.split("::")[0] for m in instruction.modifiers}
            if spaces & {other_space, "local", "param", "const"}:
                continue
            count = next((int(m[1]) for m in instruction.modifiers if m in ("v2", "v4")), 1)
            sizes.append(TYPE_SIZES[type_of(instruction)] * count)
        elif instruction.operation in ("cp", "ldmatrix", "stmatrix"):
            sizes.append(4)
    return min(sizes)
