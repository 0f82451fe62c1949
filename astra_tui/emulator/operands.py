"""Decodes operands: register slots, readers and writers of PTX types, addresses.

The opcode families in `ops/` build on this and name what they decode by `opcode`; `decode.py` puts
their steps together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from astra_tui.emulator import special
from astra_tui.emulator.address_space import GLOBAL, PARAM
from astra_tui.emulator.faults import Unsupported
from astra_tui.emulator.numerics import canonical_nan
from astra_tui.emulator.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from astra_tui.emulator.ptx.parser import float_value
from astra_tui.emulator.step import NO_SLOTS, Source, Step, WriteAccess

Reader = Callable[[dict[int, Any]], Any]
Writer = Callable[[dict[int, Any], Any], None]

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "b8": "u1", "u8": "u1", "s8": "i1",
        "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2", "bf16": "u2",
        "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "f16x2": "u4", "bf16x2": "u4",
        "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8",
        "pred": "?",
    }.items()
}  # fmt: skip
"""How a value of a PTX type is held; bfloat16 and packed halves are held as their bits."""

UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}

CARRY = "%carry"
"""A hidden register for the carry flag of add.cc and its kin."""
_GRID_SYNC = (
    "the emulator does not run what reads %envreg registers, such as grid.sync() (cooperative "
    "launches). End the launch where the grid is to wait, and start another."
)
GLOBAL_BASE = "%global_base"
"""A hidden register: how far global memory lies from where variables are taken to be."""


_COMPUTING = frozenset(
    ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2",
     "tanh", "min", "max")
)  # fmt: skip
"""What gives the canonical NaN, whatever NaN it reads (PTX ISA, "Floating Point Instructions")."""


def _written(instruction: Instruction) -> Iterator[str]:
    """The registers that may be written: the first operand's."""
    match instruction.operands[:1]:
        case (Register(name=name),):
            yield name
        case (Vector(items=items),):
            yield from (p.name for p in items if isinstance(p, Register))
        case (Pair(first=first, second=second),):
            yield from (first.name, second.name)


class Decoder:
    """Shared by the opcode families: register slots, operand readers and writers."""

    def __init__(self, function: Function, symbols: dict[str, int]):
        self.function = function
        self.symbols = symbols
        self.params = {p.name: p for p in function.params}
        self.slots: dict[str, int] = {}
        self.slot_dtypes: list[np.dtype[Any]] = []
        self.special_slots: dict[int, str] = {}
        self.index = 0
        """The number of the instruction that is being decoded."""
        self.traits: set[str] = set()
        """What leaves hardware some freedom in it; see `RunOutcome.reached`."""
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        self.addresses: set[int] = set()
        """The slots that the instruction being decoded reads, writes, and takes addresses from."""
        self.written: WriteAccess | None = None
        """What it writes in memory."""
        self.sources: tuple[Source, ...] = ()
        """What its result depends on, where that is not all that it reads."""

    def begin(self, index: int) -> None:
        """Starts on the next instruction."""
        self.index = index
        self.reads, self.writes, self.addresses = set(), set(), set()
        self.written = None
        self.sources = ()
        self.traits = set()

    def label(self, name: str) -> int:
        """The instruction that a label stands before."""
        if name not in self.function.labels:
            raise Unsupported(f"the label {name} does not exist")
        return self.function.labels[name]

    def refuse(self, instruction: Instruction, why: str = "") -> NoReturn:
        """Raises Unsupported for an instruction."""
        why = why or f"the emulator does not run this form: '{instruction.text}'"
        raise Unsupported(instruction.location.of(why))

    # -- registers -----------------------------------------------------------------------------

    @cached_property
    def _floats(self) -> frozenset[str]:
        """Registers that hold float32 that this function computes, and never anything else."""
        computed: set[str] = set()
        others: set[str] = set()
        for instruction in self.function.instructions:
            is_computed = instruction.operation in _COMPUTING and "f32" in instruction.modifiers
            (computed if is_computed else others).update(_written(instruction))
        return frozenset(computed - others)

    def slot(self, name: str) -> int:
        """The slot of a register; it has to be declared, or be special."""
        if name in special.MACHINE_DEPENDENT:
            self.traits.add(name)
        if name not in self.slots:
            kind = self.function.registers.get(name)
            if name == CARRY:
                kind = "u32"
            if kind is None and name in special.DTYPES:
                kind = special.DTYPES[name]
                self.special_slots[len(self.slots)] = name
            if name == GLOBAL_BASE:
                kind = "u64"
                self.special_slots[len(self.slots)] = name
            if kind is None and name.startswith("%envreg"):
                raise Unsupported(_GRID_SYNC)
            if kind is None:
                raise Unsupported(f"the register {name} is not declared, or not emulated")
            self.slots[name] = len(self.slot_dtypes)
            self.slot_dtypes.append(DTYPES[kind])
        return self.slots[name]

    def slots_of(self, operand: Operand) -> frozenset[int]:
        """The slot of an operand that is a register, or the negation of one."""
        match operand:
            case Negated(register=Register(name=name)):
                return frozenset((self.slot(name),))
            case Register(name=name) if name != "_":
                return frozenset((self.slot(name),))
        return NO_SLOTS

    def read(self, operand: Operand, kind: str) -> Reader:
        """A function that reads an operand as a PTX type."""
        dtype = DTYPES[kind]
        match operand:
            case Register(name=name):
                return self._read_register(name, dtype)
            case Immediate():
                constant = _constant(operand, kind)
                return lambda regs: constant
            case Negated(register=register):
                read = self._read_register(register.name, dtype)
                return lambda regs: np.logical_not(read(regs))
            case Symbol(name=name) if name in self.params and dtype.itemsize == 8:
                parameter = np.array(PARAM + self.params[name].offset, np.uint64).view(dtype)[()]
                return lambda regs: parameter
            case Symbol(name=name):
                if name not in self.symbols:
                    raise Unsupported(f"'{name}' is not a variable that is emulated")
                address = self.symbols[name]
                if address >= GLOBAL and dtype.itemsize == 8:
                    return self._moving(address, dtype)
                value = dtype.type(address & ((1 << (8 * dtype.itemsize)) - 1))
                return lambda regs: value
            case _:
                raise Unsupported("an operand of this form is not emulated")

    def _moving(self, address: int, dtype: np.dtype[Any]) -> Reader:
        """The address of a variable in global memory, wherever that lies in a launch."""
        slot, absolute = self.slot(GLOBAL_BASE), np.uint64(address)
        return lambda regs: (regs[slot] + absolute).view(dtype)

    def _read_timer(self, slot: int, dtype: np.dtype[Any]) -> Reader:
        def read(regs: dict[int, Any]) -> Any:
            value = regs[slot]
            regs[slot] = special.advanced(value)
            return value.astype(dtype)

        return read

    def _read_register(self, name: str, dtype: np.dtype[Any]) -> Reader:
        slot = self.slot(name)
        self.reads.add(slot)
        have = self.slot_dtypes[slot]
        if name in special.TIMERS:
            return self._read_timer(slot, dtype)
        is_stored = self.function.instructions[self.index].operation == "st"
        if name in self._floats and dtype.itemsize == 4 and (is_stored or dtype.kind != "f"):
            return lambda regs: canonical_nan(regs[slot].view(np.uint32)).view(dtype)
        if have.itemsize == dtype.itemsize:

            def read(regs: dict[int, Any]) -> Any:
                value = regs[slot]
                return value if value.dtype is dtype else value.view(dtype)

            return read
        if have.itemsize < dtype.itemsize:
            if name in special.DTYPES:
                return lambda regs: regs[slot].astype(dtype)
            raise Unsupported(f"{name} is narrower than the instruction reads")
        raw, narrow = UNSIGNED[have.itemsize], UNSIGNED[dtype.itemsize]

        def read_low(regs: dict[int, Any]) -> Any:
            value = regs[slot]
            return value.view(raw).astype(narrow).view(dtype)

        return read_low

    def write(self, operand: Operand, kind: str) -> Writer:
        """A function that writes a value of a PTX type; a wider register is extended into."""
        if isinstance(operand, Register) and operand.name == "_":
            return lambda regs, value: None
        if not isinstance(operand, Register):
            raise Unsupported("a destination of this form is not emulated")
        slot = self.slot(operand.name)
        self.writes.add(slot)
        have, dtype = self.slot_dtypes[slot], DTYPES[kind]
        if have.itemsize == dtype.itemsize:

            def write(regs: dict[int, Any], value: Any) -> None:
                regs[slot] = value

            return write
        if have.itemsize < dtype.itemsize:
            raise Unsupported(f"{operand.name} is narrower than the instruction writes")
        wide = np.dtype(f"i{have.itemsize}" if dtype.kind == "i" else f"u{have.itemsize}")
        raw = dtype if dtype.kind in "iu" else UNSIGNED[dtype.itemsize]

        def write_extended(regs: dict[int, Any], value: Any) -> None:
            regs[slot] = value.view(raw).astype(wide)

        return write_extended

    def vector(self, operand: Operand) -> tuple[Operand, ...]:
        """The parts of `{a, b}`; a plain operand is its own only part."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    def pair(self, operand: Operand) -> tuple[Operand, Operand | None]:
        """The parts of `a|b`; a plain operand has no second part."""
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    def address(self, operand: Operand) -> Reader:
        """A function that computes an address as uint64 (a scalar where all threads agree)."""
        if not isinstance(operand, Address):
            raise Unsupported("an address of this form is not emulated")
        base, offset = operand.base, operand.offset
        if isinstance(base, Immediate):
            absolute = np.uint64((base.value + offset) & ((1 << 64) - 1))
            return lambda regs: absolute
        if isinstance(base, Symbol):
            if base.name not in self.symbols:
                raise Unsupported(f"'{base.name}' is not a variable that is emulated")
            found = self.symbols[base.name]
            if found >= GLOBAL:
                return self._moving(found + offset, DTYPES["u64"])
            absolute = np.uint64(found + offset)
            return lambda regs: absolute
        slot = self.slot(base.name)
        self.reads.add(slot)
        self.addresses.add(slot)
        size = self.slot_dtypes[slot].itemsize
        step = np.uint64(offset & ((1 << 64) - 1))
        raw, wide = UNSIGNED[size], np.dtype(np.uint64)

        def read(regs: dict[int, Any]) -> Any:
            value = regs[slot].view(raw)
            if size != 8:
                value = value.astype(wide)
            return value + step if offset else value

        return read


Run = Callable[[dict[int, Any], Any], None]
"""Executes one instruction: registers and the group of lanes that run it."""
Handler = Callable[[Decoder, Instruction], Step | Run]

HANDLERS: dict[str, Handler] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Registers a function that decodes the named opcodes of the opcode table.

    It returns either what to run, for instructions that simply continue with the next, or a Step.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def type_of(instruction: Instruction, index: int = -1) -> str:
    """The type among an instruction's modifiers: the last one, or the one at `index`."""
    found = [m for m in instruction.modifiers if m in DTYPES]
    if not found:
        raise Unsupported(f"no type in '{instruction.text}'")
    return found[index]


def _constant(immediate: Immediate, kind: str) -> Any:
    dtype = DTYPES[kind]
    if immediate.float_bytes and dtype.kind == "f":
        return dtype.type(float_value(immediate))
    size = dtype.itemsize
    if dtype == np.bool_:
        return np.bool_(immediate.value != 0)
    bits = immediate.value & ((1 << (8 * size)) - 1)
    return np.array(bits, UNSIGNED[size]).view(dtype)[()]
