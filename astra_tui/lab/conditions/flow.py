"""The control flow of a PTX function, and where each register's value comes from.

Registers get one value a definition (static single assignment): a definition's result, or a merge
of the values that meet where control flow comes together. Two uses of one value in blocks that
its definition dominates see the same number, which is what lets branch conditions on the way to
an instruction be combined with the instruction's own operands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_tui.emulator.ptx.module import (
    Function,
    Instruction,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from astra_tui.model.dominators import immediate_dominators, reverse_postorder

_LEAVES = {"ret", "exit", "trap"}


@dataclass(frozen=True)
class Edge:
    """Control that goes from the end of one block to another, and when.

    `predicate` is None where it always does, or where nothing is known of when.
    """

    source: int
    target: int
    predicate: Register | None = None
    wanted: bool = True


@dataclass
class BasicBlock:
    """Instructions that run one after another, from `first` up to, but without, `end`."""

    first: int
    end: int
    into: list[Edge] = field(default_factory=list)
    out: list[Edge] = field(default_factory=list)


@dataclass(frozen=True)
class Definition:
    """What the instruction at an index gives to one of its registers."""

    index: int
    register: str


@dataclass(frozen=True)
class Undefined:
    """A register that nothing was written to."""

    register: str


@dataclass(eq=False)
class Phi:
    """Values of a register that meet at a block; each with the edge over which it comes."""

    block: int
    register: str
    values: list[tuple[Edge, Value]] = field(default_factory=list)
    same_as: Value | None = None
    """The only value that can come in, where there is just one."""


Value = Definition | Undefined | Phi


class ControlFlowGraph:
    """Blocks, dominators and values of a function whose calls are inlined."""

    def __init__(self, function: Function):
        self.instructions = function.instructions
        self.function = function
        self.blocks: list[BasicBlock] = []
        self.block_of: list[int] = []
        self._split()
        self._connect()
        self.idom = self._dominators()
        self._written: list[dict[str, list[int]]] = [self._writes(b) for b in self.blocks]
        self._entries: dict[tuple[int, str], Value] = {}

    # -- blocks ----------------------------------------------------------------------------------

    def _split(self) -> None:
        count = len(self.instructions)
        leaders = {0, *(i for i in self.function.labels.values() if i < count)}
        for index, instruction in enumerate(self.instructions[:-1]):
            if instruction.operation in ("bra", "brx", *_LEAVES):
                leaders.add(index + 1)
        starts = sorted(leaders)
        for first, end in zip(starts, [*starts[1:], count], strict=True):
            self.block_of += [len(self.blocks)] * (end - first)
            self.blocks.append(BasicBlock(first, end))

    def _connect(self) -> None:
        for number, block in enumerate(self.blocks):
            for edge in self._edges(number, self.instructions[block.end - 1], block.end):
                block.out.append(edge)
                self.blocks[edge.target].into.append(edge)

    def _edges(self, number: int, last: Instruction, following: int) -> list[Edge]:
        predicate, wanted = last.predicate, not last.negated
        edges = []
        if last.operation == "bra":
            target = last.operands[0]
            assert isinstance(target, Symbol)
            edges += self._to(number, self.function.labels[target.name], predicate, wanted)
            if predicate is None:
                return edges
        elif last.operation == "brx":
            table = last.operands[1]
            assert isinstance(table, Symbol)
            for label in dict.fromkeys(self.function.tables[table.name]):
                edges += self._to(number, self.function.labels[label], None, True)
            return edges
        elif last.operation in _LEAVES and predicate is None:
            return []
        conditional = predicate if last.operation in ("bra", *_LEAVES) else None
        return edges + self._to(number, following, conditional, not wanted)

    def _to(self, source: int, index: int, predicate: Register | None, wanted: bool) -> list[Edge]:
        if index >= len(self.instructions):
            return []
        return [Edge(source, self.block_of[index], predicate, wanted)]

    def _dominators(self) -> list[int]:
        """The nearest block that each block can be reached through only; -1 for none."""
        after = [[edge.target for edge in block.out] for block in self.blocks]
        before = [[edge.source for edge in block.into] for block in self.blocks]
        found = immediate_dominators(reverse_postorder(0, after), before)
        return [found.get(block, -1) for block in range(len(self.blocks))]

    def dominates(self, above: int, block: int) -> bool:
        """Whether a block can be reached through another one only."""
        while block != above:
            if block == 0 or self.idom[block] < 0:
                return False
            block = self.idom[block]
        return True

    def forward(self, block: int) -> list[Edge]:
        """The edges into a block that do not close a loop."""
        return [
            e
            for e in self.blocks[block].into
            if self.idom[e.source] >= 0 and not self.dominates(block, e.source)
        ]

    def is_reducible(self) -> bool:
        """Whether every loop is closed by an edge to a block that dominates its source."""
        waiting = {n: len(self.forward(n)) for n in range(len(self.blocks)) if self.idom[n] >= 0}
        free = [n for n, count in waiting.items() if not count]
        done = 0
        while free:
            done += 1
            for edge in self.blocks[free.pop()].out:
                if edge in self.forward(edge.target):
                    waiting[edge.target] -= 1
                    if not waiting[edge.target]:
                        free.append(edge.target)
        return done == len(waiting)

    # -- values ----------------------------------------------------------------------------------

    def _writes(self, block: BasicBlock) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for index in range(block.first, block.end):
            for register in written(self.instructions[index]):
                found.setdefault(register, []).append(index)
        return found

    def value_at(self, register: str, index: int) -> Value:
        """The value that an instruction reads from a register."""
        block = self.block_of[index]
        before = [i for i in self._written[block].get(register, ()) if i < index]
        if before:
            return Definition(before[-1], register)
        return _unmerged(self._at_entry(register, block))

    def value_at_end(self, register: str, block: int) -> Value:
        """The value of a register where a block ends."""
        return _unmerged(self._at_end(register, block))

    def _at_end(self, register: str, block: int) -> Value:
        inside = self._written[block].get(register)
        return Definition(inside[-1], register) if inside else self._at_entry(register, block)

    def _at_entry(self, register: str, block: int) -> Value:
        key = (block, register)
        if key not in self._entries:
            into = [e for e in self.blocks[block].into if self.idom[e.source] >= 0]
            if block == 0 or not into:
                self._entries[key] = Undefined(register)
            elif len(into) == 1:
                self._entries[key] = self._at_end(register, into[0].source)
            else:
                self._entries[key] = self._merged(register, block, into)
        return _resolved(self._entries[key])

    def _merged(self, register: str, block: int, into: list[Edge]) -> Value:
        merge = Phi(block, register)
        self._entries[(block, register)] = merge
        merge.values = [(e, self._at_end(register, e.source)) for e in into]
        others = {v for _, v in merge.values if _resolved(v) is not merge}
        if len(others) == 1:
            merge.same_as = others.pop()
        return _resolved(merge)


def _resolved(value: Value) -> Value:
    while isinstance(value, Phi) and value.same_as is not None:
        value = value.same_as
    return value


def _unmerged(value: Value) -> Value:
    """The value itself, or the only one that merges of merges, as those of loops, consist of."""
    value = _resolved(value)
    if not isinstance(value, Phi):
        return value
    merges, others, waiting = {value}, set[Value](), [value]
    while waiting and len(others) < 2:
        for _, part in waiting.pop().values:
            part = _resolved(part)
            if not isinstance(part, Phi):
                others.add(part)
            elif part not in merges:
                merges.add(part)
                waiting.append(part)
    if len(others) != 1:
        return value
    for merge in merges:
        (merge.same_as,) = others
    return _resolved(value)


_WRITES_NOTHING = {
    *("st", "bra", "brx", "ret", "exit", "trap", "red", "bar", "barrier", "fence", "membar"),
    *("prefetch", "prefetchu", "astra", "nanosleep", "brkpt", "pmevent", "stmatrix", "cp"),
}


def written(instruction: Instruction) -> list[str]:
    """The registers that an instruction writes, or may write."""
    operands = instruction.operands
    if instruction.operation in _WRITES_NOTHING and not _gives_result(instruction):
        return []
    if instruction.operation == "call" or not operands:
        return [n for o in operands for n in names_in(o)]
    return names_in(operands[0])


def _gives_result(instruction: Instruction) -> bool:
    return instruction.operation in ("bar", "barrier") and "red" in instruction.modifiers


def names_in(operand: Operand) -> list[str]:
    """The registers of an operand."""
    match operand:
        case Register(name=name):
            return [name]
        case Vector(items=items):
            return [i.name for i in items if isinstance(i, Register)]
        case Pair(first=first, second=second):
            return [first.name, second.name]
        case _:
            return []
