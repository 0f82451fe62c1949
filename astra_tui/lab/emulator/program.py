"""Turns a PTX function into steps: closures over register slots, checked against the opcode table.

All decisions that depend on the instruction alone (types, modes, widths) are taken here, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.lab.emulator.decode import Decoder, type_of
from astra_tui.lab.emulator.faults import Unsupported
from astra_tui.lab.emulator.ops import HANDLERS
from astra_tui.lab.emulator.ptx.module import Function, Instruction
from astra_tui.lab.emulator.ptx.parser import TYPE_SIZES
from astra_tui.lab.emulator.step import Flow, Step
from astra_tui.model.opcodes import opcode_of, refusal


@dataclass(frozen=True)
class Program:
    """A decoded kernel: steps, the type of each register slot, and what it needs of memory."""

    steps: tuple[Step, ...]
    slot_dtypes: list[np.dtype[Any]]
    special_slots: dict[int, str]
    smallest_global_access: int
    smallest_shared_access: int
    uses_release: bool
    """Whether fences and atomics may order blocks among each other."""


def decode(function: Function, symbols: dict[str, int]) -> Program:
    """Decodes a function whose calls are inlined. `symbols` are generic addresses of variables.

    Raises Unsupported, whose message begins with the source line, for what is not emulated.
    """
    decoder = Decoder(function, symbols)
    steps = []
    for index, instruction in enumerate(function.instructions):
        decoder.index = index
        steps.append(_step(decoder, instruction))
    end = Step(Flow.EXIT)
    end.text = "ret"
    if steps:
        end.location = steps[-1].location
    return Program(
        steps=(*steps, end),
        slot_dtypes=decoder.slot_dtypes,
        special_slots=decoder.special_slots,
        smallest_global_access=_smallest(function, "shared"),
        smallest_shared_access=_smallest(function, "global"),
        uses_release=any(map(_orders_blocks, function.instructions)),
    )


def _step(decoder: Decoder, instruction: Instruction) -> Step:
    why_not = refusal(instruction.operation, instruction.modifiers)
    entry = opcode_of(instruction.operation, instruction.modifiers)
    if why_not or entry is None:
        decoder.refuse(instruction, why_not)
    try:
        made = HANDLERS[entry.name](decoder, instruction)
    except Unsupported as error:
        line = instruction.location.line
        text = str(error)
        raise Unsupported(
            text if text.startswith("line ") or not line else f"line {line}: {text}"
        ) from None
    step = made if isinstance(made, Step) else Step(Flow.NEXT, made)
    step.location = instruction.location
    step.text = instruction.text
    if instruction.predicate is not None:
        step.predicate = decoder.slot(instruction.predicate.name)
        step.negated = instruction.negated
    return step


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
