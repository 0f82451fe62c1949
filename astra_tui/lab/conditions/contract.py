"""All launches that a task's contract and a source's plan allow, as terms of a solver.

Sizes, scalars, alignments and strides are free within the contract; what the plan computes from
them is a term with bounds. The terms have 64 bits, as the plan's own arithmetic, and where a
bound shows that a value might not fit, it is assumed to: the plan fails there before a launch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import z3

from astra_tui.lab.check.execution import Source
from astra_tui.lab.conditions.terms import IntegerTensor, LaunchContext
from astra_tui.model.check import Case
from astra_tui.model.compilation import CompiledKernel, Parameter
from astra_tui.model.device import BASE_ALIGNMENT
from astra_tui.model.dtypes import PLAN_TYPES, DType
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
    Unary,
    conjuncts,
    split_pointer,
)
from astra_tui.model.launch.expression_parser import parse_expression
from astra_tui.model.launch.plan import (
    Branch,
    Dispatch,
    KernelArgument,
    Launch,
    Leaf,
    Let,
    Refuse,
    Struct,
    Tune,
    Verbatim,
)
from astra_tui.model.launch.scope import (
    DEVICE_ATTRIBUTES,
    ELEMENT_TYPE,
    MAX_INTEGER,
    NULL,
    TRUTH_VALUES,
)
from astra_tui.model.task import KernelTask, ValueKind

LARGEST_DIM = 1 << 31
MAX_ELEMENTS = 1 << 40
"""Elements of the largest tensor that is thought of: more than any GPU's memory holds."""

_BITS = 64
_GRID = ((1 << 31) - 1, 65_535, 65_535)
_BLOCK = (1024, 1024, 64)
_MAX_PADDING = 1 << 20
_SMALL_SHIFT, _SMALL_PADDING = 15, 64


_BOUNDED = (ValueKind.INTEGERS, ValueKind.OFFSETS)
"""Kinds of values that lie between two numbers in every case."""


class NotModelled(Exception):
    """A plan or kernel whose launches cannot be put into terms."""


@dataclass(frozen=True)
class Number:
    """A whole number as a signed term of 64 bits, and bounds that it keeps."""

    term: Any
    low: int
    high: int


@dataclass
class Launches:
    """The launches of one kernel at one place of the plan, over the whole contract."""

    context: LaunchContext
    dims: Mapping[str, Any]
    scalars: Mapping[str, Any]
    shifts: Mapping[str, Any]
    """How many elements each tensor begins past its alignment."""
    paddings: Mapping[str, Any]
    elements: Any
    """Elements of the largest tensor."""
    dtype: DType
    device: Mapping[str, Any]
    facts: list[Any] = field(default_factory=list)

    def at_sizes(self, dims: Mapping[str, int], free: str) -> list[Any]:
        """Holds all sizes but one, named "" for none, at given ones."""
        return [term == dims[name] for name, term in self.dims.items() if name != free]

    def with_elements(self, most: int) -> list[Any]:
        """Tensors have at most so many elements."""
        return [self.elements <= most]

    def plain(self, task: KernelTask, attributes: Mapping[str, int]) -> list[Any]:
        """Layouts and scalars are those of cases, on a device with such attributes."""
        facts = [t <= _SMALL_SHIFT for t in self.shifts.values()]
        facts += [t <= _SMALL_PADDING for t in self.paddings.values()]
        facts += self.on_device(attributes)
        facts += [one_of(term, task.args[name].choices) for name, term in self.scalars.items()]
        return facts

    def on_device(self, attributes: Mapping[str, int]) -> list[Any]:
        """The device has such attributes."""
        return [self.device[n] == v for n, v in attributes.items() if n in self.device]

    def contiguous(self) -> list[Any]:
        """Tensors begin where they are aligned, and their rows follow one another."""
        return [term == 0 for term in (*self.shifts.values(), *self.paddings.values())]

    def with_sizes(self, most: int) -> list[Any]:
        """No size is larger, which is easier to solve than a bound of elements."""
        return [term <= most for term in self.dims.values()]

    def solution(self, solver: z3.Solver) -> dict[str, dict[str, int]] | None:
        """Sizes, scalars and layouts that solve what is asked; each call gives other sizes."""
        if solver.check() != z3.sat:
            return None
        model = solver.model()

        def numbers(terms: Mapping[str, Any]) -> dict[str, int]:
            values: dict[str, Any] = {
                n: model.eval(t, model_completion=True) for n, t in terms.items()
            }
            return {n: v.as_signed_long() for n, v in values.items()}

        dims = numbers(self.dims)
        solver.add(z3.Or([term != dims[name] for name, term in self.dims.items()]))
        return {
            "dims": dims,
            "scalars": numbers(self.scalars),
            "offsets": numbers(self.shifts),
            "row_padding": numbers(self.paddings),
        }


def launches_of(task: KernelTask, source: Source, kernel: CompiledKernel) -> list[Launches]:
    """Every way in which the plan launches a kernel. Raises NotModelled."""
    found = []
    for dtype in task.dtypes:
        for launch in source.plan.launches():
            model = _Model(task, source, dtype, _settled(launch, kernel))
            if model.launch(launch, kernel):
                found.append(model.launches(launch, kernel))
    return found


def way_to(
    task: KernelTask,
    source: Source,
    dtype: DType,
    launch: Launch | None,
    guards: Iterable[tuple[Expression, bool]] = (),
) -> Launches:
    """How the plan comes to a launch of at least one block, whichever kernel that is, or to no
    certain one, where conditions are as given. Raises NotModelled.
    """
    model = _Model(task, source, dtype, {})
    if launch is not None:
        model.take_way_to(launch)
        model.axes({}, "nctaid", "ctaid", launch.grid, _GRID)
    for condition, wanted in guards:
        holds = model.truth(condition)
        model.facts.append(holds if wanted else z3.Not(holds))
    return model.space(LaunchContext({}, {}, {}))


def _settled(launch: Launch, kernel: CompiledKernel) -> dict[Expression, int]:
    """The plan's expressions whose values a kernel's template arguments say, with these."""
    pairs = zip(launch.template_args, _template_arguments(launch, kernel) or (), strict=False)
    return {e: int(t) for e, t in pairs if not isinstance(e, Verbatim) and t.isdecimal()}


class _Model:
    def __init__(
        self, task: KernelTask, source: Source, dtype: DType, settled: Mapping[Expression, int]
    ):
        self.task = task
        self.source = source
        self.dtype = dtype
        self.settled = settled
        """Expressions of which the launch in question is for one value alone. Wherever the plan has
        them they are numbers: quotients by a number are far easier than such by an unknown.
        """
        self.facts: list[Any] = []
        self.guards: list[Any] = []
        self.lets: dict[str, Expression] = {}
        """Names of the plan that are no numbers."""
        self.dims = {name: self._free(f"dim_{name}", 0, LARGEST_DIM) for name in task.dims}
        self.scalars: dict[str, Number] = {}
        for a in task.scalars:
            if a.dtype is not None and not a.dtype.is_float:
                self.scalars[a.name] = self._free(f"scalar_{a.name}", *a.dtype.integer_range)
        self.shifts = {a.name: self._free(f"shift_{a.name}", 0, 255) for a in task.tensors}
        strided = [a.name for a in task.tensors if a.strided]
        self.paddings = {n: self._free(f"padding_{n}", 0, _MAX_PADDING) for n in strided}
        self._types = {**PLAN_TYPES, ELEMENT_TYPE: dtype}
        self.names: dict[str, Number | DType] = {
            **self._types,
            **self.dims,
            **self.scalars,
        }
        self.device: dict[str, Number] = {}
        self.elements = self._sizes()
        for condition in task.accepts:
            self.facts.append(self.truth(condition))
        for declaration in source.plan.declarations:
            match declaration:
                case Tune(name=name, value=value):
                    self.names[name] = _constant(value)
                case Let(name=name, value=expression):
                    self._define(name, expression)

    def _define(self, name: str, expression: Expression) -> None:
        try:
            self.names[name] = self.number(expression)
        except NotModelled:
            self.lets[name] = expression

    def _assume(self, fact: Any) -> None:
        """Adds what holds wherever the part of the plan that is being read is evaluated."""
        self.facts.append(z3.Implies(z3.And(self.guards), fact) if self.guards else fact)

    def _under(self, guard: Any, read: Callable[[Expression], Any], part: Expression) -> Any:
        """Reads a part of an expression that is evaluated only where a condition holds."""
        self.guards.append(guard)
        try:
            return read(part)
        finally:
            self.guards.pop()

    def _free(self, name: str, low: int, high: int) -> Number:
        if low < 0:
            term = z3.BitVec(name, _BITS)
            self.facts += [term >= low, term <= high]
            return Number(term, low, high)
        # Bits that are known to be zero make products and quotients much easier.
        term = free(name, high, _BITS)
        self.facts += [z3.UGE(term, low), z3.ULE(term, high)]
        return Number(term, low, high)

    def _sizes(self) -> Any:
        """Bounds every tensor; gives the elements of the largest one."""
        largest = z3.BitVecVal(0, _BITS)
        one = _constant(1)
        for argument in self.task.tensors:
            product = one
            for size in argument.shape:
                extent = self.number(size)
                self.facts.append(extent.term >= 0)
                product = self._times(product, _larger(extent, one))
                self.facts.append(product.term <= MAX_ELEMENTS)
                product = Number(product.term, 1, MAX_ELEMENTS)
            largest = z3.If(product.term > largest, product.term, largest)
        return largest

    # -- one launch --------------------------------------------------------------------------------

    def launch(self, launch: Launch, kernel: CompiledKernel) -> bool:
        """Takes the way to a launch; whether it can be one of this kernel."""
        given = _template_arguments(launch, kernel)
        if given is None:
            return False
        for argument, text in zip(launch.template_args, given, strict=True):
            if isinstance(argument, Verbatim):
                names = set(re.findall(r"[A-Za-z_]\w*", argument.text))
                if (
                    names == {ELEMENT_TYPE}
                    and argument.text == ELEMENT_TYPE
                    and text != self.dtype.cuda
                ):
                    return False
                continue
            if isinstance(argument, Name) and isinstance(self.names.get(argument.id), DType):
                dtype = self.names[argument.id]
                assert isinstance(dtype, DType)
                if dtype.cuda != text:
                    return False
                continue
            if text in ("true", "false"):
                self.facts.append(self.truth(argument) == z3.BoolVal(text == "true"))
            else:
                self.facts.append(self._computed(argument).term == int(text))
        self.take_way_to(launch)
        return True

    def take_way_to(self, launch: Launch) -> None:
        """Adds what holds where the plan comes to a launch."""
        for step in self.source.plan.steps:
            match step:
                case Launch() if step is launch:
                    return
                case Dispatch(branches=branches):
                    if self._dispatched(branches, launch):
                        return

    def _dispatched(self, branches: tuple[Branch, ...], launch: Launch) -> bool:
        """Whether one of the branches holds the launch; adds what then holds."""
        for number, branch in enumerate(branches):
            if any(item is launch for item in branch.body):
                self._take_branch(branch, branches[:number])
                return True
        none_before = z3.BoolVal(True)
        for branch in branches:
            holds = none_before
            if branch.condition is not None:
                condition = self._under(none_before, self.truth, branch.condition)
                holds = z3.And(none_before, condition)
                none_before = z3.And(none_before, z3.Not(condition))
            if any(isinstance(item, Refuse) for item in branch.body):
                self.facts.append(z3.Not(holds))
        return False

    def _take_branch(self, branch: Branch, before: tuple[Branch, ...]) -> None:
        """Adds that a branch is taken, and none before it: each part as a fact of its own, and of
        the others what the branch does not share with them, since short facts make cheap proofs.
        """
        parts = conjuncts(branch.condition)
        self.facts += [self.truth(part) for part in parts]
        for other in before:
            left = [part for part in conjuncts(other.condition) if part not in parts]
            both = (self.truth(reduce(partial(Binary, "and"), left)),) if left else ()
            self.facts.append(z3.Not(z3.And(both)))

    def launches(self, launch: Launch, kernel: CompiledKernel) -> Launches:
        """The launch's grid, block and arguments."""
        special: dict[str, Any] = {}
        self.axes(special, "nctaid", "ctaid", launch.grid, _GRID)
        block = self.axes(special, "ntid", "tid", launch.block, _BLOCK)
        threads = block[0]
        for size in block[1:]:
            threads = self._times(threads, size)
        self.facts.append(threads.term <= 1024)
        if len(launch.block) == 1:
            special["%laneid"] = special["%tid.x"] & 31
        parameters: dict[int, Any] = {}
        pointers: dict[int, IntegerTensor | None] = {}
        for argument, parameter in zip(launch.args, kernel.parameters, strict=True):
            for leaf in self._leaves(argument, parameter):
                given = self._argument(leaf)
                if given is not None:
                    parameters[parameter.offset + leaf.offset] = given
                if leaf.dtype is None:
                    pointers[parameter.offset + leaf.offset] = self._tensor(leaf.value)
        return self.space(LaunchContext(special, parameters, pointers))

    def space(self, context: LaunchContext) -> Launches:
        """All that was read, of a launch with these arguments."""
        return Launches(
            context=context,
            dims={n: v.term for n, v in self.dims.items()},
            scalars={n: v.term for n, v in self.scalars.items()},
            shifts={n: v.term for n, v in self.shifts.items()},
            paddings={n: v.term for n, v in self.paddings.items()},
            elements=self.elements,
            dtype=self.dtype,
            device={n: v.term for n, v in self.device.items()},
            facts=self.facts,
        )

    def axes(
        self,
        special: dict[str, Any],
        extent: str,
        index: str,
        sizes: tuple[Expression, ...],
        most: tuple[int, int, int],
    ) -> list[Number]:
        """The three sizes of a grid or block, all at least 1, and the registers that have them."""
        found = []
        for number, axis in enumerate("xyz"):
            size = self.number(sizes[number]) if number < len(sizes) else _constant(1)
            self.facts += [size.term >= 1, size.term <= most[number]]
            found.append(Number(size.term, 1, most[number]))
            at = free(f"{index}_{axis}", most[number], 32)
            special[f"%{extent}.{axis}"] = z3.Extract(31, 0, size.term)
            special[f"%{index}.{axis}"] = at
            self.facts.append(z3.ULT(at, special[f"%{extent}.{axis}"]))
        return found

    def _leaves(self, argument: KernelArgument, parameter: Parameter) -> tuple[Leaf, ...]:
        """The values that a parameter is made of."""
        if isinstance(argument, Struct):
            return argument.layout(self.dtype).leaves
        return (Leaf(0, None if parameter.kind == "pointer" else parameter.dtype, argument),)

    def _argument(self, leaf: Leaf) -> Any:
        """The term of one value; None for what is not modelled, such as a float."""
        argument, dtype = leaf.value, leaf.dtype
        if isinstance(argument, Name) and argument.id == NULL:
            return z3.BitVecVal(0, _BITS)
        pointer = split_pointer(argument)
        if pointer is not None and (size := self._item_bytes(pointer[0].id)):
            distance = self._times(self.number(pointer[1]), _constant(size))
            return self._pointer(pointer[0].id, size) + distance.term
        if dtype is None or dtype.is_float:
            return None
        number = self._passed(argument)
        low, high = dtype.integer_range
        self.facts += [number.term >= low, number.term <= high]
        return z3.Extract(8 * dtype.size - 1, 0, number.term)

    def _tensor(self, pointer: Expression) -> IntegerTensor | None:
        """What the contract says of the numbers to which a pointer leads."""
        found = split_pointer(pointer)
        argument = self.task.args.get(found[0].id) if found is not None else None
        if argument is None or argument.is_written or argument.values.kind not in _BOUNDED:
            return None
        dtype = self.task.dtype_of(argument, self.dtype)
        values = argument.values
        texts = values.low_text or f"{values.low:.0f}", values.high_text or f"{values.high:.0f}"
        try:
            low, high = (self.number(parse_expression(text)).term for text in texts)
        except NotModelled:
            return None
        return (
            None
            if dtype.is_float
            else IntegerTensor(8 * dtype.size, dtype.integer_range[0] < 0, low, high)
        )

    def _passed(self, argument: Expression) -> Number:
        """A number, or a condition as 0 or 1."""
        try:
            return self.number(argument)
        except NotModelled:
            return _either(self.truth(argument), _constant(1), _constant(0))

    def _item_bytes(self, name: str) -> int:
        """Bytes of an item of a tensor argument or workspace, 0 for any other name."""
        for argument in self.task.tensors:
            if argument.name == name:
                return self.task.dtype_of(argument, self.dtype).size
        for workspace in self.source.plan.workspaces:
            if workspace.name == name:
                element = workspace.dtype == ELEMENT_TYPE
                return (self.dtype if element else DType(workspace.dtype)).size
        return 0

    def _pointer(self, name: str, size: int) -> Any:
        """The address of a tensor argument or workspace."""
        shifted = self.shifts[name].term * size if name in self.shifts else 0
        base = z3.BitVec(f"base_{name}", _BITS)
        mask = BASE_ALIGNMENT - 1
        self.facts += [(base & mask) == (shifted & mask), base > 0]
        return base

    # -- expressions -------------------------------------------------------------------------------

    def truth(self, expression: Expression) -> Any:
        """A condition of the plan or the contract."""
        match expression:
            case Compare(first=Name(id=a), links=((operator, Name(id=b)),)) if a in self._types:
                return z3.BoolVal((self._types[a] is self._types.get(b)) == (operator == "=="))
            case Compare(first=first, links=links):
                left, parts = self.number(first), []
                for operator, side in links:
                    right = self.number(side)
                    parts.append(_COMPARE[operator](left.term, right.term))
                    left = right
                return z3.And(parts)
            case Binary(operator="and", left=a, right=b):
                left = self.truth(a)
                return z3.And(left, self._under(left, self.truth, b))
            case Binary(operator="or", left=a, right=b):
                left = self.truth(a)
                return z3.Or(left, self._under(z3.Not(left), self.truth, b))
            case Unary(operator="not", operand=operand):
                return z3.Not(self.truth(operand))
            case Call(function="aligned", args=(Name(id=name), count)):
                return self._aligned(name, self.number(count))
            case Name(id=name) if name in self.lets:
                return self.truth(self.lets[name])
            case Name(id=name) if name in TRUTH_VALUES:
                return z3.BoolVal(TRUTH_VALUES[name])
            case Conditional(condition=c, when_true=a, when_false=b):
                holds = self.truth(c)
                return z3.If(
                    holds,
                    self._under(holds, self.truth, a),
                    self._under(z3.Not(holds), self.truth, b),
                )
            case _:
                raise NotModelled("a condition of the launch plan")

    def _aligned(self, name: str, count: Number) -> Any:
        if name not in self.shifts:
            return z3.BoolVal(count.high <= BASE_ALIGNMENT)
        size = self.task.dtype_of(self.task.args[name], self.dtype).size
        return z3.URem(self.shifts[name].term * size & (BASE_ALIGNMENT - 1), count.term) == 0

    def number(self, expression: Expression) -> Number:
        """A whole number of the plan or the contract."""
        value = self.settled.get(expression)
        return self._computed(expression) if value is None else _constant(value)

    def _computed(self, expression: Expression) -> Number:
        """A number by its parts, whatever the launch in question says of it."""
        match expression:
            case Integer(value=value):
                return _constant(value)
            case Name(id=name):
                return self._name(name)
            case Unary(operator="-", operand=operand):
                inner = self.number(operand)
                return Number(-inner.term, -inner.high, -inner.low)
            case Binary(operator="+" | "-" | "*" | "//" | "%"):
                return self._arithmetic(expression)
            case Conditional(condition=c, when_true=a, when_false=b):
                holds = self.truth(c)
                first = self._under(holds, self.number, a)
                second = self._under(z3.Not(holds), self.number, b)
                return _either(holds, first, second)
            case Call():
                return self._call(expression)
            case _:
                raise NotModelled("a number of the launch plan")

    def _name(self, name: str) -> Number:
        value = self.names.get(name)
        if isinstance(value, Number):
            return value
        if name not in self.device:
            if name not in DEVICE_ATTRIBUTES:
                raise NotModelled(f"'{name}' of the launch plan")
            # A device attribute: another device has another number.
            self.device[name] = self._free(f"device_{name}", 1, LARGEST_DIM)
        return self.device[name]

    def _arithmetic(self, expression: Binary) -> Number:
        a, b = self.number(expression.left), self.number(expression.right)
        match expression.operator:
            case "+":
                return self._fitting(
                    Number(a.term + b.term, a.low + b.low, a.high + b.high), a, b, "+"
                )
            case "-":
                return self._fitting(
                    Number(a.term - b.term, a.low - b.high, a.high - b.low), a, b, "-"
                )
            case "*":
                return self._times(a, b)
        if a.low < 0 or b.low < 0:
            raise NotModelled("a division of numbers that may be negative")
        # Where b is 0 the plan fails, so the terms' value for that does not matter.
        if expression.operator == "//":
            return _divided(z3.UDiv, a, b, a.low // max(b.high, 1), a.high // max(b.low, 1))
        return _divided(z3.URem, a, b, 0, max(min(a.high, b.high - 1), 0))

    def _times(self, a: Number, b: Number) -> Number:
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return self._fitting(Number(a.term * b.term, min(ends), max(ends)), a, b, "*")

    def _fitting(self, made: Number, a: Number, b: Number, operator: str) -> Number:
        """The result, assumed to fit where its bounds do not show it: else the plan fails."""
        if made.low >= -MAX_INTEGER and made.high <= MAX_INTEGER:
            return _narrowed(made)
        full = _EXACTLY[operator](z3.SignExt(_BITS, a.term), z3.SignExt(_BITS, b.term))
        self._assume(full == z3.SignExt(_BITS, made.term))
        return Number(made.term, max(made.low, -MAX_INTEGER), min(made.high, MAX_INTEGER))

    def _call(self, call: Call) -> Number:
        match call.function:
            case "min" | "max":
                found = self.number(call.args[0])
                for argument in call.args[1:]:
                    other = self.number(argument)
                    found = (
                        _smaller(found, other) if call.function == "min" else _larger(found, other)
                    )
                return found
            case "ceil_div":
                a, b = map(self.number, call.args)
                if a.low < 0 or b.low < 0:
                    raise NotModelled("a division of numbers that may be negative")
                above = Number(a.term + b.term - 1, a.low, a.high + b.high)
                return _divided(z3.UDiv, above, b, 0, above.high // max(b.low, 1))
            case "sizeof":
                name = call.args[0]
                dtype = self.names.get(name.id) if isinstance(name, Name) else None
                if isinstance(dtype, DType):
                    return _constant(dtype.size)
                raise NotModelled("the size of a type")
            case "stride":
                return self._stride(call)
            case _:
                raise NotModelled(f"{call.function}()")

    def _stride(self, call: Call) -> Number:
        """Row-major strides; the rows of a strided tensor may lie further apart."""
        name, axis = call.args
        if not isinstance(name, Name) or not isinstance(axis, Integer):
            raise NotModelled("a stride")
        argument = self.task.args.get(name.id)
        shape = argument.shape if argument is not None else self._workspace(name.id)
        stride = _constant(1)
        for number in range(len(shape) - 1, axis.value, -1):
            stride = self._times(stride, self.number(shape[number]))
            if number == len(shape) - 1 and name.id in self.paddings:
                padding = self.paddings[name.id]
                stride = Number(stride.term + padding.term, stride.low, stride.high + padding.high)
        return stride

    def _workspace(self, name: str) -> tuple[Expression, ...]:
        return next(w.shape for w in self.source.plan.workspaces if w.name == name)


def one_of(term: Any, values: Iterable[float]) -> Any:
    """A term has one of some whole values."""
    return z3.Or([term == int(value) for value in values])


def free(name: str, most: int, width: int) -> Any:
    """A variable from 0 up to at least a number, as a bit vector of some width."""
    bits = max(most.bit_length(), 1)
    return z3.ZeroExt(width - bits, z3.BitVec(name, bits))


_COMPARE: dict[str, Any] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


_EXACTLY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
}


def _constant(value: int) -> Number:
    return Number(z3.BitVecVal(value, _BITS), value, value)


def _narrowed(number: Number) -> Number:
    """The same number, the bits above its bound written as zeros: solving is faster with them."""
    bits = max(number.high.bit_length(), 1)
    if number.low < 0 or bits >= _BITS:
        return number
    term = z3.ZeroExt(_BITS - bits, z3.Extract(bits - 1, 0, number.term))
    return Number(term, number.low, number.high)


def _divided(operation: Callable[..., Any], a: Number, b: Number, low: int, high: int) -> Number:
    """A quotient or remainder, computed with no more bits than the operands have."""
    bits = min(max(a.high.bit_length(), b.high.bit_length(), 1), _BITS)
    first, second = (z3.Extract(bits - 1, 0, n.term) for n in (a, b))
    return _narrowed(Number(z3.ZeroExt(_BITS - bits, operation(first, second)), low, high))


def _smaller(a: Number, b: Number) -> Number:
    term = z3.If(a.term < b.term, a.term, b.term)
    return _narrowed(Number(term, min(a.low, b.low), min(a.high, b.high)))


def _larger(a: Number, b: Number) -> Number:
    term = z3.If(a.term > b.term, a.term, b.term)
    return _narrowed(Number(term, max(a.low, b.low), max(a.high, b.high)))


def _either(condition: Any, a: Number, b: Number) -> Number:
    term = z3.If(condition, a.term, b.term)
    return _narrowed(Number(term, min(a.low, b.low), max(a.high, b.high)))


def _template_arguments(launch: Launch, kernel: CompiledKernel) -> list[str] | None:
    """What a kernel has for a launch's template arguments, as C++ writes it; None where it is
    another kernel than the launch names.
    """
    name, _, rest = kernel.expression.partition("<")
    given = _split_arguments(rest[:-1]) if rest else []
    is_same = name.strip() == launch.kernel and len(given) == len(launch.template_args)
    return given if is_same else None


def _split_arguments(text: str) -> list[str]:
    """The template arguments of a C++ name, split at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += character in "<([{"
        depth -= character in ">)]}"
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def case_at(task: KernelTask, point: dict[str, dict[str, int]], dtype: DType, name: str) -> Case:
    """The case of a solution, with layouts only where they are not the ordinary ones."""
    return Case(
        name=name,
        why="",
        dtype=dtype,
        dims=point["dims"],
        offsets={n: v for n, v in point["offsets"].items() if v},
        row_padding={n: v for n, v in point["row_padding"].items() if v},
        scalars={n: float(v) for n, v in point["scalars"].items()},
        outside_contract=task.violated(point["dims"], dtype),
    )
