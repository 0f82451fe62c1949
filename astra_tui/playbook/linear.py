"""Index expressions as polynomials over the names and values that they are made of.

`row * 2 * d + i` is `2 * [row][d] + [i]`. What is no sum or product is an atom of its own; integer
division and remainder are atoms that remember their operands, since `i / d` and `i % d` matter for
indices. Casts between integers are ignored: overflow is taken not to happen, as in the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    bare,
    cast_of,
    identifiers_in,
    integer_of,
    operator_of,
    text_of,
)
from astra_tui.cuda_source.syntax import field as child
from astra_tui.model.dtypes import OF_SPELLING
from astra_tui.playbook.names import Function

Monomial = tuple[str, ...]

INTEGER_TYPES = frozenset(name for name, dtype in OF_SPELLING.items() if not dtype.is_float)


@dataclass(frozen=True)
class Polynomial:
    """Integer coefficients of products of atoms; equal polynomials compare equal."""

    terms: Mapping[Monomial, int]

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __add__(self, other: Polynomial) -> Polynomial:
        return _of([*self.terms.items(), *other.terms.items()])

    def __neg__(self) -> Polynomial:
        return _of([(m, -c) for m, c in self.terms.items()])

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _of(
            [
                (tuple(sorted((*a, *b))), x * y)
                for a, x in self.terms.items()
                for b, y in other.terms.items()
            ]
        )

    @property
    def constant(self) -> int | None:
        """The value, where no atom is in it."""
        if not self.terms:
            return 0
        return self.terms.get((), None) if set(self.terms) == {()} else None

    @property
    def atoms(self) -> frozenset[str]:
        """Every atom in it."""
        return frozenset(a for m in self.terms for a in m)

    def without(self, atom: str) -> tuple[int | None, Polynomial]:
        """The coefficient of an atom, None where it is no whole number, and the rest."""
        rest = {m: c for m, c in self.terms.items() if atom not in m}
        own = {m: c for m, c in self.terms.items() if atom in m}
        coefficient = own.pop((atom,), 0)
        return (None if own else coefficient), Polynomial(rest)

    def __str__(self) -> str:
        parts = [
            "*".join([*([str(c)] if c != 1 or not m else []), *m])
            for m, c in sorted(self.terms.items())
        ]
        return " + ".join(parts) or "0"


def _of(terms: list[tuple[Monomial, int]]) -> Polynomial:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    return Polynomial({m: c for m, c in sorted(sums.items()) if c})


def number(value: int) -> Polynomial:
    """A constant polynomial."""
    return _of([((), value)])


def atom(name: str) -> Polynomial:
    """A single atom."""
    return _of([((name,), 1)])


THREAD = atom("threadIdx.x")
BLOCK_THREADS = atom("blockDim.x")
GLOBAL_THREAD = atom("blockIdx.x") * BLOCK_THREADS + THREAD
GRID_THREADS = atom("gridDim.x") * BLOCK_THREADS


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
            return number(value)
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

    def depends_on(self, polynomial: Polynomial, name: str) -> bool:
        """Whether a polynomial changes with a variable, directly or inside of an atom."""
        return any(name in self.names_of.get(a, frozenset({a})) for a in polynomial.atoms)

    def _atom(self, text: str, names: frozenset[str]) -> Polynomial:
        self.names_of[text] = names
        return atom(text)

    def _dependencies(self, node: Node) -> frozenset[str]:
        found: set[str] = set()
        for name in identifiers_in(node):
            variable = self.function.lookup(name, node)
            found.add(name)
            value = variable.value if variable is not None else None
            if value is not None and variable is not None and self.function.is_constant(variable):
                found |= self._dependencies(value)
        return frozenset(found)

    def _name(self, node: Node) -> Polynomial:
        name = text_of(node)
        variable = self.function.lookup(name, node)
        followed = (
            variable is not None
            and variable.value is not None
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
            scale = number(1 << bits)
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
        text = f"({top}){operator}({bottom})"
        self.divisions[text] = Division(operator, top, bottom)
        names = [self.names_of.get(a, frozenset({a})) for a in top.atoms | bottom.atoms]
        return self._atom(text, frozenset().union(*names))


def canonical(node: Node) -> str:
    """An expression's text without comments, blanks and needless parentheses."""
    node = bare(node)
    if not node.children:
        return text_of(node)
    parts = [canonical(c) if c.is_named else text_of(c) for c in node.children]
    return "".join(p for c, p in zip(node.children, parts, strict=True) if c.type != "comment")
