"""Loads, stores, fences and cache hints."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.access import CLUSTER, Target, resolve
from astra_tui.emulator.faults import Fault, Unsupported, first_true
from astra_tui.emulator.lanes import Group
from astra_tui.emulator.operands import DTYPES, UNSIGNED, Decoder, Run, opcode, type_of
from astra_tui.emulator.ptx.module import Address, Immediate, Instruction, Operand, Register, Symbol
from astra_tui.emulator.registers import spread
from astra_tui.emulator.step import AccessSpec, WriteAccess
from astra_tui.model.device import COMMUNICATES
from astra_tui.model.findings import FindingKind

_SPACES = ("global", "shared", "local", "const", "param")
_SYNCHRONISING = ("relaxed", "acquire", "release", "acq_rel")


def space_of_instruction(instruction: Instruction) -> str:
    """The state space that an instruction names, or "generic"."""
    if "shared::cluster" in instruction.modifiers:
        return CLUSTER
    for modifier in instruction.modifiers:
        space = modifier.split("::")[0]
        if space in _SPACES:
            return {"const": "global"}.get(space, space)
    return "generic"


def _vector_length(instruction: Instruction) -> int:
    return next((int(m[1]) for m in instruction.modifiers if m in ("v2", "v4")), 1)


def _note_communication(decoder: Decoder, instruction: Instruction) -> None:
    if synchronises(instruction) or "volatile" in instruction.modifiers:
        decoder.traits.add(COMMUNICATES)


def synchronises(instruction: Instruction) -> bool:
    """Whether an access is relaxed, acquiring or releasing: it does not race with atomics."""
    return any(m in _SYNCHRONISING for m in instruction.modifiers)


def releases(instruction: Instruction) -> bool:
    """Whether an access is a fence by itself for what its thread did before."""
    return "release" in instruction.modifiers or "acq_rel" in instruction.modifiers


@opcode("ld", "ldu")
def _ld(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    destination, source = instruction.operands[:2]
    space = space_of_instruction(instruction)
    if space == "param":
        if _names_parameter(decoder, source):
            return _load_parameter(decoder, instruction, kind)
        space = "param" if _in_register(source) else "local"
    parts = decoder.vector(destination)
    writers = [decoder.write(part, kind) for part in parts]
    unit = DTYPES[kind].itemsize
    dtype = DTYPES[kind]
    spec = AccessSpec(
        decoder.index,
        unit * len(parts),
        "load",
        synchronises(instruction),
        "nc" in instruction.modifiers,
        results=tuple(map(decoder.slots_of, parts)),
    )
    _note_communication(decoder, instruction)
    address = decoder.address(source)
    if _vector_length(instruction) != len(parts):
        decoder.refuse(instruction)

    def run(regs: dict[int, Any], group: Group) -> None:
        target = resolve(group, spec, space, address(regs))
        if spec.synchronising and target.space == "global":
            group.note_atomic(target.offsets, releases=False)
        for write, column in zip(writers, read_columns(target, unit, len(writers)), strict=True):
            write(regs, column.view(dtype))

    return run


def _names_parameter(decoder: Decoder, operand: Operand) -> bool:
    return (
        isinstance(operand, Address)
        and isinstance(operand.base, Symbol)
        and operand.base.name in decoder.params
    )


def _in_register(operand: Operand) -> bool:
    return isinstance(operand, Address) and isinstance(operand.base, Register)


def _load_parameter(decoder: Decoder, instruction: Instruction, kind: str) -> Run:
    address = instruction.operands[1]
    assert isinstance(address, Address)
    assert isinstance(address.base, Symbol)
    dtype = DTYPES[kind]
    begin = decoder.params[address.base.name].offset + address.offset
    parts = decoder.vector(instruction.operands[0])
    writers = [decoder.write(part, kind) for part in parts]
    size = dtype.itemsize

    def run(regs: dict[int, Any], group: Group) -> None:
        parameters = group.chunk.launch.parameters
        for number, write in enumerate(writers):
            at = begin + number * size
            write(regs, parameters[at : at + size].view(dtype)[0])

    return run


@opcode("st")
def _st(decoder: Decoder, instruction: Instruction) -> Run:
    kind = type_of(instruction)
    space = space_of_instruction(instruction)
    if space == "param":
        space = "local"
    parts = decoder.vector(instruction.operands[1])
    unit = DTYPES[kind].itemsize
    raw = UNSIGNED[unit]
    readers = [decoder.read(part, kind) for part in parts]
    spec = AccessSpec(decoder.index, unit * len(parts), "store", synchronises(instruction))
    _note_communication(decoder, instruction)
    address = decoder.address(instruction.operands[0])
    decoder.written = WriteAccess(address, spec, space)
    if _vector_length(instruction) != len(parts):
        decoder.refuse(instruction)
    releasing = releases(instruction)

    def run(regs: dict[int, Any], group: Group) -> None:
        columns = [spread(read(regs).view(raw), group.n) for read in readers]

        def unchanged(target: Target) -> Any:
            now = read_columns(target, unit, len(columns))
            same = np.ones(group.n, np.bool_)
            for column, value in zip(columns, now, strict=True):
                same &= column == value
            return same

        target = resolve(group, spec, space, address(regs), unchanged)
        if spec.synchronising and target.space == "global":
            if releasing:
                group.note_fence()
            group.note_atomic(target.offsets, acquires=False)
        write_columns(target, unit, columns)
        if group.n > 1 and target.space != "local" and group.chunk.launch.checked:
            try:
                require_one_value(group, target, unit, columns)
            except Fault as fault:
                if not group.tolerates(fault, spec.index):
                    raise

    return run


def read_columns(target: Target, unit: int, count: int) -> list[Any]:
    """`count` neighbouring elements of `unit` bytes at each offset, as unsigned integers."""
    view, rows, bits = target.views[unit], target.places.rows, unit.bit_length() - 1
    if rows is not None:
        found = rows.view(view, bits, count)
        return [found[:, :, part].flatten() for part in range(count)]
    index = target.offsets >> bits
    if count == 1:
        return [view[index]]
    rows = view[: len(view) // count * count].reshape(-1, count)[index // count]
    return list(np.ascontiguousarray(rows.T))


def write_columns(target: Target, unit: int, columns: list[Any]) -> None:
    """Stores neighbouring elements; of lanes that write one address, the last wins."""
    view, rows, bits = target.views[unit], target.places.rows, unit.bit_length() - 1
    count = len(columns)
    if rows is not None and unit * count <= rows.shape.gap:
        places = rows.view(view, bits, count)
        for part, column in enumerate(columns):
            places[:, :, part] = column.reshape(places.shape[:2])
        return
    index = target.offsets >> bits
    if count == 1:
        view[index] = columns[0]
    else:
        rows = view[: len(view) // count * count].reshape(-1, count)
        rows[index // count] = np.stack(columns, axis=1)


def require_one_value(group: Group, target: Target, unit: int, columns: list[Any]) -> None:
    """Raises Fault when two lanes have just stored different values to one address."""
    if target.places.are_apart(unit * len(columns)):
        return
    offsets = target.offsets
    for column, value in zip(columns, read_columns(target, unit, len(columns)), strict=True):
        lost = column != value
        if lost.any():
            lane, lanes = first_true(lost)
            launch = group.chunk.launch
            if target.space == "shared":
                kind = FindingKind.SHARED_RACE
                place = launch.shared.describe_offset(int(offsets[lane]) % launch.shared.stride)
            else:
                kind = FindingKind.GLOBAL_RACE
                place = launch.memory.describe_physical(int(offsets[lane]))
            raise Fault(kind, f"threads store different values at once to {place}", lane, lanes)


# -- fences and hints ------------------------------------------------------------------------------


@opcode("fence", "membar")
def _fence(decoder: Decoder, instruction: Instruction) -> Run:
    wide = any(m in ("cluster", "gpu", "sys", "gl") for m in instruction.modifiers)
    if wide:
        decoder.traits.add(COMMUNICATES)

    def run(regs: dict[int, Any], group: Group) -> None:
        if wide:
            group.note_fence()

    return run


@opcode("prefetch", "prefetchu", "discard", "applypriority")
def _hint(decoder: Decoder, instruction: Instruction) -> Run:
    def run(regs: dict[int, Any], group: Group) -> None:
        return

    return run


@opcode("createpolicy")
def _createpolicy(decoder: Decoder, instruction: Instruction) -> Run:
    write = decoder.write(instruction.operands[0], "b64")
    policy = np.uint64(0)

    def run(regs: dict[int, Any], group: Group) -> None:
        write(regs, policy)

    return run


def immediate(operand: Operand) -> int:
    """The value of an operand that has to be a constant."""
    if not isinstance(operand, Immediate):
        raise Unsupported("this operand has to be a constant")
    return operand.value
