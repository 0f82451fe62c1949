"""What PTX and launch plans compute, as terms of a solver for bit vectors.

Everything here is an over-approximation: what is not modelled (loaded data, floating point, values
that a loop carries) may be anything. So a side that the solver finds no way to is never taken;
one that it finds a way to may or may not be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import z3

from astra_tui.emulator.ptx.module import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
)
from astra_tui.emulator.ptx.parser import TYPE_SIZES
from astra_tui.lab.conditions.flow import (
    ControlFlowGraph,
    Definition,
    Edge,
    Phi,
    Undefined,
    Value,
    names_in,
)

_WIDTHS = {**{name: 8 * size for name, size in TYPE_SIZES.items()}, "pred": 1}
_INTEGERS = re.compile(r"[usb]\d+|pred")

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lo": z3.ULT,
    "ls": z3.ULE,
    "hi": z3.UGT,
    "hs": z3.UGE,
}
_SIGNED: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_UNSIGNED = {"lt": z3.ULT, "le": z3.ULE, "gt": z3.UGT, "ge": z3.UGE}

_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@dataclass(frozen=True, eq=False)
class IntegerTensor:
    """An input of whole numbers, whose bounds are terms of 64 bits."""

    width: int
    signed: bool
    low: Any
    high: Any


@dataclass
class LaunchContext:
    """What a launch gives to every thread: special registers and parameters, as terms."""

    special: Mapping[str, Any]
    """32-bit terms by the register's name."""
    parameters: Mapping[int, Any]
    """Terms by the parameter's offset, as wide as the parameter."""
    pointers: Mapping[int, IntegerTensor | None] = field(default_factory=dict)
    """The parameters that are pointers, by offset, with what is known of what they lead to."""


@dataclass(frozen=True)
class _Form:
    """How an instruction reads its operands."""

    width: int
    signed: bool


class Terms:
    """Terms for the values of one function under one launch."""

    def __init__(self, flow: ControlFlowGraph, around: LaunchContext):
        self.flow = flow
        self.around = around
        self.offsets = {p.name: p.offset for p in flow.function.params}
        self.facts: list[Any] = []
        """What holds of the free variables in the terms made so far."""
        self._known: dict[Any, Any] = {}
        self._reached: dict[int, Any] = {}
        self._count = 0
        self.has_data = False
        """Whether a term made so far stands on loaded data, or on what is not modelled."""

    # -- when an instruction is reached ------------------------------------------------------------

    def reached(self, index: int) -> Any:
        """A condition that holds whenever a thread comes to an instruction."""
        return self._block_reached(self.flow.block_of[index])

    def _block_reached(self, block: int) -> Any:
        if block not in self._reached:
            forward = self.flow.forward(block) if block else []
            ways = [self._edge_taken(e) for e in forward]
            self._reached[block] = z3.BoolVal(True) if block == 0 else z3.Or(ways)
        return self._reached[block]

    def _edge_taken(self, edge: Edge) -> Any:
        source = self._block_reached(edge.source)
        if edge.predicate is None:
            return source
        value = self.flow.value_at_end(edge.predicate.name, edge.source)
        taken = self.value(value, 1) == (1 if edge.wanted else 0)
        return z3.And(source, taken)

    # -- values ----------------------------------------------------------------------------------

    def operand(self, operand: Operand, index: int, width: int) -> Any:
        """What an instruction reads, as a bit vector of some width."""
        match operand:
            case Register(name=name) if name in self.around.special:
                return _resized(self.around.special[name], width)
            case Register(name=name) if name in self.flow.function.registers:
                return self.value(self.flow.value_at(name, index), width)
            case Immediate(value=value):
                return z3.BitVecVal(value, width)
            case Negated(register=register):
                return ~self.operand(register, index, width)
            case Symbol(name=name):
                return self._variable(("symbol", name), width)
            case _:
                return self._anything(width)

    def value(self, value: Value, width: int) -> Any:
        """A value of a register, as a bit vector of some width."""
        if value not in self._known:
            self._known[value] = self._made(value)
        return _resized(self._known[value], width)

    def _made(self, value: Value) -> Any:
        match value:
            case Phi():
                return self._merge(value)
            case Undefined(register=name):
                return self._anything(self._width_of(name))
            case Definition(index=index, register=name):
                made = self._result(self.flow.instructions[index], index, name)
                return _resized(made, self._width_of(name))

    def _merge(self, merge: Phi) -> Any:
        width = self._width_of(merge.register)
        forward = self.flow.forward(merge.block)
        if len(forward) != len(merge.values):
            return self._fresh(width)
        taken = [(z3.simplify(self._edge_taken(edge)), value) for edge, value in merge.values]
        possible = [(way, value) for way, value in taken if not z3.is_false(way)]
        if len(possible) == 1:
            return self.value(possible[0][1], width)
        free = self._fresh(width)
        ways = [z3.And(way, free == self.value(value, width)) for way, value in possible]
        self.facts.append(z3.Implies(self._block_reached(merge.block), z3.Or(ways)))
        return free

    def _width_of(self, register: str) -> int:
        return _WIDTHS[self.flow.function.registers[register]]

    def _fresh(self, width: int) -> Any:
        self._count += 1
        return z3.BitVec(f"free{self._count}", width)

    def _anything(self, width: int) -> Any:
        self.has_data = True
        return self._fresh(width)

    def _variable(self, key: tuple[str, str], width: int) -> Any:
        if key not in self._known:
            self._known[key] = self._fresh(64)
        return _resized(self._known[key], width)

    # -- instructions ----------------------------------------------------------------------------

    def _result(self, instruction: Instruction, index: int, register: str) -> Any:
        """What an instruction gives to a register; guarded ones may leave the old value."""
        first = instruction.operands[0]
        if first == Register(register):
            made = self._computed(instruction, index)
        elif isinstance(first, Pair) and instruction.operation == "setp":
            made = self._compared(instruction, index)
            made = made if first.first == Register(register) else ~made
        else:
            made = None
        width = self._width_of(register)
        made = self._anything(width) if made is None else _resized(made, width)
        if instruction.predicate is None:
            return made
        guard = self.operand(instruction.predicate, index, 1)
        old = self.value(self.flow.value_at(register, index), width)
        return z3.If(guard == (0 if instruction.negated else 1), made, old)

    def _computed(self, i: Instruction, index: int) -> Any:
        kinds = [m for m in i.modifiers if m in _WIDTHS]
        kind = kinds[-1] if kinds else ""
        if i.operation == "setp":
            return self._compared(i, index)
        if i.operation == "ld":
            return self._loaded(i, index, kind)
        if i.operation == "cvt":
            return self._converted(i, index, kinds)
        if not _INTEGERS.fullmatch(kind) or {"sat", "cc"} & set(i.modifiers):
            return None
        form = _Form(_WIDTHS[kind], kind[0] == "s")
        if i.operation in _PLAIN:
            return _PLAIN[i.operation](*self._two(i, index, form))
        made = _INTEGER.get(i.operation)
        return made(self, i, index, form) if made is not None else None

    def _mov(self, i: Instruction, index: int, form: _Form) -> Any:
        source = i.operands[1]
        is_plain = isinstance(source, Register | Immediate | Symbol)
        return self.operand(source, index, form.width) if is_plain else None

    def _cvta(self, i: Instruction, index: int, form: _Form) -> Any:
        # Generic addresses of global memory are its own.
        is_global = "global" in i.modifiers
        return self.operand(i.operands[1], index, form.width) if is_global else None

    def _not(self, i: Instruction, index: int, form: _Form) -> Any:
        return ~self.operand(i.operands[1], index, form.width)

    def _neg(self, i: Instruction, index: int, form: _Form) -> Any:
        return -self.operand(i.operands[1], index, form.width)

    def _abs(self, i: Instruction, index: int, form: _Form) -> Any:
        a = self.operand(i.operands[1], index, form.width)
        return z3.If(a < 0, -a, a)

    def _min(self, i: Instruction, index: int, form: _Form) -> Any:
        a, b = self._two(i, index, form)
        return z3.If(a < b if form.signed else z3.ULT(a, b), a, b)

    def _max(self, i: Instruction, index: int, form: _Form) -> Any:
        a, b = self._two(i, index, form)
        return z3.If(a > b if form.signed else z3.UGT(a, b), a, b)

    def _shl(self, i: Instruction, index: int, form: _Form) -> Any:
        count = self._shift(i, index, form)
        return None if count is None else self.operand(i.operands[1], index, form.width) << count

    def _shr(self, i: Instruction, index: int, form: _Form) -> Any:
        a, count = self.operand(i.operands[1], index, form.width), self._shift(i, index, form)
        if count is None:
            return None
        return a >> count if form.signed else z3.LShR(a, count)

    def _shift(self, i: Instruction, index: int, form: _Form) -> Any:
        """The distance of a shift, which has 32 bits and may be more than the width."""
        count = self.operand(i.operands[2], index, 32)
        return _resized(count, form.width) if form.width >= 32 else None

    def _mul(self, i: Instruction, index: int, form: _Form) -> Any:
        a, b = self._two(i, index, form)
        if "lo" in i.modifiers:
            return a * b
        extend = z3.SignExt if form.signed else z3.ZeroExt
        wide = extend(form.width, a) * extend(form.width, b)
        is_wide = "wide" in i.modifiers
        return wide if is_wide else z3.Extract(2 * form.width - 1, form.width, wide)

    def _mad(self, i: Instruction, index: int, form: _Form) -> Any:
        product = self._mul(i, index, form)
        return product + self.operand(i.operands[3], index, product.size())

    def _div(self, i: Instruction, index: int, form: _Form) -> Any:
        a, b = self._two(i, index, form)
        made = a / b if form.signed else z3.UDiv(a, b)
        return z3.If(b == 0, self._fresh(form.width), made)

    def _rem(self, i: Instruction, index: int, form: _Form) -> Any:
        a, b = self._two(i, index, form)
        made = z3.SRem(a, b) if form.signed else z3.URem(a, b)
        return z3.If(b == 0, self._fresh(form.width), made)

    def _selp(self, i: Instruction, index: int, form: _Form) -> Any:
        a, b = self._two(i, index, form)
        return z3.If(self.operand(i.operands[3], index, 1) == 1, a, b)

    def _two(self, i: Instruction, index: int, form: _Form) -> tuple[Any, Any]:
        a, b = i.operands[1:3]
        return self.operand(a, index, form.width), self.operand(b, index, form.width)

    def _compared(self, i: Instruction, index: int) -> Any:
        kind = [m for m in i.modifiers if m in _WIDTHS][-1]
        name = i.modifiers[0]
        signed = {**_COMPARE, **(_SIGNED if kind[0] == "s" else _UNSIGNED)}
        if not _INTEGERS.fullmatch(kind) or name not in signed:
            return None
        a, b = (self.operand(o, index, _WIDTHS[kind]) for o in i.operands[1:3])
        made = z3.If(signed[name](a, b), z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))
        for join in {"and", "or", "xor"} & set(i.modifiers):
            made = _PLAIN[join](made, self.operand(i.operands[3], index, 1))
        return made

    def _converted(self, i: Instruction, index: int, kinds: list[str]) -> Any:
        if len(kinds) != 2 or "sat" in i.modifiers or not all(map(_INTEGERS.fullmatch, kinds)):
            return None
        to, source = kinds
        value = self.operand(i.operands[1], index, _WIDTHS[source])
        more = _WIDTHS[to] - _WIDTHS[source]
        if more <= 0:
            value = z3.Extract(_WIDTHS[to] - 1, 0, value)
        else:
            value = (z3.SignExt if source[0] == "s" else z3.ZeroExt)(more, value)
        # A register that is wider than the type is extended by the type's sign.
        return z3.SignExt(64 - value.size(), value) if to[0] == "s" and value.size() < 64 else value

    def _loaded(self, i: Instruction, index: int, kind: str) -> Any:
        address = i.operands[1]
        if "global" in i.modifiers and isinstance(address, Address):
            return self._element(self._tensor_at(address.base, index), _WIDTHS[kind])
        if "param" in i.modifiers and isinstance(address, Address):
            offset = self._parameter_offset(address.base, index)
            if offset is not None and isinstance(i.operands[0], Register):
                given = self.around.parameters.get(offset + address.offset)
                if given is not None and given.size() == _WIDTHS[kind]:
                    return given
        return None

    def _element(self, tensor: IntegerTensor | None, width: int) -> Any:
        """An element of an input: the contract says which numbers it has."""
        if tensor is None or width != tensor.width:
            return None
        element = self._anything(width)
        wide = _extended(element, 64, signed=tensor.signed)
        self.facts += [wide >= tensor.low, wide <= tensor.high]
        return element

    def _tensor_at(self, base: Operand, index: int) -> IntegerTensor | None:
        """The input of whole numbers into which an address leads, whatever its distance is."""
        if not isinstance(base, Register):
            return None
        made_of = self._pointers_in(self.flow.value_at(base.name, index), set())
        return made_of.pop() if made_of is not None and len(made_of) == 1 else None

    def _pointers_in(self, value: Value, seen: set[Value]) -> set[IntegerTensor | None] | None:
        """What the pointers lead to of which a value is made; None where that is not known.

        A distance may come from anywhere but from memory that a kernel wrote and from other
        threads: a second pointer could be hidden there.
        """
        if value in seen or isinstance(value, Undefined):
            return set()
        seen.add(value)
        if isinstance(value, Phi):
            return _joined(self._pointers_in(part, seen) for _, part in value.values)
        i, index = self.flow.instructions[value.index], value.index
        if i.operation == "ld":
            return self._pointers_loaded(i, index)
        if i.operation not in _OF_OPERANDS:
            return None
        names = [name for operand in i.operands[1:] for name in names_in(operand)]
        names += [value.register, i.predicate.name] if i.predicate is not None else []
        return _joined(self._pointers_in(self.flow.value_at(n, index), seen) for n in names)

    def _pointers_loaded(self, i: Instruction, index: int) -> set[IntegerTensor | None] | None:
        address = i.operands[1]
        if not isinstance(address, Address):
            return None
        if "global" in i.modifiers:  # An index, say: the contract says which numbers it has.
            return set() if self._tensor_at(address.base, index) is not None else None
        offset = self._parameter_offset(address.base, index) if "param" in i.modifiers else None
        if offset is None:
            return None
        at = offset + address.offset
        return {self.around.pointers[at]} if at in self.around.pointers else set()

    def _parameter_offset(self, base: Operand, index: int) -> int | None:
        """Where an address lies in the parameters: a parameter's, or that plus a constant."""
        if isinstance(base, Symbol):
            return self.offsets.get(base.name)
        if isinstance(base, Register):
            address = self.operand(base, index, 64)
            for name, offset in self.offsets.items():
                inside = z3.simplify(address - self._variable(("symbol", name), 64))
                if z3.is_bv_value(inside):
                    return offset + int(inside.as_signed_long())
        return None


_INTEGER = {
    "mov": Terms._mov,
    "cvta": Terms._cvta,
    "not": Terms._not,
    "neg": Terms._neg,
    "abs": Terms._abs,
    "min": Terms._min,
    "max": Terms._max,
    "shl": Terms._shl,
    "shr": Terms._shr,
    "mul": Terms._mul,
    "mad": Terms._mad,
    "div": Terms._div,
    "rem": Terms._rem,
    "selp": Terms._selp,
}


_OF_OPERANDS = {*_PLAIN, *_INTEGER, "setp", "cvt"}
"""Operations whose result is made of their operands alone."""


def _joined(
    parts: Iterable[set[IntegerTensor | None] | None],
) -> set[IntegerTensor | None] | None:
    found: set[IntegerTensor | None] = set()
    for part in parts:
        if part is None:
            return None
        found |= part
    return found


def _extended(term: Any, width: int, *, signed: bool) -> Any:
    return (z3.SignExt if signed else z3.ZeroExt)(width - term.size(), term)


def _resized(term: Any, width: int) -> Any:
    have = term.size()
    if have == width:
        return term
    return z3.Extract(width - 1, 0, term) if have > width else z3.ZeroExt(width - have, term)
