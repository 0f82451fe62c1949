"""Folds numbers in plan expressions, and recognises divisions that round up."""

from __future__ import annotations

from astra_tui.model.launch import print_expression
from astra_tui.model.launch.expression import Binary, Call, Expression, Integer
from astra_tui.model.launch.scope import MAX_INTEGER

_Sum = dict[str, tuple[int, Expression]]
"""Text of a term to its factor and the term; "" is the number 1."""


def combined(operator: str, a: Expression, b: Expression) -> Expression:
    """`a operator b`, with numbers folded; `(n + b - 1) // b` becomes ceil_div(n, b)."""
    folded = _folded(operator, a, b)
    if folded is not None:
        return folded
    if operator == "//":
        rounded = _rounded_up(a, b)
        if rounded is not None:
            return Call("ceil_div", (rounded, b))
    if operator == "+" and b == Integer(1) and isinstance(a, Binary) and a.operator == "//":
        rounded = _one_more(a.left)
        if rounded is not None:
            return Call("ceil_div", (rounded, a.right))
    return Binary(operator, a, b)


def _folded(operator: str, a: Expression, b: Expression) -> Expression | None:
    """The result where both sides are numbers, or where one of them changes nothing."""
    if isinstance(b, Integer) and b.value == 1 and operator in ("*", "//"):
        return a
    if isinstance(a, Integer) and a.value == 1 and operator == "*":
        return b
    if not isinstance(a, Integer) or not isinstance(b, Integer):
        return None
    if operator in ("//", "%") and b.value == 0:
        return None
    values = {"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value}
    if operator in ("//", "%"):
        values = {"//": a.value // b.value, "%": a.value % b.value}
    value = values[operator]
    return Integer(value) if 0 <= value <= MAX_INTEGER else None


def _rounded_up(a: Expression, b: Expression) -> Expression | None:
    """The n of `(n + b - 1) // b`."""
    terms = _terms(a, 1)
    difference = _added(_added(terms, _terms(b, -1)), {"": (1, Integer(1))})
    return _expression(difference) if len(difference) < len(terms) else None


def _one_more(a: Expression) -> Expression | None:
    """The n of `(n - 1) // b + 1`."""
    terms = _terms(a, 1)
    if terms.get("", (0, a))[0] != -1:
        return None
    return _expression({text: term for text, term in terms.items() if text})


def _terms(value: Expression, sign: int) -> _Sum:
    match value:
        case Integer(value=number):
            return {"": (sign * number, Integer(1))}
        case Binary(operator="+", left=left, right=right):
            return _added(_terms(left, sign), _terms(right, sign))
        case Binary(operator="-", left=left, right=right):
            return _added(_terms(left, sign), _terms(right, -sign))
        case _:
            return {print_expression(value): (sign, value)}


def _added(a: _Sum, b: _Sum) -> _Sum:
    found = dict(a)
    for text, (factor, term) in b.items():
        total = found.get(text, (0, term))[0] + factor
        if total:
            found[text] = (total, term)
        else:
            found.pop(text, None)
    return found


def _expression(terms: _Sum) -> Expression | None:
    """The sum as an expression; None where a factor is negative or nothing is left."""
    found: Expression | None = None
    for factor, term in terms.values():
        if factor < 1 or factor > MAX_INTEGER:
            return None
        part = combined("*", Integer(factor), term)
        found = part if found is None else Binary("+", found, part)
    return found
