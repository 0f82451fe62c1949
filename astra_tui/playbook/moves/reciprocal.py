"""Divides once and multiplies from then on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from dataclasses import replace as replace_

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.syntax import (
    LOOPS,
    ancestors,
    arguments_of,
    bare,
    called_name,
    contains,
    field,
    line_of,
    named,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.cuda_source.types import is_float
from astra_tui.model.plan import Choice, Counter, Plan, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit, insert_after, insert_before, replace
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.invariance import Invariance
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.tolerance import tight_tolerance

NEGLIGIBLE = 0.02
"""The share of warp instructions below which a division is not worth a round."""


@dataclass(frozen=True)
class _Divisor:
    """A variable that never changes, and the float divisions by it."""

    function: Function
    variable: Variable | None
    """None for what is loaded from a place that the loop does not write."""
    divisions: tuple[Node, ...]

    def at(self, lines: Collection[Choice]) -> _Divisor | None:
        """The divisor with its divisions on some lines only, None where it has none there."""
        divisions = tuple(d for d in self.divisions if line_of(d) in lines)
        return replace_(self, divisions=divisions) if divisions else None

    def root(self) -> Node | None:
        """What the divisor is the square root of, where it serves for nothing but division."""
        value = self.variable.value if self.variable is not None else None
        if self.variable is None or value is None or self.variable.type != "float":
            return None
        value = bare(value)
        if value.type != "call_expression" or called_name(value) not in ("sqrtf", "sqrt"):
            return None
        if len(self.function.uses(self.variable)) != len(self.divisions):
            return None
        only = (
            len([c for c in named(self.variable.declaration) if c.type == "init_declarator"]) == 1
        )
        operand = arguments_of(value)[0]
        return operand if only and is_float(operand, self.function) else None


class Reciprocal:
    """x / d, with the same d again and again, becomes x * (1 / d)."""

    name = "reciprocal"
    summary = "one reciprocal, or rsqrtf, in place of repeated divisions"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (0.9, 1.2)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every divisor that is used in several divisions, or in each iteration of a loop.

        The reciprocal of one that is loaded stands where the division stood: it waits for no load
        that the source does not wait for, and the compiler shares it among a thread's elements.
        """
        tight = tight_tolerance(evidence.task)
        if tight:
            return NotApplicable(self.name, tight)
        found = _without_nested([d for f in source.functions for d in _divisors(source, f)])
        if not found:
            return NotApplicable(self.name, "no repeated float division by a loop-invariant value")
        lines = evidence.lines(n for divisor in found for n in divisor.divisions)
        found = [d for divisor in found if (d := divisor.at(lines.chosen))]
        names = source.names()
        edits = [e for divisor in found for e in _rewrite(source, divisor, names)]
        nodes = [n for divisor in found for n in divisor.divisions]
        part = share(evidence.counters, Counter.WARP_INSTRUCTIONS, nodes)
        if part is not None and part < NEGLIGIBLE:
            return NotApplicable(
                self.name, f"{lines_text(nodes)}: {part:.1%} of all warp instructions, too few"
            )
        roots = any(d.root() is not None for d in found)
        plan = Plan(
            title="Multiply by the reciprocal",
            bottleneck="divisions by one and the same value; a correctly rounded division takes "
            "about ten instructions, a product one",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: the reciprocal is computed once"
            + (", by rsqrtf where the divisor is a square root" if roots else "")
            + ". Results may differ in the last place, and more where the divisor is subnormal.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, part, 0.5, (1.0, 1.2), 0.2),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
            parameters=settable(lines),
        )
        return Proposal(plan, source.changed(edits))


def _divisors(source: KernelText, function: Function) -> list[_Divisor]:
    by_variable: dict[int, tuple[Variable, list[Node]]] = {}
    loaded: list[_Divisor] = []
    for node in of_type(function.body, "binary_expression"):
        if operator_of(node) != "/" or not is_float(node, function):
            continue
        divisor = bare(field(node, "right"))
        if not is_one(field(node, "left")) and _stays_in_memory(source, function, divisor):
            loaded.append(_Divisor(function, None, (node,)))
        variable = function.lookup(text_of(divisor), divisor)
        if divisor.type != "identifier" or variable is None or not variable.is_scalar:
            continue
        key = variable.declarator.start_byte
        by_variable.setdefault(key, (variable, []))[1].append(node)
    return [
        _Divisor(function, variable, tuple(divisions))
        for variable, divisions in by_variable.values()
        if function.is_constant(variable) and _is_repeated(variable, divisions, function)
    ] + loaded


def is_one(node: Node) -> bool:
    """Whether an expression is the number 1, in one of its spellings."""
    return text_of(bare(node)).rstrip("fF") in ("1.0", "1.", "1")


def _stays_in_memory(source: KernelText, function: Function, divisor: Node) -> bool:
    """Whether a divisor is a float that each iteration of a loop loads again, such as a scale."""
    loops = [a for a, _ in ancestors(divisor) if a.type in LOOPS]
    if divisor.type not in ("subscript_expression", "pointer_expression") or not loops:
        return False
    return is_float(divisor, function) and Invariance(source, function, loops[0]).holds(divisor)


def _without_nested(divisors: list[_Divisor]) -> list[_Divisor]:
    """Leaves out divisions inside of a root that is rewritten as a whole; they are rare then."""
    roots = [d.variable.declaration for d in divisors if d.variable and d.root() is not None]
    return [
        d for d in divisors
        if not any(contains(r, n) for r in roots for n in d.divisions)
    ]  # fmt: skip


def _is_repeated(variable: Variable, divisions: list[Node], function: Function) -> bool:
    """Whether the divisor is used twice, in a loop, or is a root that could be inverted."""
    if len(divisions) > 1 or _Divisor(function, variable, tuple(divisions)).root() is not None:
        return True
    loops = [a for a, _ in ancestors(divisions[0]) if a.type in LOOPS]
    return any(not contains(loop, variable.declaration) for loop in loops)


def _rewrite(source: KernelText, divisor: _Divisor, names: set[str]) -> list[Edit]:
    variable = divisor.variable
    if variable is None:
        texts = [(d, text_of(field(d, "right"))) for d in divisor.divisions]
        return [e for d, text in texts for e in _product(d, f"(1.0f / {text})")]
    inverse = fresh_name(f"inverse_{variable.name}", names)
    edits = [e for d in divisor.divisions for e in _product(d, inverse)]
    root = divisor.root()
    if root is not None:
        text = f"const float {inverse} = rsqrtf({text_of(root)});"
        return [*edits, replace(variable.declaration, text)]
    line = f"const float {inverse} = 1.0f / {variable.name};"
    if variable.is_parameter:
        first = named(divisor.function.body)[0]
        return [*edits, insert_before(source.data, first, [line])]
    return [*edits, insert_after(source.data, variable.declaration, [line])]


def _product(division: Node, inverse: str) -> list[Edit]:
    operator = field(division, "operator")
    return [replace(operator, "*"), replace(field(division, "right"), inverse)]
