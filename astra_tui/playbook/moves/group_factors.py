"""Multiplies what a loop does not change by itself first, once and not with every element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import (
    LOOPS,
    ancestors,
    bare,
    contains,
    field,
    line_of,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.cuda_source.types import is_float
from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import outermost, replace
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.invariance import Invariance
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.tolerance import tight_tolerance


@dataclass(frozen=True)
class _Product:
    """A float product in a loop."""

    node: Node
    factors: tuple[Node, ...]
    fixed: tuple[Node, ...]
    """Those that no iteration changes."""

    def text(self) -> str:
        """With the factors that stay as one, where the first of them stood."""
        one = f"({' * '.join(map(text_of, self.fixed))})"
        texts = [
            one if factor == self.fixed[0] else text_of(factor)
            for factor in self.factors
            if factor not in self.fixed[1:]
        ]
        return " * ".join(texts)


class GroupFactors:
    """x * f * w * g, with f and g the same for every element, becomes x * (f * g) * w.

    C++ multiplies from the left, so that a compiler may not do it.
    """

    name = "group_factors"
    summary = "factors that are the same for all elements are multiplied once"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (0.99, 1.05)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every product of a loop with two such factors or more that are apart."""
        tight = tight_tolerance(evidence.task)
        if tight:
            return NotApplicable(self.name, tight)
        found = [p for function in source.functions for p in _products(source, function)]
        if not found:
            return NotApplicable(
                self.name, "no float product in a loop has two factors apart that stay the same"
            )
        lines = evidence.lines(p.node for p in found)
        found = [p for p in found if line_of(p.node) in lines.chosen]
        nodes = [p.node for p in found]
        part = share(evidence.counters, Counter.WARP_INSTRUCTIONS, nodes)
        plan = Plan(
            title="Multiply what stays the same once",
            bottleneck="each element is multiplied by several values that all elements share, one "
            "after the other",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: the factors that no iteration changes are one factor, "
            "which the compiler computes before the loop. Results may differ in the last place, "
            "and more where that factor alone is too large or too small for a float.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, part, 0.1, (1.0, 1.05), 0.1),
            risk=Risk.MEDIUM,
            places=places_of(nodes),
            move=self.name,
            parameters=settable(lines),
        )
        return Proposal(plan, source.changed(replace(p.node, p.text()) for p in found))


def _products(source: KernelText, function: Function) -> Iterator[_Product]:
    every = [n for n in of_type(function.body, "binary_expression") if operator_of(n) == "*"]
    for node in outermost(every):
        loop = next((above for above, _ in ancestors(node) if above.type in LOOPS), None)
        factors = tuple(_factors(node))
        if loop is None or not all(is_float(f, function) for f in factors):
            continue
        invariance = Invariance(source, function, loop)
        fixed = tuple(f for f in factors if _stays(invariance, f))
        product = _Product(node, factors, fixed)
        is_done = product.text().split() == text_of(node).split() if fixed else True
        if 1 < len(fixed) < len(factors) and fixed != factors[: len(fixed)] and not is_done:
            yield product


def _factors(node: Node) -> Iterator[Node]:
    inner = bare(node)
    if inner.type == "binary_expression" and operator_of(inner) == "*":
        yield from _factors(field(inner, "left"))
        yield from _factors(field(inner, "right"))
    else:
        yield node


def _stays(invariance: Invariance, factor: Node) -> bool:
    """Whether each iteration has the same value for it, also by a local that is computed again."""
    factor, function = bare(factor), invariance.function
    variable = function.lookup(text_of(factor), factor) if factor.type == "identifier" else None
    if variable is None or not contains(invariance.loop, variable.declaration):
        return invariance.holds(factor)
    if variable.value is None or not variable.is_scalar or not function.is_constant(variable):
        return False
    return invariance.holds(variable.value)
