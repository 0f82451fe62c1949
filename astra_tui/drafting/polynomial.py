"""The indices of a kernel and the sizes behind them: what the atoms of a sum are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from astra_tui.cuda_source import polynomial
from astra_tui.cuda_source.polynomial import constant, of_atom
from astra_tui.model.launch import print_expression
from astra_tui.model.launch.expression import Binary, Expression, Integer, Name


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

    def __lt__(self, other: Atom) -> bool:
        return (self.kind, self.text) < (other.kind, other.text)

    def __str__(self) -> str:
        return f"({self.text})" if self.kind == "value" else self.text

    @property
    def is_size(self) -> bool:
        """Whether it is known on the host: a name of the plan, or text over such names."""
        return self.kind in ("size", "value")


Polynomial = polynomial.Polynomial[Atom]
Monomial = tuple[Atom, ...]


def size(name: str) -> Polynomial:
    """A name of the plan."""
    return of_atom(Atom("size", name))


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
