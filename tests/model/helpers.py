"""What the tests of the model share: a small scope, marked texts, and generated expressions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place
from astra_tui.model.launch import (
    Branch,
    Dispatch,
    Launch,
    LaunchPlan,
    Layout,
    Let,
    Refuse,
    Scope,
    Tune,
    Workspace,
)
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
    Real,
    Unary,
)
from astra_tui.model.launch.expression_parser import ExpressionParser
from astra_tui.model.launch.plan import Member, Struct, Verbatim
from astra_tui.model.launch.scope import DEVICE_ATTRIBUTES, FUNCTIONS, MAX_INTEGER, Bindings
from astra_tui.model.launch.scope import TensorType as Tensor
from astra_tui.model.launch.tokens import tokenize

PROPERTY = settings(deadline=None, max_examples=60)
THOROUGH = settings(deadline=None, max_examples=200)

SCOPE = Scope(
    dims=frozenset({"n", "m", "zero"}),
    tensors={"x": Tensor(None, 2), "y": Tensor(DType.FLOAT32, 1)},
    scalars={"eps": DType.FLOAT32, "count": DType.INT32},
)
"""Two dimensions and one that is 0, a matrix of T, a float32 vector, a float and an integer."""

DIMS = {"n": 100, "m": 7, "zero": 0}


def bindings(element: DType = DType.FLOAT16, **dims: int) -> Bindings:
    """Values for the names of SCOPE; x begins 2 bytes past a wide alignment."""
    sizes = {**DIMS, **dims}
    layouts = {"x": Layout(2, (sizes["m"], 1)), "y": Layout(256, (1,))}
    return Bindings(element, sizes, layouts, {"eps": 1e-6, "count": 3})


def marked(text: str) -> tuple[str, Place]:
    """A text without its mark `▶`, and the place of what stood behind the mark."""
    before, _, after = text.partition("▶")
    line_start = before.rfind("\n") + 1
    return before + after, Place(before.count("\n") + 1, len(before) - line_start + 1)


def parse_expression(text: str) -> Expression:
    """Parses a text that is one expression."""
    parser = ExpressionParser(tokenize(text, Place(1, 1)), "")
    expression = parser.expression()
    assert parser.token.kind == "newline"
    return expression


# -- generated expressions without regard to meaning -----------------------------------------------

_SIGNS = st.sampled_from(("<", "<=", ">", ">=", "==", "!="))
_WORDS = ("n", "m", "x", "T", "null", "float16", "sm_count", "_a1", "In")


def _larger(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(children, max_size=3).map(tuple)
    links = st.tuples(_SIGNS, children)
    return st.one_of(
        st.builds(Call, st.sampled_from(sorted(FUNCTIONS)), several),
        st.builds(Unary, st.sampled_from(("-", "not")), children),
        st.builds(
            Binary,
            st.sampled_from(("+", "-", "*", "/", "//", "%", "and", "or")),
            children,
            children,
        ),
        st.builds(Compare, children, st.lists(links, min_size=1, max_size=3).map(tuple)),
        st.builds(Conditional, children, children, children),
    )


_ATOMS: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Integer, st.integers(0, MAX_INTEGER)),
    st.builds(Name, st.sampled_from(_WORDS)),
    st.builds(Real, st.floats(0, allow_infinity=False).map(abs)),
)

EXPRESSIONS = st.recursive(_ATOMS, _larger, max_leaves=12)


# -- generated plans without regard to meaning -----------------------------------------------------


def _tuples(items: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[Any]:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


_NAMES = st.sampled_from(("a", "b1", "_tile", "width"))
_QUOTED = st.text(st.characters(codec="utf-8", exclude_characters='"\n'), max_size=12)
_SIZES = _tuples(EXPRESSIONS, 1, 3)

_MEMBERS = st.one_of(
    st.builds(Name, st.sampled_from(("x", "null", "_a1"))),
    st.builds(Member, st.sampled_from(("T", "int8", "float64")), EXPRESSIONS),
)
_ALIGNMENTS = st.sampled_from((1, 2, 16, 128))
_STRUCTS = st.recursive(
    st.builds(Struct, _tuples(_MEMBERS, 0, 3), _ALIGNMENTS),
    lambda inner: st.builds(Struct, _tuples(inner | _MEMBERS, 0, 3), _ALIGNMENTS),
    max_leaves=3,
)

LAUNCHES = st.builds(
    Launch,
    kernel=st.sampled_from(("k", "ns::k", "grid")),
    template_args=_tuples(EXPRESSIONS | st.builds(Verbatim, _QUOTED), 0, 3),
    grid=_SIZES,
    block=_SIZES,
    args=_tuples(EXPRESSIONS | _STRUCTS, 0, 3),
    shared_bytes=st.none() | EXPRESSIONS,
    pdl=st.none() | EXPRESSIONS,
)

_ITEMS = LAUNCHES | st.builds(Refuse, _QUOTED)


@st.composite
def _dispatches(draw: Callable[..., Any], closed: bool) -> Dispatch:
    """`closed` asks for `otherwise`, without which a dispatch would run into the next one."""
    bodies = draw(_tuples(_tuples(_ITEMS, 1, 2), 1, 3))
    conditions = [draw(EXPRESSIONS) for _ in bodies]
    branches = [Branch(c, body) for c, body in zip(conditions, bodies, strict=True)]
    if closed:
        branches.append(Branch(None, draw(_tuples(_ITEMS, 1, 2))))
    return Dispatch(tuple(branches))


@st.composite
def _tunes(draw: Callable[..., Any]) -> Tune:
    numbers = st.integers(-MAX_INTEGER, MAX_INTEGER)
    choices = draw(st.lists(numbers, min_size=1, max_size=4, unique=True))
    return Tune(draw(_NAMES), draw(st.sampled_from(choices)), tuple(choices))


_DECLARATIONS = st.one_of(
    st.builds(Workspace, _NAMES, st.sampled_from(("T", "float32")), _SIZES),
    st.builds(Let, _NAMES, EXPRESSIONS),
    _tunes(),
)

PLANS = st.builds(
    LaunchPlan,
    _tuples(_DECLARATIONS, 0, 3),
    _tuples(_ITEMS | _dispatches(closed=True), 1, 3) | st.tuples(_ITEMS, _dispatches(closed=False)),
)


# -- generated expressions with the value that Python gives them -----------------------------------

Valued = tuple[Expression, Any]
"""An expression and its value; None where evaluating it has to be an error."""


def _bounded(value: int) -> int | None:
    return value if abs(value) <= MAX_INTEGER else None


def _arithmetic(operator: str, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    match operator:
        case "+":
            return _bounded(a + b)
        case "-":
            return _bounded(a - b)
        case "*":
            return _bounded(a * b)
        case "//":
            return _bounded(a // b) if b else None
        case _:
            return a % b if b else None


def _holds(operator: str, a: int, b: int) -> bool:
    match operator:
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case ">=":
            return a >= b
        case "==":
            return a == b
        case _:
            return a != b


_KNOWN = sorted({**DIMS, **DEVICE_ATTRIBUTES}.items())

_LEAVES: st.SearchStrategy[Valued] = st.one_of(
    st.integers(0, 9).map(lambda n: (Integer(n), n)),
    st.integers(0, MAX_INTEGER).map(lambda n: (Integer(n), n)),
    st.sampled_from(_KNOWN).map(lambda item: (Name(item[0]), item[1])),
)


@st.composite
def numbers_with_values(draw: Callable[..., Any], depth: int = 3) -> Valued:
    """An integer expression over the names of SCOPE, with its value."""
    form = draw(st.sampled_from(("leaf", "binary", "negate", "choose", "extreme", "ceil_div")))
    if depth == 0 or form == "leaf":
        return draw(_LEAVES)
    inner = numbers_with_values(depth=depth - 1)
    (left, a), (right, b) = draw(inner), draw(inner)
    match form:
        case "binary":
            operator = draw(st.sampled_from(("+", "-", "*", "//", "%")))
            return Binary(operator, left, right), _arithmetic(operator, a, b)
        case "negate":
            return Unary("-", left), None if a is None else -a
        case "choose":
            condition, truth = draw(truths_with_values(depth=depth - 1))
            value = None if truth is None else (a if truth else b)
            return Conditional(condition, left, right), value
        case "extreme":
            function, of = draw(st.sampled_from((("min", min), ("max", max))))
            known = a is not None and b is not None
            return Call(function, (left, right)), of(a, b) if known else None
        case _:
            known = a is not None and b is not None and a >= 0 and b > 0
            return Call("ceil_div", (left, right)), (a + b - 1) // b if known else None


@st.composite
def reals_with_values(draw: Callable[..., Any], depth: int = 3) -> Valued:
    """A floating-point expression over the names of SCOPE, with its value."""
    form = draw(st.sampled_from(("literal", "binary", "negate", "choose", "root")))
    if depth == 0 or form == "literal":
        value = draw(st.floats(0, 1e300).map(abs))
        return Real(value), value
    left, a = draw(reals_with_values(depth=depth - 1))
    right, b = draw(numbers_with_values(depth=1) | reals_with_values(depth=depth - 1))
    match form:
        case "binary":
            operator = draw(st.sampled_from(("+", "-", "*", "/")))
            if draw(st.booleans()):
                return Binary(operator, right, left), _real(operator, b, a)
            return Binary(operator, left, right), _real(operator, a, b)
        case "negate":
            return Unary("-", left), None if a is None else -a
        case "choose":
            condition, truth = draw(truths_with_values(depth=1))
            value = None if truth is None else (a if truth else 0.5)
            return Conditional(condition, left, Real(0.5)), value
        case _:
            function = draw(st.sampled_from(("sqrt", "rsqrt")))
            if b is None or b < 0 or (b == 0 and function == "rsqrt"):
                return Call(function, (right,)), None
            root = math.sqrt(b)
            return Call(function, (right,)), root if function == "sqrt" else 1.0 / root


def _real(operator: str, a: float | None, b: float | None) -> float | None:
    if a is None or b is None or (operator == "/" and b == 0):
        return None
    a, b = float(a), float(b)
    value = {"+": a + b, "-": a - b, "*": a * b}[operator] if operator != "/" else a / b
    return value if math.isfinite(value) else None


@st.composite
def truths_with_values(draw: Callable[..., Any], depth: int = 3) -> Valued:
    """A condition over the names of SCOPE, with its value."""
    form = draw(st.sampled_from(("compare", "and", "or", "not"))) if depth else "compare"
    if form == "compare":
        return draw(_comparisons(depth=max(depth - 1, 0)))
    left, a = draw(truths_with_values(depth=depth - 1))
    if form == "not":
        return Unary("not", left), None if a is None else not a
    right, b = draw(truths_with_values(depth=depth - 1))
    decided = a is None or a is (form == "or")
    return Binary(form, left, right), a if decided else b


@st.composite
def _comparisons(draw: Callable[..., Any], depth: int) -> Valued:
    first, left = draw(numbers_with_values(depth=depth))
    links, value = [], None if left is None else True
    for operator in draw(st.lists(_SIGNS, min_size=1, max_size=3)):
        expression, right = draw(numbers_with_values(depth=depth))
        links.append((operator, expression))
        if value:
            value = None if right is None else _holds(operator, left, right)
            left = right
    return Compare(first, tuple(links)), value
