"""Sums of products behave as the integers they stand for."""

from __future__ import annotations

import operator
from collections.abc import Callable

from hypothesis import assume, given, reject
from hypothesis import strategies as st

from astra_tui.drafting.folding import combined
from astra_tui.drafting.polynomial import (
    Polynomial,
    constant,
    from_expression,
    quotient,
    remainder,
    size,
)
from astra_tui.model.launch.expression import Binary, Call, Expression, Integer, Name

NAMES = ("a", "b", "c")
APPLIED: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
}  # fmt: skip
VALUES = st.fixed_dictionaries({name: st.integers(1, 50) for name in NAMES})
POLYNOMIALS = st.recursive(
    st.integers(-9, 9).map(constant) | st.sampled_from(NAMES).map(size),
    lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner).map(
        lambda t: t[1] + t[2] if t[0] == "+" else t[1] - t[2] if t[0] == "-" else t[1] * t[2]
    ),
    max_leaves=6,
)
EXPRESSIONS = st.recursive(
    st.integers(0, 9).map(Integer) | st.sampled_from(NAMES).map(Name),
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "//"]), inner, inner).map(
        lambda t: Binary(*t)
    ),
    max_leaves=6,
)


def value_of(polynomial: Polynomial, values: dict[str, int]) -> int:
    total = 0
    for monomial, factor in polynomial.terms.items():
        for atom in monomial:
            factor *= values[atom.text]
        total += factor
    return total


def evaluated(expression: Expression, values: dict[str, int]) -> int:
    match expression:
        case Integer(value=value):
            return value
        case Name(id=name):
            return values[name]
        case Call(function="ceil_div", args=(above, below)):
            return -(-evaluated(above, values) // evaluated(below, values))
        case Binary(operator=symbol, left=left, right=right):
            return APPLIED[symbol](evaluated(left, values), evaluated(right, values))
        case _:
            raise AssertionError(expression)


def value_or_skip(expression: Expression, values: dict[str, int]) -> int:
    try:
        return evaluated(expression, values)
    except ZeroDivisionError:
        reject()


@given(POLYNOMIALS, POLYNOMIALS, VALUES)
def test_arithmetic_is_that_of_the_integers(
    p: Polynomial, q: Polynomial, values: dict[str, int]
) -> None:
    x, y = value_of(p, values), value_of(q, values)
    assert value_of(p + q, values) == x + y
    assert value_of(p - q, values) == x - y
    assert value_of(p * q, values) == x * y
    assert value_of(-p, values) == -x


@given(POLYNOMIALS, POLYNOMIALS, POLYNOMIALS)
def test_equal_sums_have_equal_terms(p: Polynomial, q: Polynomial, r: Polynomial) -> None:
    assert p * (q + r) == p * q + p * r
    assert hash(p + q) == hash(q + p)
    assert (p - p).number == 0


@given(POLYNOMIALS, st.integers(1, 9), st.sampled_from(NAMES))
def test_division_undoes_a_product(p: Polynomial, factor: int, name: str) -> None:
    by = constant(factor) * size(name)
    assert (p * by).divided(by) == p
    assert quotient(p * by, by) == p
    assert remainder(p * by, by).number == 0


@given(st.integers(-1000, 1000), st.integers(1, 40))
def test_numbers_divide_as_in_the_plan(a: int, b: int) -> None:
    assert quotient(constant(a), constant(b)).number == a // b
    assert remainder(constant(a), constant(b)).number == a % b


@given(POLYNOMIALS, VALUES)
def test_the_text_is_the_sum(p: Polynomial, values: dict[str, int]) -> None:
    assert eval(p.text(), {}, dict(values)) == value_of(p, values)


@given(st.sampled_from(["+", "-", "*", "//"]), EXPRESSIONS, EXPRESSIONS, VALUES)
def test_combining_keeps_the_value(
    symbol: str, a: Expression, b: Expression, values: dict[str, int]
) -> None:
    wanted = value_or_skip(Binary(symbol, a, b), values)
    assume(symbol != "//" or evaluated(b, values) > 0)
    assert evaluated(combined(symbol, a, b), values) == wanted


def test_rounding_up_is_recognised() -> None:
    n, b = Name("n"), Name("b")
    above = Binary("-", Binary("+", n, b), Integer(1))
    assert combined("//", above, b) == Call("ceil_div", (n, b))
    less = Binary("//", Binary("-", n, Integer(1)), Integer(256))
    assert combined("+", less, Integer(1)) == Call("ceil_div", (n, Integer(256)))


@given(EXPRESSIONS, VALUES)
def test_an_expression_becomes_an_equal_sum(expression: Expression, values: dict[str, int]) -> None:
    found = from_expression(expression)
    assume(all(atom.kind == "size" for atom in found.atoms()))
    assert value_of(found, values) == value_or_skip(expression, values)
