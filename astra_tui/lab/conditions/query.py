"""Asks a solver whether a launch can take a side of a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import z3

from astra_tui.emulator.program import is_condition
from astra_tui.emulator.ptx.module import Immediate
from astra_tui.lab.conditions.contract import Launches
from astra_tui.lab.conditions.flow import ControlFlowGraph
from astra_tui.lab.conditions.terms import Terms

_HARD = {
    *(z3.Z3_OP_BMUL, z3.Z3_OP_BUDIV, z3.Z3_OP_BUREM, z3.Z3_OP_BSDIV, z3.Z3_OP_BSREM),
    *(z3.Z3_OP_BUDIV_I, z3.Z3_OP_BUREM_I, z3.Z3_OP_BSDIV_I, z3.Z3_OP_BSREM_I),
}
"""Operations that cost a solver for bit vectors much, unless one operand is a number."""


_EASY_STEPS = 50_000


@dataclass(frozen=True)
class Query:
    """What would have to hold for a side to be taken.

    `sides` are the values that take it, a term for each copy of the condition, `ways` the same
    with what holds wherever the copy is reached.
    """

    sides: tuple[Any, ...]
    ways: tuple[Any, ...]
    facts: tuple[Any, ...]
    has_data: bool

    def is_impossible(self, steps: Callable[[], int], *, thorough: bool) -> bool:
        """Whether it is proved that nothing takes the side.

        Fewer facts make a proof cheaper, so those about the condition's own variables that need
        no product or quotient of unknowns come first. `thorough` goes to all, and to what holds
        on the way.
        """
        own = self._facts_about(self.sides)
        easy = [f for f in own if not any(map(_is_hard, _nodes(f)))]
        if _solver(_EASY_STEPS, [*easy, z3.Or(*self.sides)]).check() == z3.unsat:
            return True
        return thorough and (
            self._is_refuted(steps, own, self.sides)
            or self._is_refuted(steps, self._facts_about(self.ways), self.ways)
            or self._is_refuted(steps, self.facts, self.ways)
        )

    def _facts_about(self, terms: Iterable[Any]) -> list[Any]:
        """The facts that have no other variables than some terms."""
        known = set().union(*map(_variables, terms))
        return [f for f in self.facts if _variables(f) <= known]

    def _is_refuted(
        self, steps: Callable[[], int], facts: Iterable[Any], ways: Iterable[Any]
    ) -> bool:
        return bool(_solver(steps(), [*facts, z3.Or(*ways)]).check() == z3.unsat)

    def solver(self, steps: int, more: list[Any]) -> z3.Solver:
        """A solver whose solutions take the side, as far as the terms know."""
        return _solver(steps, [*self.facts, z3.Or(*self.ways), *more])


def query_for(number: int, side: bool, flow: ControlFlowGraph, launch: Launches) -> Query:
    """The query for one side of a condition under one launch."""
    terms = Terms(flow, launch.context)
    sides, ways = [], []
    for index, instruction in enumerate(flow.instructions):
        reachable = flow.idom[flow.block_of[index]] >= 0
        if reachable and is_condition(instruction) and instruction.operands[0] == Immediate(number):
            value = terms.operand(instruction.operands[1], index, 32)
            holds = value != 0 if side else value == 0
            sides.append(holds)
            ways.append(z3.And(terms.reached(index), holds))
    facts = (*launch.facts, *terms.facts)
    return Query(tuple(sides), tuple(ways), facts, terms.has_data)


def _solver(steps: int, facts: list[Any]) -> z3.Solver:
    solver = z3.SolverFor("QF_BV")
    solver.set("rlimit", steps)
    solver.add(*facts)
    return solver


def _variables(term: Any) -> set[str]:
    """The names of the free variables of a term."""
    return {
        n.decl().name()
        for n in _nodes(term)
        if z3.is_const(n) and n.decl().kind() == z3.Z3_OP_UNINTERPRETED
    }


def _is_hard(node: Any) -> bool:
    """Whether it is a product of two unknowns, or a quotient or remainder by one."""
    if not z3.is_app(node) or node.decl().kind() not in _HARD:
        return False
    # Numbers are written with their upper bits cut off, so only simplified they are seen.
    unknown = [not z3.is_bv_value(z3.simplify(child)) for child in node.children()]
    return sum(unknown) > 1 if node.decl().kind() == z3.Z3_OP_BMUL else unknown[1]


def _nodes(term: Any) -> Iterator[Any]:
    seen, stack = set(), [term]
    while stack:
        node = stack.pop()
        if node.get_id() not in seen:
            seen.add(node.get_id())
            yield node
            stack.extend(node.children())
