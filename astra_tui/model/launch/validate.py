"""Checks a plan against its task before anything runs: names, kinds of values, unused names."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

from astra_tui.model.dtypes import PLAN_TYPES, TENSOR_ONLY, DType
from astra_tui.model.errors import Place, nearest
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
    names_in,
)
from astra_tui.model.launch.plan import (
    Dispatch,
    KernelArgument,
    Launch,
    LaunchPlan,
    Let,
    Member,
    PlanError,
    Refuse,
    Struct,
    Tune,
    Verbatim,
    Workspace,
)
from astra_tui.model.launch.printer import print_expression
from astra_tui.model.launch.scope import (
    DEVICE_ATTRIBUTES,
    ELEMENT_TYPE,
    NULL,
    RESERVED_NAMES,
    TRUTH_VALUES,
    Scope,
    TensorType,
)


class Kind(Enum):
    """What a value of the plan's language is; the text completes 'is ...'."""

    INTEGER = "a whole number"
    TRUTH = "true or false"
    TYPE = "a type"
    TENSOR = "a tensor"
    FLOAT = "a floating-point number"
    POINTER = "a null pointer"

    @property
    def is_number(self) -> bool:
        """Whether it can be computed with."""
        return self in (Kind.INTEGER, Kind.FLOAT)


def validate_plan(plan: LaunchPlan, scope: Scope, file: str = "") -> None:
    """Raises PlanError at the first thing in the plan that cannot work for this task."""
    checker = _Checker(scope, file)
    for declaration in plan.declarations:
        match declaration:
            case Workspace():
                checker.workspace(declaration)
            case Tune():
                checker.define(declaration.name, Kind.INTEGER, declaration.place)
            case Let():
                checker.let(declaration)
    for step in plan.steps:
        checker.step(step)
    checker.unused(plan)


def kind_of(expression: Expression, scope: Scope, file: str = "") -> Kind:
    """The kind of an expression that only uses the task's names (shapes, contracts, costs)."""
    return _Checker(scope, file).kind(expression)


class _Checker:
    def __init__(self, scope: Scope, file: str):
        self.file = file
        self.tensors: dict[str, TensorType] = dict(scope.tensors)
        self.kinds: dict[str, Kind] = {
            **dict.fromkeys(DEVICE_ATTRIBUTES, Kind.INTEGER),
            **dict.fromkeys(PLAN_TYPES, Kind.TYPE),
            **dict.fromkeys(scope.dims, Kind.INTEGER),
            **dict.fromkeys(scope.tensors, Kind.TENSOR),
            **{n: Kind.FLOAT if d.is_float else Kind.INTEGER for n, d in scope.scalars.items()},
            **dict.fromkeys(TRUTH_VALUES, Kind.TRUTH),
            ELEMENT_TYPE: Kind.TYPE,
            NULL: Kind.POINTER,
        }
        self.defined: dict[str, Place] = {}

    def fail(self, message: str, place: Place, hint: str = "") -> NoReturn:
        raise PlanError(message, file=self.file, place=place, hint=hint)

    def define(self, name: str, kind: Kind, place: Place) -> None:
        if name in self.kinds or name in RESERVED_NAMES:
            self.fail(f"'{name}' already means something in this task; choose another name", place)
        self.kinds[name] = kind
        self.defined[name] = place

    def workspace(self, workspace: Workspace) -> None:
        for size in workspace.shape:
            self.require(size, Kind.INTEGER, f"a size of workspace {workspace.name}")
        self.define(workspace.name, Kind.TENSOR, workspace.place)
        dtype = None if workspace.dtype == ELEMENT_TYPE else DType(workspace.dtype)
        self.tensors[workspace.name] = TensorType(dtype, len(workspace.shape))

    def let(self, let: Let) -> None:
        kind = self.kind(let.value)
        if kind in (Kind.TENSOR, Kind.POINTER):
            self.fail(f"'{let.name}' cannot stand for {kind.value}", let.value.place)
        self.define(let.name, kind, let.place)

    def step(self, step: Launch | Dispatch | Refuse) -> None:
        match step:
            case Launch():
                self.launch(step)
            case Dispatch(branches=branches):
                for branch in branches:
                    if branch.condition is not None:
                        self.require(branch.condition, Kind.TRUTH, "the condition of 'when'")
                    for item in branch.body:
                        self.step(item)
            case Refuse():
                pass

    def launch(self, launch: Launch) -> None:
        fields = (("grid", launch.grid), ("block", launch.block), ("cluster", launch.cluster))
        for field, sizes in fields:
            for size in sizes:
                self.require(size, Kind.INTEGER, f"{field}= of {launch.kernel}")
        if launch.shared_bytes is not None:
            self.require(launch.shared_bytes, Kind.INTEGER, f"shared= of {launch.kernel}")
        if launch.pdl is not None:
            self.require(launch.pdl, Kind.TRUTH, f"pdl= of {launch.kernel}")
        for argument in launch.template_args:
            if not isinstance(argument, Verbatim):
                kind = self.kind(argument)
                if kind not in (Kind.INTEGER, Kind.TRUTH, Kind.TYPE):
                    self.fail(f"a template argument cannot be {kind.value}", argument.place)
        for number, value in enumerate(launch.args, 1):
            self.argument(value, f"argument {number} of {launch.kernel}")

    def argument(self, argument: KernelArgument, what: str) -> None:
        if isinstance(argument, Struct):
            for number, member in enumerate(argument.members, 1):
                self.member(member, f"member {number} of {what}")
        elif self.kind(argument) is Kind.TYPE:
            self.fail(f"{what} is a type", argument.place)

    def member(self, member: Member | KernelArgument, what: str) -> None:
        if isinstance(member, Member):
            kind = self.kind(member.value)
            if not kind.is_number and kind is not Kind.TRUTH:
                self.fail(f"{what} is {kind.value}; it has to be a number", member.value.place)
            return
        self.argument(member, what)
        if not isinstance(member, Struct) and self.kind(member) not in (Kind.TENSOR, Kind.POINTER):
            self.fail(
                f"{what} has no type", member.place, f"write: int32 {print_expression(member)}"
            )

    def unused(self, plan: LaunchPlan) -> None:
        used = set().union(*map(names_in, _expressions(plan)))
        for launch in plan.launches():
            for argument in launch.template_args:
                if isinstance(argument, Verbatim):
                    used |= argument.names
        for name, place in self.defined.items():
            if name not in used:
                self.fail(f"'{name}' is declared but never used", place)

    # -- kinds of expressions ------------------------------------------------------------------

    def require(self, expression: Expression, wanted: Kind, what: str) -> None:
        kind = self.kind(expression)
        if kind is not wanted:
            self.fail(
                f"{what} is {kind.value}; it has to be {wanted.value}",
                expression.place,
                "use // for integer division" if "/" in _operators(expression) else "",
            )

    def number(self, expression: Expression, what: str) -> Kind:
        return self._number(self.kind(expression), expression, what)

    def _number(self, kind: Kind, expression: Expression, what: str) -> Kind:
        if not kind.is_number:
            self.fail(f"{what} is {kind.value}; it has to be a number", expression.place)
        return kind

    def kind(self, expression: Expression) -> Kind:
        match expression:
            case Integer():
                return Kind.INTEGER
            case Real():
                return Kind.FLOAT
            case Name(id=name, place=place):
                if name in {dtype.value for dtype in TENSOR_ONLY}:
                    self.fail(
                        f"a launch plan cannot name {name}: no byte is one element",
                        place,
                        "count bytes: two elements take one, such as d // 2",
                    )
                if name not in self.kinds:
                    self.fail(f"unknown name '{name}'", place, nearest(name, self.kinds))
                return self.kinds[name]
            case Call():
                return self._call(expression)
            case Unary(operator=operator, operand=operand):
                what = f"the operand of '{operator}'"
                if operator == "not":
                    self.require(operand, Kind.TRUTH, what)
                    return Kind.TRUTH
                return self.number(operand, what)
            case Binary():
                return self._binary(expression)
            case Compare():
                self._compare(expression)
                return Kind.TRUTH
            case Conditional(condition=condition, when_true=a, when_false=b, place=place):
                self.require(condition, Kind.TRUTH, "the condition after 'if'")
                kinds = self.kind(a), self.kind(b)
                if kinds[0] is not kinds[1]:
                    self.fail("the two sides of 'if ... else' are of different kinds", place)
                if kinds[0] in (Kind.TENSOR, Kind.POINTER):
                    self.fail(
                        "'if ... else' cannot choose a tensor",
                        place,
                        "write two launches, chosen by 'when'",
                    )
                return kinds[0]

    def _binary(self, expression: Binary) -> Kind:
        operator = expression.operator
        sides = {"left": expression.left, "right": expression.right}
        if operator in ("+", "-", "*", "/"):
            left = self.kind(expression.left)
            if left is Kind.TENSOR and operator in ("+", "-"):
                distance = "the distance from a tensor's beginning"
                self.require(expression.right, Kind.INTEGER, distance)
                return Kind.TENSOR
            kinds = {
                self._number(left, expression.left, f"the left side of '{operator}'"),
                self.number(expression.right, f"the right side of '{operator}'"),
            }
            return Kind.INTEGER if operator != "/" and kinds == {Kind.INTEGER} else Kind.FLOAT
        wanted = Kind.TRUTH if operator in ("and", "or") else Kind.INTEGER
        for side, part in sides.items():
            self.require(part, wanted, f"the {side} side of '{operator}'")
        return wanted

    def _compare(self, expression: Compare) -> None:
        previous = self.kind(expression.first)
        for operator, right in expression.links:
            kind = self.kind(right)
            if kind is not previous or kind in (Kind.TENSOR, Kind.FLOAT, Kind.POINTER):
                self.fail(f"'{operator}' cannot compare these two kinds of values", right.place)
            if kind is not Kind.INTEGER and operator not in ("==", "!="):
                self.fail(f"'{operator}' needs whole numbers", right.place)
            previous = kind

    def _call(self, call: Call) -> Kind:
        match call.function:
            case "min" | "max":
                if len(call.args) < 2:
                    self.fail(f"{call.function}() takes two values or more", call.place)
                self._integers(call)
            case "ceil_div":
                self._count(call, 2)
                self._integers(call)
            case "sqrt" | "rsqrt":
                self._count(call, 1)
                self.number(call.args[0], f"the operand of {call.function}()")
                return Kind.FLOAT
            case "sizeof":
                self._count(call, 1)
                self.require(call.args[0], Kind.TYPE, "the operand of sizeof()")
            case "aligned":
                self._count(call, 2)
                self._tensor(call)
                self.require(call.args[1], Kind.INTEGER, "the second value of aligned()")
                return Kind.TRUTH
            case _:
                self._count(call, 2)
                self._stride(call, self._tensor(call))
        return Kind.INTEGER

    def _stride(self, call: Call, tensor: str) -> None:
        axis, rank = call.args[1], self.tensors[tensor].rank
        if not isinstance(axis, Integer) or axis.value >= rank:
            self.fail(
                f"the axis of stride() is a number from 0 to {rank - 1} for {tensor}", axis.place
            )

    def _integers(self, call: Call) -> None:
        for value in call.args:
            self.require(value, Kind.INTEGER, f"a value of {call.function}()")

    def _count(self, call: Call, count: int) -> None:
        if len(call.args) != count:
            self.fail(
                f"{call.function}() takes {count} value{'s' * (count > 1)}, not {len(call.args)}",
                call.place,
            )

    def _tensor(self, call: Call) -> str:
        first = call.args[0]
        if not isinstance(first, Name) or self.kind(first) is not Kind.TENSOR:
            self.fail(f"the first value of {call.function}() is a tensor argument", first.place)
        return first.id


def _operators(expression: Expression) -> set[str]:
    """The arithmetic of an expression, as far as a value passes through it."""
    match expression:
        case Binary(operator=operator, left=left, right=right):
            return {operator} | _operators(left) | _operators(right)
        case _:
            return set()


def _expressions(plan: LaunchPlan) -> list[Expression]:
    found: list[Expression] = []
    for declaration in plan.declarations:
        match declaration:
            case Workspace(shape=shape):
                found.extend(shape)
            case Let(value=value):
                found.append(value)
            case Tune():
                pass
    for step in plan.steps:
        if isinstance(step, Dispatch):
            found.extend(b.condition for b in step.branches if b.condition is not None)
    for launch in plan.launches():
        found.extend(launch.expressions())
        found.extend(a for a in launch.template_args if not isinstance(a, Verbatim))
    return found
