"""Turns a PTX function into steps: closures over register slots, checked against the opcode table.

All decisions that depend on the instruction alone (types, modes, widths) are taken here, once.
"""

from __future__ import annotations

from astra_tui.emulator.faults import Unsupported
from astra_tui.emulator.opcode_table import Opcode, opcode_of, refusal
from astra_tui.emulator.operands import Decoder, type_of
from astra_tui.emulator.ops import HANDLERS
from astra_tui.emulator.program import Program, is_condition, possible_sides
from astra_tui.emulator.ptx.module import Function, Instruction
from astra_tui.emulator.ptx.parser import TYPE_SIZES
from astra_tui.emulator.step import Flow, Step
from astra_tui.model.compilation import UPSTREAM_PREFIX


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
        is_asynchronous=any(map(_is_asynchronous, function.instructions)),
        conditions=possible_sides(function),
    )


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


def _is_asynchronous(instruction: Instruction) -> bool:
    operation, modifiers = instruction.operation, set(instruction.modifiers)
    return (
        operation in ("mbarrier", "mapa", "getctarank")
        or bool({"cluster", "shared::cluster", "bulk", "mbarrier"} & modifiers)
        or (operation in ("st", "red") and "async" in modifiers)
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
