"""Expressions of a launch plan in C++, for one element type.

Whole numbers become `astra::Int`, whose operators round down and refuse to wrap, as the plan's do;
floating-point numbers become `astra::Real`.
What follows from the element type alone is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from astra_tui.export.header import plain
from astra_tui.model.dtypes import PLAN_TYPES, DType, NumberKind
from astra_tui.model.launch import print_expression
from astra_tui.model.launch.evaluate import Evaluator, Value
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
    map_expressions,
    names_in,
)
from astra_tui.model.launch.plan import PlanError
from astra_tui.model.launch.scope import TRUTH_VALUES, Bindings

_NAME = re.compile(r"[A-Za-z_]\w*")
_LITERAL = re.compile(r"-?[0-9]+|INT64_C\(-?[0-9]+\)")
_RESERVED = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t class compl const const_cast constexpr continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if
    inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq astra
"""
_KEYWORDS = frozenset(_RESERVED.split())


def cpp_name(name: str) -> str:
    """A name of a task or plan that C++ and the generated code have no use for."""
    return f"{name}_x" if name in _KEYWORDS or name.endswith(("_", "_x")) else name


class CppExpressions:
    """Writes expressions.

    `constants` are the plan's names whose value follows from T alone, `reals` the names that are
    floating-point numbers.
    """

    def __init__(self, element: DType, constants: Mapping[str, Value] | None = None):
        self.element = element
        self.constants = dict(constants or {})
        self.reals: set[str] = set()

    def constant(self, expression: Expression) -> Value | None:
        """The value, where it is the same for every call with this element type."""
        known = {"T", *PLAN_TYPES, *TRUTH_VALUES, *self.constants}
        if not names_in(expression) <= known:
            return None
        evaluator = Evaluator(Bindings(self.element, {}, {}, device={}))
        for name, value in self.constants.items():
            evaluator.define(name, value)
        try:
            return evaluator.value(expression)
        except PlanError:
            return None  # It fails when it is evaluated, if ever.

    def write(self, expression: Expression) -> str:
        """An expression of any kind but a type or tensor; it needs no parentheses around it."""
        constant = self.constant(expression)
        if constant is not None and not isinstance(constant, DType):
            return literal(constant)
        match expression:
            case Integer(value=value) | Real(value=value):
                return literal(value)
            case Name(id=name):
                return cpp_name(name)
            case Call():
                return self._call(expression)
            case Unary(operator="not", operand=operand):
                return f"!{self.write(operand)}"
            case Unary(operand=operand):
                return f"(-{self._whole(operand)})"
            case Binary():
                return self._binary(expression)
            case Compare():
                return self._compare(expression)
            case Conditional(condition=condition, when_true=a, when_false=b):
                chosen = self.constant(condition)
                if isinstance(chosen, bool):
                    return self.write(a if chosen else b)
                return f"({self.write(condition)} ? {self._whole(a)} : {self._whole(b)})"

    def is_real(self, expression: Expression) -> bool:
        """Whether an expression is a floating-point number."""
        match expression:
            case Real():
                return True
            case Name(id=name):
                return name in self.reals or isinstance(self.constants.get(name), float)
            case Unary(operand=operand):
                return self.is_real(operand)
            case Binary(operator=operator, left=left, right=right):
                return operator == "/" or self.is_real(left) or self.is_real(right)
            case Conditional(when_true=chosen):
                return self.is_real(chosen)
            case Call(function=function):
                return function in ("sqrt", "rsqrt")
            case _:
                return False

    def number(self, expression: Expression) -> str:
        """An `astra::Number` of the value."""
        text = self._whole(expression)
        return f"astra::Number({bare(text)})"

    def never(self, condition: Expression) -> bool:
        """Whether a condition is false for every call with this element type."""
        if self.constant(condition) is False:
            return True
        match condition:
            case Binary(operator="and", left=left, right=right):
                return self.never(left) or self.never(right)
            case Binary(operator="or", left=left, right=right):
                return self.never(left) and self.never(right)
            case _:
                return False

    def _binary(self, expression: Binary) -> str:
        left, right = self.write(expression.left), self.write(expression.right)
        match expression.operator:
            case "and" | "or" as operator:
                first = expression.left
                if isinstance(first, Binary) and first.operator == operator:
                    left = bare(left)
                return f"({left} {'&&' if operator == 'and' else '||'} {right})"
            case "//":
                return f"astra::floor_div({bare(left)}, {bare(right)})"
            case operator if self.is_real(expression):
                sides = (expression.left, expression.right)
                left, right = (f"astra::Real({bare(self._whole(side))})" for side in sides)
                return f"({left} {operator} {right})"
            case operator:
                return f"({self._whole(expression.left)} {operator} {right})"

    def _compare(self, expression: Compare) -> str:
        sides = [expression.first, *(right for _, right in expression.links)]
        texts = [self._side(side) for side in sides]
        links = [
            f"{texts[i]} {operator} {texts[i + 1]}"
            for i, (operator, _) in enumerate(expression.links)
        ]
        return "(" + " && ".join(links) + ")"

    def _side(self, side: Expression) -> str:
        """One side of a comparison, which binds less tightly than arithmetic."""
        text = self.write(side)
        return bare(text) if isinstance(side, Binary) and side.operator in "+-*%" else text

    def _call(self, call: Call) -> str:
        if call.function == "sizeof":
            return self._sizeof(call.args[0])
        if call.function == "stride":
            tensor, axis = call.args
            assert isinstance(tensor, Name)
            assert isinstance(axis, Integer)
            return f"astra::stride({cpp_name(tensor.id)}, {axis.value})"
        if call.function in ("sqrt", "rsqrt"):
            return f"astra::{call.function}(astra::Real({bare(self._whole(call.args[0]))}))"
        args = ", ".join(bare(self.write(arg)) for arg in call.args)
        braces = call.function in ("min", "max")
        return (
            f"astra::{call.function}({{{args}}})" if braces else f"astra::{call.function}({args})"
        )

    def _sizeof(self, dtype: Expression) -> str:
        """Of a type that only the call decides; others are constants."""
        if isinstance(dtype, Conditional):
            sizes = [self._sizeof_literal(x) for x in (dtype.when_true, dtype.when_false)]
            return f"({self.write(dtype.condition)} ? {sizes[0]} : {sizes[1]})"
        raise PlanError("this type cannot be told apart in C++", place=dtype.place)

    def _sizeof_literal(self, dtype: Expression) -> str:
        found = self.constant(dtype)
        return f"astra::Int({found.size})" if isinstance(found, DType) else self._sizeof(dtype)

    def _whole(self, expression: Expression) -> str:
        """As `write`, with a literal made an Int, so that C++ never computes with its own types."""
        text = self.write(expression)
        return f"astra::Int({text})" if _LITERAL.fullmatch(text) else text


def bare(text: str) -> str:
    """An expression without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text


def literal(value: int | float | bool) -> str:
    """A constant."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"astra::Real({value!r})"
    return str(value) if abs(value) < 1 << 31 else f"INT64_C({value})"


def python_expression(expression: Expression) -> str:
    """An expression of any kind in Python, which divides whole numbers by a rule of its own."""
    text = print_expression(map_expressions(expression, _as_float_division))
    return _NAME.sub(lambda name: str(TRUTH_VALUES.get(name[0], name[0])), text)


def _as_float_division(part: Expression) -> Expression:
    if isinstance(part, Binary) and part.operator == "/":
        return replace(part, left=Call("float", (part.left,)))
    return part


def written(expression: Expression, element: DType) -> str:
    """An expression of dimensions alone, for one element type."""
    return CppExpressions(element).write(expression)


def dlpack_type(dtype: DType) -> str:
    """An element type as `astra::Type`: DLPack's name, without bits that tell no formats apart."""
    name = dtype.value if dtype.is_narrow else dtype.value.rstrip("0123456789")
    code = "UInt" if dtype.kind is NumberKind.UNSIGNED else name.capitalize()
    return f"astra::Type{{astra::k{code}, {dtype.bits}}}"


def quoted(text: str) -> str:
    """Text of a journal or task within double quotes."""
    return plain(text).replace('"', "'").replace("?", ".")


def names_in_text(text: str) -> list[str]:
    """The names in C++ text, in order."""
    return _NAME.findall(text)


def replace_names(text: str, known: Mapping[str, str]) -> str:
    """C++ text with the names that are known replaced."""
    return _NAME.sub(lambda match: known.get(match[0], match[0]), text)
