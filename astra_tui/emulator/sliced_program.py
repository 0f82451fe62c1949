"""The slice of a kernel as a program of its own, which the skeleton of a grid runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astra_tui.emulator.control_flow import CONTROL
from astra_tui.emulator.ptx.module import Immediate
from astra_tui.emulator.slicing import Slice
from astra_tui.emulator.step import Flow, Step


@dataclass
class Op:
    """A step of the slice. `index` is its place in the whole program."""

    index: int
    step: Step
    target: int = -1
    """Where a branch leads; where the sides of a data branch meet."""
    targets: tuple[int, ...] = ()
    """The entries of a table; the sides of a data branch."""
    is_store: bool = False
    outcome: int = -1
    """The slot whose truth value is to be noted after it."""
    constant: int = -1
    """The truth value that is to be noted, where it is none of a slot."""
    runs: bool = True
    live: frozenset[int] = frozenset()
    """The register slots that are read here or later."""

    @property
    def is_data_branch(self) -> bool:
        """Whether data decides where it leads, so that it leads everywhere."""
        return self.step.flow is Flow.TABLE and self.step.selector is None


def sliced_program(part: Slice) -> list[Op]:
    """The slice as a program of its own, with the registers that each step still needs."""
    return _Builder(part).ops()


class _Builder:
    """Makes the slice a program of its own."""

    def __init__(self, part: Slice):
        self.part = part

    def ops(self) -> list[Op]:
        kept: list[Op] = []
        begins: list[int] = []
        # Places beyond the last step stand for the end.
        for index, step in enumerate(self.part.program.steps):
            begins.append(len(kept))
            made = self._op(index, step)
            if made is not None:
                kept.append(made)
        begins.append(len(kept))
        for op in kept:
            op.target = begins[op.target] if op.target >= 0 else -1
            op.targets = tuple(begins[t] for t in op.targets)
        _note_live(kept)
        return kept

    def _op(self, index: int, step: Step) -> Op | None:
        part = self.part
        if index in part.skips:
            return _jump(index, part.skips[index])
        if index in part.stores:
            return self._store(index, step)
        if step.flow in CONTROL:
            if index in part.data_branches:
                data_branch = part.data_branches[index]
                return Op(index, Step(Flow.TABLE), data_branch.meets, data_branch.sides)
            return Op(index, step, step.target, step.targets)
        if index in part.roots:
            return self._root(index, step)
        return Op(index, step) if index in part.steps else None

    def _root(self, index: int, step: Step) -> Op:
        """A root, with the predicate that it writes, the register that it reads, or a constant."""
        predicates = [s for s in step.writes if self.part.program.slot_dtypes[s].kind == "b"]
        if predicates or step.reads:
            outcome = min(predicates or step.reads)
            return Op(index, step, outcome=outcome, runs=bool(predicates))
        constant = self.part.program.instructions[index].operands[-1]
        assert isinstance(constant, Immediate)
        return Op(index, step, constant=int(constant.value != 0), runs=False)

    def _store(self, index: int, step: Step) -> Op | None:
        """A store, taken to happen where data decides whether; None where its address is data."""
        if step.addresses & self.part.tainted:
            return None
        if step.predicate in self.part.tainted:
            step = step.copy()
            step.predicate = -1
        return Op(index, step, is_store=True)


def _jump(index: int, target: int) -> Op:
    return Op(index, Step(Flow.BRANCH), target)


def _note_live(ops: list[Op]) -> None:
    """Finds for each op the registers that it or a later one reads."""
    following = [list(_after(n, op)) for n, op in enumerate(ops)]
    changed = True
    while changed:
        changed = False
        for number in range(len(ops) - 1, -1, -1):
            op = ops[number]
            reads = op.step.addresses if op.is_store else op.step.reads
            live = set(reads) | ({op.step.predicate} if op.step.predicate >= 0 else set())
            later = {s for n in following[number] if n < len(ops) for s in ops[n].live}
            live |= later if op.step.predicate >= 0 else later - op.step.writes
            if op.outcome >= 0 and not op.runs:
                live.add(op.outcome)
            if live != op.live:
                op.live, changed = frozenset(live), True


def _after(number: int, op: Op) -> Iterator[int]:
    if op.step.flow is Flow.BRANCH:
        yield op.target
    elif op.step.flow is Flow.TABLE:
        yield from op.targets
    if op.is_data_branch:
        return
    if op.step.flow not in CONTROL or op.step.predicate >= 0:
        yield number + 1
