"""Expressions of the launch plan: integer arithmetic, comparison and choice, as immutable trees.

Equality ignores where an expression stands in its file, so that two plans that say the same
compare equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_tui.model.errors import Place

_NOWHERE = Place()


def _place() -> Place:
    return field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number."""

    value: int
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Name:
    """A dimension, an argument, a tuned constant, a device attribute, `T` or a type."""

    id: str
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Call:
    """One of the functions min, max, ceil_div, aligned, stride and sizeof."""

    function: str
    args: tuple[Expression, ...]
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x` or `not x`."""

    operator: str
    operand: Expression
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Binary:
    """`+ - * // %` on integers, `and or` on truth values."""

    operator: str
    left: Expression
    right: Expression
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison, possibly a chain: `0 < d <= 8` has two links."""

    first: Expression
    links: tuple[tuple[str, Expression], ...]
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Conditional:
    """`a if c else b`."""

    condition: Expression
    when_true: Expression
    when_false: Expression
    place: Place = _place()


Expression = Integer | Name | Call | Unary | Binary | Compare | Conditional


def names_in(expression: Expression) -> set[str]:
    """Every name that the expression reads."""
    match expression:
        case Integer():
            return set()
        case Name(id=name):
            return {name}
        case Call(args=args):
            return set().union(*map(names_in, args)) if args else set()
        case Unary(operand=operand):
            return names_in(operand)
        case Binary(left=left, right=right):
            return names_in(left) | names_in(right)
        case Compare(first=first, links=links):
            return names_in(first).union(*(names_in(right) for _, right in links))
        case Conditional(condition=condition, when_true=a, when_false=b):
            return names_in(condition) | names_in(a) | names_in(b)
