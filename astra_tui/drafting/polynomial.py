"""Sums of products with whole factors, for the indices of a kernel and the sizes behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from astra_tui.model.launch import print_expression
from astra_tui.model.launch.expression import Binary, Expression, Integer, Name

MAX_TERMS = 64


@dataclass(frozen=True)
class Atom:
    """Something that is not taken apart.

    `kind` is "size" (a name of the plan), "thread" or "block" (with the axis 0 to 2), "variable",
    "quotient", "remainder", "load" (an element of a tensor), "lane", "guarded" (a sum that a
    condition keeps below its first part) or "value" (text of a plan).
    """

    kind: str
    text: str
    axis: int = 0
    parts: tuple[Polynomial, ...] = field(default=(), compare=False)

    @property
    def is_size(self) -> bool:
        """Whether it is known on the host: a name of the plan, or text over such names."""
        return self.kind in ("size", "value")


Monomial = tuple[Atom, ...]
"""A product of atoms, sorted."""


class Polynomial:
    """A sum of products of atoms. Immutable; equal when the terms are."""

    def __init__(self, terms: Mapping[Monomial, int] | None = None):
        self.terms = {m: f for m, f in (terms or {}).items() if f}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return self.text()

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return Polynomial(terms)

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -f for m, f in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, int] = {}
        for a, f in self.terms.items():
            for b, g in other.terms.items():
                monomial = sorted_monomial((*a, *b))
                terms[monomial] = terms.get(monomial, 0) + f * g
        return Polynomial(terms)

    @property
    def is_small(self) -> bool:
        """Whether it is small enough to continue with."""
        return len(self.terms) <= MAX_TERMS and all(abs(f) < 1 << 62 for f in self.terms.values())

    @property
    def number(self) -> int | None:
        """The value, when there are no atoms."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    def atoms(self) -> Iterator[Atom]:
        """Every atom, in order, some more than once."""
        for monomial in self.terms:
            yield from monomial

    def divided(self, by: Polynomial) -> Polynomial | None:
        """The quotient when it is exact and `by` is a single product, else None."""
        if len(by.terms) != 1:
            return None
        ((divisor, number),) = by.terms.items()
        found: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            rest = without(monomial, divisor)
            if rest is None or factor % number:
                return None
            found[rest] = factor // number
        return Polynomial(found)

    def text(self) -> str:
        """The sum in the plan's language, if its atoms are."""
        if not self.terms:
            return "0"
        ordered = sorted(self.terms.items(), key=lambda item: (-len(item[0]), item[1] < 0))
        found = ""
        for monomial, factor in ordered:
            part = _product(monomial, abs(factor))
            if not found:
                found = part if factor > 0 else f"-{part}"
            else:
                found += f" {'+' if factor > 0 else '-'} {part}"
        return found


def _product(monomial: Monomial, factor: int) -> str:
    names = [atom.text if atom.kind != "value" else f"({atom.text})" for atom in monomial]
    return " * ".join(([str(factor)] if factor != 1 or not names else []) + names)


def constant(value: int) -> Polynomial:
    """A number."""
    return Polynomial({(): value})


def of_atom(atom: Atom) -> Polynomial:
    """A single atom."""
    return Polynomial({(atom,): 1})


def size(name: str) -> Polynomial:
    """A name of the plan."""
    return of_atom(Atom("size", name))


def sorted_monomial(atoms: Iterable[Atom]) -> Monomial:
    """The canonical order of a product."""
    return tuple(sorted(atoms, key=lambda a: (a.kind, a.text)))


def without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """A product without some of its factors, or None when it does not have them all."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def quotient(a: Polynomial, b: Polynomial) -> Polynomial:
    """`a // b`: exact where it can be seen, else as it stands."""
    exact = a.divided(b)
    if exact is not None:
        return exact
    if a.number is not None and b.number:
        return constant(a.number // b.number)
    kind = "value" if all(x.is_size for x in (*a.atoms(), *b.atoms())) else "quotient"
    return of_atom(Atom(kind, f"{_operand(a)} // {_operand(b)}", parts=(a, b)))


def rounds_up(a: Polynomial, b: Polynomial) -> bool:
    """Whether `a // b` is `(n + b - 1) // b`, which needs no whole multiple."""
    rest = a - b + constant(1)
    return () not in rest.terms and all(factor > 0 for factor in rest.terms.values())


def remainder(a: Polynomial, b: Polynomial) -> Polynomial:
    """`a % b`."""
    if a.divided(b) is not None:
        return constant(0)
    if a.number is not None and b.number:
        return constant(a.number % b.number)
    return of_atom(Atom("remainder", f"{_operand(a)} % {_operand(b)}", parts=(a, b)))


def _operand(value: Polynomial) -> str:
    text = value.text()
    return text if text.replace("_", "").isalnum() else f"({text})"


def from_expression(expression: Expression) -> Polynomial:
    """An expression of the plan; what is no sum or product becomes one atom."""
    match expression:
        case Integer(value=value):
            return constant(value)
        case Name(id=name):
            return size(name)
        case Binary(operator="+", left=a, right=b):
            return from_expression(a) + from_expression(b)
        case Binary(operator="-", left=a, right=b):
            return from_expression(a) - from_expression(b)
        case Binary(operator="*", left=a, right=b):
            return from_expression(a) * from_expression(b)
        case Binary(operator="//", left=a, right=b):
            return quotient(from_expression(a), from_expression(b))
        case _:
            return of_atom(Atom("value", print_expression(expression)))


def greatest_divisor(numbers: Iterable[int]) -> int:
    """The greatest common divisor, 0 of nothing."""
    return math.gcd(*numbers)
