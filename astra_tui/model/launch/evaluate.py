"""The value of an expression for one case: total, bounded, and without `eval`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from astra_tui.model.dtypes import PLAN_TYPES, DType
from astra_tui.model.errors import Place
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
from astra_tui.model.launch.plan import PlanError
from astra_tui.model.launch.scope import (
    DEVICE_ATTRIBUTES,
    ELEMENT_TYPE,
    MAX_INTEGER,
    TRUTH_VALUES,
    Bindings,
    Layout,
)

Value = int | bool | float | DType

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

_ARITHMETIC: Mapping[str, Callable[[Any, Any], int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: float(left) / float(right),
    "//": operator.floordiv,
    "%": operator.mod,
}

_DIVIDING = ("/", "//", "%")
_NUMBER = (int, float)

_CONSTANTS: Mapping[str, Value] = {**PLAN_TYPES, **TRUTH_VALUES}
_OF_EMULATOR: dict[str, Value] = {**DEVICE_ATTRIBUTES, **_CONSTANTS}


class Evaluator:
    """Evaluates expressions that were validated; what only values can show is a PlanError."""

    def __init__(self, bindings: Bindings, file: str = ""):
        self.bindings = bindings
        self.file = file
        self.choices: set[tuple[int, int, bool]] = set()
        """Line and column of each `or` that held and each `a if c else b` that was evaluated, and
        whether the first operand held, or the condition.
        """
        self.sides: set[tuple[int, int, int, bool]] = set()
        """Line and column of each `min` and `max` that was evaluated, the operand that its first
        one was compared with, and whether the first was smaller. Equal ones are not in it.
        """
        self.names: dict[str, Value] = (
            _OF_EMULATOR.copy()  # Far quicker than putting it together.
            if bindings.device is DEVICE_ATTRIBUTES
            else {**bindings.device, **_CONSTANTS}
        )
        self.names[ELEMENT_TYPE] = bindings.element
        self.names.update(bindings.dims)
        self.names.update(bindings.scalars)

    def fail(self, message: str, place: Place) -> NoReturn:
        """Raises a PlanError at a place of the plan."""
        raise PlanError(message, file=self.file, place=place)

    def define(self, name: str, value: Value) -> None:
        """Adds a name that the plan itself declares."""
        self.names[name] = value

    def integer(self, expression: Expression) -> int:
        """The value of an expression of kind INTEGER."""
        value = self.value(expression)
        assert isinstance(value, int)
        return value

    def number(self, expression: Expression) -> int | float:
        """The value of an expression of kind INTEGER or FLOAT."""
        value = self.value(expression)
        assert isinstance(value, _NUMBER)
        return value

    def truth(self, expression: Expression) -> bool:
        """The value of an expression of kind TRUTH."""
        value = self.value(expression)
        assert isinstance(value, bool)
        return value

    def value(self, expression: Expression) -> Value:
        """The value of any validated expression that is not a tensor."""
        return _VALUE_OF[type(expression)](self, expression)

    def _literal(self, expression: Integer | Real) -> Value:
        return expression.value

    def _name(self, expression: Name) -> Value:
        return self.names[expression.id]

    def _unary(self, expression: Unary) -> Value:
        if expression.operator == "not":
            return not self.truth(expression.operand)
        return self._bounded(-self.number(expression.operand), expression.place)

    def _conditional(self, expression: Conditional) -> Value:
        holds = self.truth(expression.condition)
        self.choices.add((expression.place.line, expression.place.column, holds))
        return self.value(expression.when_true if holds else expression.when_false)

    def _compare(self, expression: Compare) -> bool:
        first = expression.first
        left = _VALUE_OF[type(first)](self, first)
        for name, side in expression.links:
            right = _VALUE_OF[type(side)](self, side)
            if not _COMPARE[name](left, right):
                return False
            left = right
        return True

    def _binary(self, expression: Binary) -> Value:
        # Suites evaluate their contract for thousands of sizes: no call here that is not needed.
        name, left_side, right_side = expression.operator, expression.left, expression.right
        if name == "and":
            return self.truth(left_side) and self.truth(right_side)
        if name == "or":
            return self._either(expression)
        left: Any = _VALUE_OF[type(left_side)](self, left_side)
        right: Any = _VALUE_OF[type(right_side)](self, right_side)
        assert isinstance(left, _NUMBER)
        assert isinstance(right, _NUMBER)
        if right == 0 and name in _DIVIDING:
            self.fail("division by zero", expression.place)
        return self._bounded(_ARITHMETIC[name](left, right), expression.place)

    def _either(self, expression: Binary) -> bool:
        holds = self.truth(expression.left)
        if holds or self.truth(expression.right):
            self.choices.add((expression.place.line, expression.place.column, holds))
            return True
        return False

    def _call(self, call: Call) -> Value:
        return _CALLED[call.function](self, call)

    def _size(self, call: Call) -> int:
        dtype = self.value(call.args[0])
        assert isinstance(dtype, DType)
        return dtype.size

    def _aligned(self, call: Call) -> bool:
        count = self.integer(call.args[1])
        if count < 1 or count & (count - 1):
            self.fail(f"aligned() needs a power of two, not {count}", call.place)
        return self._layout(call).alignment % count == 0

    def _stride(self, call: Call) -> int:
        return self._layout(call).strides[self.integer(call.args[1])]

    def _extreme(self, call: Call) -> int:
        values = [*map(self.integer, call.args)]
        first = values[0]
        for number, other in enumerate(values):
            if first != other:
                self.sides.add((call.place.line, call.place.column, number, first < other))
        return min(values) if call.function == "min" else max(values)

    def _layout(self, call: Call) -> Layout:
        first = call.args[0]
        assert isinstance(first, Name)
        return self.bindings.layouts[first.id]

    def _ceil_div(self, call: Call) -> int:
        left, right = map(self.integer, call.args)
        if left < 0 or right <= 0:
            self.fail(f"ceil_div({left}, {right}) needs a >= 0 and b > 0", call.place)
        return -(-left // right)

    def _root(self, call: Call) -> float:
        value = float(self.number(call.args[0]))
        if value < 0 or (call.function == "rsqrt" and value == 0):
            self.fail(f"{call.function}({value:g}) is not a number", call.place)
        return math.sqrt(value) if call.function == "sqrt" else 1.0 / math.sqrt(value)

    def _bounded(self, value: int | float, place: Place) -> int | float:
        if isinstance(value, float):
            if not math.isfinite(value):
                self.fail("this value does not fit in double precision", place)
        elif not -MAX_INTEGER <= value <= MAX_INTEGER:
            self.fail("this value does not fit in 64 bits", place)
        return value


_VALUE_OF: Mapping[type, Callable[[Evaluator, Any], Value]] = {
    Integer: Evaluator._literal,
    Real: Evaluator._literal,
    Name: Evaluator._name,
    Call: Evaluator._call,
    Unary: Evaluator._unary,
    Binary: Evaluator._binary,
    Compare: Evaluator._compare,
    Conditional: Evaluator._conditional,
}

_CALLED: Mapping[str, Callable[[Evaluator, Call], Value]] = {
    "min": Evaluator._extreme,
    "max": Evaluator._extreme,
    "ceil_div": Evaluator._ceil_div,
    "sqrt": Evaluator._root,
    "rsqrt": Evaluator._root,
    "sizeof": Evaluator._size,
    "aligned": Evaluator._aligned,
    "stride": Evaluator._stride,
}
