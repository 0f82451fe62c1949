"""Asks a solver whether a launch can take a side of a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import z3

from astra_tui.emulator.program import is_condition
from astra_tui.emulator.ptx.module import Immediate
from astra_tui.lab.conditions.contract import Launches
from astra_tui.lab.conditions.flow import ControlFlowGraph, Edge
from astra_tui.lab.conditions.terms import Terms

_HARD = {
    *(z3.Z3_OP_BMUL, z3.Z3_OP_BUDIV, z3.Z3_OP_BUREM, z3.Z3_OP_BSDIV, z3.Z3_OP_BSREM),
    *(z3.Z3_OP_BUDIV_I, z3.Z3_OP_BUREM_I, z3.Z3_OP_BSDIV_I, z3.Z3_OP_BSREM_I),
}
"""Operations that cost a solver for bit vectors much, unless one operand is a number."""


_EASY_STEPS = 50_000
_MOST_NODES = 64
"""Of a predicate that may show code to be dead: flags, null pointers and sizes are small."""


@dataclass(frozen=True)
class Query:
    """What would have to hold for a side to be taken.

    `sides` are the values that take it, a term for each copy of the condition, `ways` the same
    with what holds wherever the copy is reached.
    """

    sides: tuple[Any, ...]
    ways: tuple[Any, ...]
    facts: Facts
    has_data: bool
    is_dead: Callable[[], bool] = lambda: False
    """Whether it is proved that no launch comes to any copy of the condition."""

    def is_impossible(self, steps: Callable[[], int], *, thorough: bool) -> bool:
        """Whether it is proved that nothing takes the side.

        Fewer facts make a proof cheaper, so those about the condition's own variables that need
        no product or quotient of unknowns come first, then what stands where nothing leads.
        `thorough` goes to all, and to what holds on the way.
        """
        if self.facts.refute_easily(self.sides) or self.is_dead():
            return True
        if self.facts.refute_easily(self.ways):
            return True
        return thorough and (
            self._is_refuted(steps, self.facts.about(self.sides), self.sides)
            or self._is_refuted(steps, self.facts.about(self.ways), self.ways)
            or self._is_refuted(steps, self.facts.all, self.ways)
        )

    def _is_refuted(
        self, steps: Callable[[], int], facts: Iterable[Any], ways: Iterable[Any]
    ) -> bool:
        return bool(solver_of(steps(), [*facts, z3.Or(*ways)]).check() == z3.unsat)

    def is_refuted_with(self, steps: int, more: list[Any]) -> bool:
        """Whether it takes few steps to see that nothing leads there where more holds."""
        return bool(self.solver(steps, more).check() == z3.unsat)

    def solver(self, steps: int, more: list[Any]) -> z3.Solver:
        """A solver whose solutions take the side, as far as the terms know."""
        return solver_of(steps, [*self.facts.all, z3.Or(*self.ways), *more])


class Facts:
    """What holds of every launch, with the variables of each fact, which are looked up once."""

    def __init__(self, facts: Iterable[Any] = (), more: Facts | None = None):
        self._known: list[tuple[Any, set[str], bool]] = [] if more is None else [*more._known]
        self.add(facts)

    def add(self, facts: Iterable[Any]) -> None:
        """Adds some."""
        self._known += [(f, _variables(f), not any(map(_is_hard, _nodes(f)))) for f in facts]

    @property
    def all(self) -> list[Any]:
        """Every fact."""
        return [fact for fact, _, _ in self._known]

    def about(self, terms: Iterable[Any], *, easy: bool = False) -> list[Any]:
        """Those that have no other variables than some terms; the easy ones need no product or
        quotient of unknowns.
        """
        names = set().union(*map(_variables, terms))
        return [f for f, own, is_easy in self._known if own <= names and (is_easy or not easy)]

    def refute_easily(self, ways: Sequence[Any]) -> bool:
        """Whether nothing leads there by the easy ones."""
        facts = self.about(ways, easy=True)
        return bool(solver_of(_EASY_STEPS, [*facts, z3.Or(*ways)]).check() == z3.unsat)


class DeadCode:
    """The blocks of a function to which a launch never comes: every edge to them has a predicate
    that its own operands refute, or begins in such a block.
    """

    def __init__(self, flow: ControlFlowGraph, launch: Launches):
        self._flow = flow
        self.facts = Facts(launch.facts)
        """Of the launch alone."""
        self._terms = Terms(flow, launch.context)
        self._of_terms = Facts(more=self.facts)
        self._known: dict[int, bool] = {0: False}

    def has(self, index: int) -> bool:
        """Whether an instruction stands in such a block."""
        block = self._flow.block_of[index]
        waiting = [block]
        while waiting:
            sources = [e.source for e in self._flow.forward(waiting[-1])]
            unknown = [s for s in sources if s not in self._known]
            if unknown and waiting[-1] not in self._known:
                waiting += unknown
            else:
                self._decide(waiting.pop())
        return self._known[block]

    def _decide(self, block: int) -> None:
        if block not in self._known:
            self._known[block] = all(
                self._known[e.source] or self._is_never_taken(e) for e in self._flow.forward(block)
            )

    def _is_never_taken(self, edge: Edge) -> bool:
        if edge.predicate is None:
            return False
        value = self._flow.value_at_end(edge.predicate.name, edge.source)
        before = len(self._terms.facts)
        taken = z3.simplify(self._terms.value(value, 1) == (1 if edge.wanted else 0))
        self._of_terms.add(self._terms.facts[before:])
        if z3.is_true(taken) or z3.is_false(taken):
            return bool(z3.is_false(taken))
        is_small = sum(1 for _ in islice(_nodes(taken), _MOST_NODES)) < _MOST_NODES
        return is_small and self._of_terms.refute_easily([taken])


def query_for(
    number: int, side: bool, flow: ControlFlowGraph, launch: Launches, dead: DeadCode
) -> Query:
    """The query for one side of a condition under one launch."""
    terms = Terms(flow, launch.context)
    sides, ways, places = [], [], []
    for index, instruction in enumerate(flow.instructions):
        reachable = flow.idom[flow.block_of[index]] >= 0
        if reachable and is_condition(instruction) and instruction.operands[0] == Immediate(number):
            places.append(index)
            value = terms.operand(instruction.operands[1], index, 32)
            holds = value != 0 if side else value == 0
            sides.append(holds)
            ways.append(z3.And(terms.reached(index), holds))
    facts = Facts(terms.facts, dead.facts)
    is_dead = cache(lambda: all(map(dead.has, places)))
    return Query(tuple(sides), tuple(ways), facts, terms.has_data, is_dead)


def solver_of(steps: int, facts: list[Any]) -> z3.Solver:
    """A solver of what holds, that gives up after so many steps."""
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
