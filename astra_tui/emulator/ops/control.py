"""Branches, returns, traps, and the two calls that the emulator answers itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.faults import Fault
from astra_tui.emulator.lanes import Group
from astra_tui.emulator.operands import Decoder, Run, opcode
from astra_tui.emulator.ops.memory import immediate
from astra_tui.emulator.places import Places
from astra_tui.emulator.ptx.module import Immediate, Instruction, Symbol, Vector
from astra_tui.emulator.step import BOTH_SIDES, Flow, Step, side_bit
from astra_tui.model.findings import FindingKind

_MAX_MESSAGE = 200


@opcode("bra")
def _bra(decoder: Decoder, instruction: Instruction) -> Step:
    label = instruction.operands[0]
    step = Step(Flow.BRANCH)
    if not isinstance(label, Symbol):
        decoder.refuse(instruction)
    step.target = decoder.label(label.name)
    return step


@opcode("brx")
def _brx(decoder: Decoder, instruction: Instruction) -> Step:
    table = instruction.operands[1]
    if not isinstance(table, Symbol) or table.name not in decoder.function.tables:
        decoder.refuse(instruction)
    step = Step(Flow.TABLE)
    step.selector = decoder.read(instruction.operands[0], "u32")
    step.targets = tuple(map(decoder.label, decoder.function.tables[table.name]))
    return step


@opcode("ret", "exit")
def _exit(decoder: Decoder, instruction: Instruction) -> Step:
    return Step(Flow.EXIT)


@opcode("trap")
def _trap(decoder: Decoder, instruction: Instruction) -> Run:
    def run(regs: dict[int, Any], group: Group) -> None:
        raise Fault(FindingKind.TRAP, "__trap() was reached", 0, group.n)

    return run


@opcode("brkpt", "pmevent", "nanosleep", "griddepcontrol.launch_dependents")
def _nothing(decoder: Decoder, instruction: Instruction) -> Run:
    def run(regs: dict[int, Any], group: Group) -> None:
        return

    return run


@opcode("setmaxnreg")
def _setmaxnreg(decoder: Decoder, instruction: Instruction) -> Run:
    count = immediate(instruction.operands[0])
    if count % 8 or not 24 <= count <= 256:
        decoder.refuse(instruction, f"setmaxnreg takes a multiple of 8 from 24 to 256, not {count}")
    return lambda regs, group: None


@opcode("griddepcontrol.wait")
def _wait_for_launches_before(decoder: Decoder, instruction: Instruction) -> Run:
    def run(regs: dict[int, Any], group: Group) -> None:
        dependency = group.chunk.launch.dependency
        if dependency is not None:
            dependency.waited = True
            group.chunk.waited[group.lanes] = True

    return run


@opcode("astra.cond")
def _condition(decoder: Decoder, instruction: Instruction) -> Run:
    """Notes the sides that a condition of the source took; see lab/conditions."""
    number, operand = instruction.operands
    assert isinstance(number, Immediate)
    key = number.value
    read = decoder.read(operand, "u32")

    def run(regs: dict[int, Any], group: Group) -> None:
        sides = group.chunk.launch.sides
        known = sides.get(key, 0)
        if known == BOTH_SIDES:
            return
        value = read(regs)
        if not value.ndim:
            sides[key] = known | side_bit(bool(value))
            return
        taken = int(np.count_nonzero(value))
        sides[key] = known | (taken > 0) * side_bit(True) | (taken < len(value)) * side_bit(False)

    return run


@opcode("call")
def _call(decoder: Decoder, instruction: Instruction) -> Run:
    """What is left after inlining: printf, whose text is dropped, and a failed assert."""
    position, target = next(
        (n, o) for n, o in enumerate(instruction.operands) if isinstance(o, Symbol)
    )
    passed = instruction.operands[position + 1]
    assert isinstance(passed, Vector)
    if target.name == "__assertfail":
        message = _local_pointer(decoder, passed)

        def fail(regs: dict[int, Any], group: Group) -> None:
            text = _text_at(group, message(group))
            raise Fault(FindingKind.ASSERTION, f"assert({text}) failed", 0, group.n)

        return fail
    result = instruction.operands[0] if position == 1 else None
    returned = _local_offset(decoder, result)
    step = Step(Flow.NEXT)
    step.location, step.text = instruction.location, instruction.text

    def run(regs: dict[int, Any], group: Group) -> None:
        group.warn(FindingKind.PRINTF, "printf was called; its text is not shown", step, 0)
        if returned is not None:
            places = (group.lanes * group.chunk.launch.local.size + returned) >> 2
            group.chunk.local_views[4][places] = 0

    return run


def _local_offset(decoder: Decoder, operand: Any) -> int | None:
    """The offset of a call's variable in local memory."""
    if not isinstance(operand, Vector) or not operand.items:
        return None
    item = operand.items[0]
    assert isinstance(item, Symbol)
    return decoder.symbols[item.name] & 0xFFFF_FFFF


def _local_pointer(decoder: Decoder, passed: Vector) -> Any:
    offset = _local_offset(decoder, passed)
    assert offset is not None

    def read(group: Group) -> int:
        place = (int(group.lanes[0]) * group.chunk.launch.local.size + offset) >> 3
        return int(group.chunk.local_views[8][place])

    return read


def _text_at(group: Group, address: int) -> str:
    memory = group.chunk.launch.memory
    offset = address - memory.base
    if not 0 <= offset < memory.size - _MAX_MESSAGE:
        return "..."
    places = memory.physical(Places.of(np.arange(offset, offset + _MAX_MESSAGE)))
    data = memory.heap[places.offsets].tobytes().split(b"\0")[0]
    return str(data.decode("ascii", "replace"))
