"""Index expressions as polynomials over the names and values that they are made of.

`row * 2 * d + i` is `2 * [row][d] + [i]`. What is no sum or product is an atom of its own; integer
division and remainder are atoms that remember their operands, since `i / d` and `i % d` matter for
indices. Casts between integers are ignored: overflow is taken not to happen, as in the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_sitter import Node

from astra_tui.cuda_source import polynomial
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.polynomial import constant, of_atom
from astra_tui.cuda_source.syntax import (
    bare,
    cast_of,
    contains,
    identifiers_in,
    integer_of,
    operator_of,
    text_of,
)
from astra_tui.cuda_source.syntax import field as child
from astra_tui.cuda_source.types import INTEGER_TYPES

Polynomial = polynomial.Polynomial[str]

THREAD = of_atom("threadIdx.x")
BLOCK_THREADS = of_atom("blockDim.x")
GLOBAL_THREAD = of_atom("blockIdx.x") * BLOCK_THREADS + THREAD
GRID_THREADS = of_atom("gridDim.x") * BLOCK_THREADS


@dataclass(frozen=True)
class Division:
    """The operands of an atom that is `numerator / denominator` or the remainder of it."""

    operator: str
    numerator: Polynomial
    denominator: Polynomial


@dataclass
class IndexReader:
    """Reads the index expressions of one function; locals that never change are followed."""

    function: Function
    divisions: dict[str, Division] = field(default_factory=dict)
    names_of: dict[str, frozenset[str]] = field(default_factory=dict)
    """The names that an atom depends on."""

    def read(self, node: Node) -> Polynomial:
        """The polynomial of an integer expression."""
        node = bare(node)
        value = integer_of(node)
        if value is not None:
            return constant(value)
        match node.type:
            case "identifier":
                return self._name(node)
            case "binary_expression":
                return self._binary(node)
            case "unary_expression" if operator_of(node) == "-":
                return -self.read(child(node, "argument"))
            case "unary_expression" if operator_of(node) == "+":
                return self.read(child(node, "argument"))
        cast = cast_of(node)
        if cast is not None and cast[0] in INTEGER_TYPES:
            return self.read(cast[1])
        return self._atom(canonical(node), self._dependencies(node))

    def depends_on(self, index: Polynomial, name: str) -> bool:
        """Whether a polynomial changes with a variable, directly or inside of an atom."""
        return any(name in self.names_of.get(a, frozenset({a})) for a in index.atoms())

    def _atom(self, text: str, names: frozenset[str]) -> Polynomial:
        self.names_of[text] = names
        return of_atom(text)

    def _dependencies(self, node: Node) -> frozenset[str]:
        found: set[str] = set()
        for name in identifiers_in(node):
            variable = self.function.lookup(name, node)
            found.add(name)
            value = variable.value if variable is not None else None
            if value is None or variable is None or contains(value, node):
                continue  # As in `int width = Traits::width`.
            if self.function.is_constant(variable):
                found |= self._dependencies(value)
        return frozenset(found)

    def _name(self, node: Node) -> Polynomial:
        name = text_of(node)
        variable = self.function.lookup(name, node)
        followed = (
            variable is not None
            and variable.value is not None
            and not contains(variable.value, node)
            and variable.is_scalar
            and variable.type in INTEGER_TYPES | {"auto"}
            and self.function.is_constant(variable)
        )
        if followed and variable is not None and variable.value is not None:
            return self.read(variable.value)
        return self._atom(name, frozenset({name}))

    def _binary(self, node: Node) -> Polynomial:
        left, right = child(node, "left"), child(node, "right")
        operator = operator_of(node)
        if operator in ("/", "%"):
            return self._division(operator, self.read(left), self.read(right))
        if operator in ("<<", ">>") and (bits := integer_of(bare(right))) is not None:
            scale = constant(1 << bits)
            if operator == "<<":
                return self.read(left) * scale
            return self._division("/", self.read(left), scale)
        match operator:
            case "+":
                return self.read(left) + self.read(right)
            case "-":
                return self.read(left) + -self.read(right)
            case "*":
                return self.read(left) * self.read(right)
        return self._atom(canonical(node), self._dependencies(node))

    def _division(self, operator: str, top: Polynomial, bottom: Polynomial) -> Polynomial:
        if bottom.number == 1:
            return top if operator == "/" else constant(0)
        if top.number is not None and bottom.number and min(top.number, bottom.number) >= 0:
            quotient, rest = divmod(top.number, bottom.number)
            return constant(quotient if operator == "/" else rest)
        text = f"({_canonical(top)}){operator}({_canonical(bottom)})"
        self.divisions[text] = Division(operator, top, bottom)
        names = [self.names_of.get(a, frozenset({a})) for a in (*top.atoms(), *bottom.atoms())]
        return self._atom(text, frozenset().union(*names))


def _canonical(index: Polynomial) -> str:
    """A text that equal sums share."""
    return "+".join("*".join((str(f), *m)) for m, f in sorted(index.terms.items()))


def canonical(node: Node) -> str:
    """An expression's text without comments, blanks and needless parentheses."""
    node = bare(node)
    if not node.children:
        return text_of(node)
    parts = [canonical(c) if c.is_named else text_of(c) for c in node.children]
    return "".join(p for c, p in zip(node.children, parts, strict=True) if c.type != "comment")
