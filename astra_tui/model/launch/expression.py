"""Expressions of the launch plan: arithmetic, comparison and choice, as immutable trees.

Equality ignores where an expression stands in its file, so that two plans that say the same
compare equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

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
class Real:
    """A floating-point number: finite, of double precision, not negative."""

    value: float
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Name:
    """A dimension, an argument, a tuned constant, a device attribute, `T`, a type or `null`."""

    id: str
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Call:
    """One of the functions of `scope.FUNCTIONS`."""

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
    """`+ - *` and `/` on numbers, `// %` on integers, `and or` on truth values."""

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


Expression = Integer | Real | Name | Call | Unary | Binary | Compare | Conditional


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """What an expression is directly made of, in the order in which it is evaluated."""
    match expression:
        case Call(args=args):
            return args
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return left, right
        case Compare(first=first, links=links):
            return first, *(right for _, right in links)
        case Conditional(condition=condition, when_true=a, when_false=b):
            return condition, a, b
        case _:
            return ()


def names_in(expression: Expression) -> set[str]:
    """Every name that the expression reads."""
    if isinstance(expression, Name):
        return {expression.id}
    return {name for part in parts_of(expression) for name in names_in(part)}


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The conditions that hold together where one does, in the order in which they are evaluated;
    none where there is no condition.
    """
    match condition:
        case None:
            return ()
        case Binary(operator="and", left=left, right=right):
            return *conjuncts(left), *conjuncts(right)
        case _:
            return (condition,)


def split_pointer(expression: Expression) -> tuple[Name, Expression] | None:
    """`x` as x and 0, `x + n - m` as x and n - m: a name, and a distance in elements from it.

    None for any other expression. Whether the name is a tensor's is for the caller to know.
    """
    match expression:
        case Name():
            return expression, Integer(0, expression.place)
        case Binary(operator="+" | "-" as sign, left=left, right=right, place=place):
            found = split_pointer(left)
            if found is None:
                return None
            name, before = found
            begins = before == Integer(0) and sign == "+"
            return name, right if begins else Binary(sign, before, right, place)
        case _:
            return None


def map_expressions(
    expression: Expression, change: Callable[[Expression], Expression]
) -> Expression:
    """An expression with every part changed, from the inside out."""

    def inner(part: Expression) -> Expression:
        return map_expressions(part, change)

    match expression:
        case Call(args=args):
            expression = replace(expression, args=tuple(map(inner, args)))
        case Unary(operand=operand):
            expression = replace(expression, operand=inner(operand))
        case Binary(left=left, right=right):
            expression = replace(expression, left=inner(left), right=inner(right))
        case Compare(first=first, links=links):
            links = tuple((operator, inner(right)) for operator, right in links)
            expression = replace(expression, first=inner(first), links=links)
        case Conditional(condition=condition, when_true=a, when_false=b):
            expression = Conditional(inner(condition), inner(a), inner(b), expression.place)
        case _:
            pass
    return change(expression)
