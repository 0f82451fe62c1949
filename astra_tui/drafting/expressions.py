"""C++ integer expressions of host code, rewritten in the launch plan's language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import eq, ge, gt, le, lt, ne

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    arguments_of,
    called_name,
    integer_value,
    is_cast,
    parse_expression,
    template_arguments,
    text_of,
    without_wrapping,
)
from astra_tui.drafting import folding
from astra_tui.model.dtypes import OF_SPELLING, TENSOR_ONLY, DType
from astra_tui.model.errors import Place
from astra_tui.model.launch import PlanError, print_expression
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
    Unary,
)
from astra_tui.model.launch.expression_parser import ExpressionParser
from astra_tui.model.launch.scope import MAX_INTEGER, RESERVED_NAMES
from astra_tui.model.launch.tokens import tokenize

MAX_DEPTH = 40
MAX_STEPS = 2_000
MAX_POWER = 64

_ARITHMETIC = {"+": "+", "-": "-", "*": "*", "/": "//", "%": "%"}
_SIGNS = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
_COMPARISONS = frozenset(_SIGNS)
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_LOGIC = {"&&": "and", "||": "or", "and": "and", "or": "or"}
_CEIL_DIV = re.compile(r"(?i)i?_?(ceil_?div|div_?ceil|c_?div|div_?up|div_?round_?up|ceiling_?div)")
PROPERTIES = {
    "multiProcessorCount": "sm_count",
    "warpSize": "warp_size",
    "maxThreadsPerBlock": "max_threads_per_block",
    "maxThreadsPerMultiProcessor": "max_threads_per_sm",
    "sharedMemPerBlockOptin": "max_shared_memory_per_block",
}
_LARGEST_GRID = (2**31 - 1, 65535, 65535)
_CAPABILITY = {"major": 9, "minor": 0}
"""The compute capability of the GPU that the lab compiles for: launchers choose kernels by it."""
AXES = ("x", "y", "z")
_SIZES = {
    **{n: d.value for n, d in OF_SPELLING.items() if d not in TENSOR_ONLY},
    "at::Half": DType.FLOAT16.value,
    "c10::Half": DType.FLOAT16.value,
}


@dataclass(frozen=True)
class Helper:
    """A macro with parameters, or a function that only chooses an expression to return."""

    parameters: tuple[str, ...]
    body: Node
    template: tuple[str, ...] = ()
    """Its template parameters."""
    defaults: tuple[Node | None, ...] = ()
    """What its last parameters are where nothing is passed."""

    def passed(self, arguments: Sequence[Node]) -> list[Node] | None:
        """A call's arguments with the defaults after them; None where they do not fit."""
        left_out = list(self.defaults[len(arguments) :])
        found = [*arguments, *(node for node in left_out if node is not None)]
        return found if len(found) == len(self.parameters) else None


@dataclass(frozen=True)
class SymbolTable:
    """What the names in host code stand for.

    `leaves` are texts (names, or calls such as `x.size(0)`) that become names of the plan. Other
    names are replaced by their `definitions`; `known` says which may stay as they are.
    """

    leaves: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, Node] = field(default_factory=dict)
    constants: Mapping[str, Node] = field(default_factory=dict)
    helpers: Mapping[str, Helper] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    expressions: Mapping[str, Expression] = field(default_factory=dict)
    """Texts with what they are in the plan's language."""
    class_constants: Mapping[str, int] = field(default_factory=dict)
    class_sizes: Mapping[str, int] = field(default_factory=dict)
    queries: Mapping[str, str] = field(default_factory=dict)
    """Functions that ask the device, with the attribute that their answer comes from."""
    known: Callable[[str], bool] = lambda _name: False


def printed(expression: Expression) -> str:
    """The expression as text, or "" when a plan could not be read with it."""
    text = print_expression(expression)
    return text if is_plan_expression(text) else ""


def is_plan_expression(text: str) -> bool:
    """Whether a text is one expression of the plan's language."""
    return plan_expression(text) is not None


def plan_expression(text: str) -> Expression | None:
    """The tree of a text in the plan's language, None when it is not one expression of it."""
    try:
        parser = ExpressionParser(tokenize(text, Place(1, 1)), "")
        found = parser.expression()
    except PlanError:
        return None
    return found if parser.token.kind == "newline" else None


def free_name(name: str) -> str:
    """A name that a task and its plan may use: no word of theirs or of Python, ASCII only."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    name = f"_{name}" if name[0].isdigit() else name
    return f"{name}_" if name in RESERVED_NAMES else name


class Rewriter:
    """Rewrites trees of C++ expressions; None stands for what a plan cannot say."""

    def __init__(self, symbols: SymbolTable):
        self.symbols = symbols
        self._depth = 0
        self._steps = 0
        self._open: set[str] = set()
        self._bound: Mapping[str, Expression] = {}
        self._pointers: Mapping[str, str] = {}
        """Tensors that are passed to the helper that is read, by its parameters."""

    def expression(self, node: Node) -> Expression | None:
        """The expression as a whole number."""
        found = self._value(node)
        return None if found is None else _as_integer(found)

    def conditions(self, node: Node, holds: bool) -> Iterator[Expression]:
        """What a condition says where it holds, or where it does not, part by part."""
        node = without_wrapping(node)
        if node.type == "condition_clause":
            value = node.child_by_field_name("value")
            yield from self.conditions(value, holds) if value is not None else ()
            return
        operator = _LOGIC.get(text_of(node.child_by_field_name("operator")), "")
        sides = [node.child_by_field_name(side) for side in ("left", "right")]
        if node.type == "binary_expression" and operator == ("and" if holds else "or"):
            for side in sides:
                yield from self.conditions(side, holds) if side is not None else ()
            return
        yield from _parts(self._value(node), holds)

    def truth(self, node: Node) -> Expression | None:
        """The expression as a condition."""
        if node.type == "condition_clause":
            value = node.child_by_field_name("value")
            return self.truth(value) if value is not None else None
        found = self._value(node)
        return None if found is None else as_truth(found)

    def sizes(self, node: Node) -> list[Expression] | None:
        """What a grid or block consists of: the parts of a dim3, or one number."""
        text = text_of(node)
        if node.type == "identifier" and text not in self.symbols.leaves:
            definition = self.symbols.definitions.get(text)
            given = arguments_of(definition) if definition and is_dim3(definition) else []
            members = [self.symbols.definitions.get(f"{text}.{axis}") for axis in AXES]
            parts = [m or next(iter(given[n : n + 1]), None) for n, m in enumerate(members)]
            while parts and parts[-1] is None:
                parts.pop()
            if parts:
                found = [Integer(1) if p is None else self.expression(p) for p in parts]
                return [f for f in found if f is not None] if None not in found else None
        if is_dim3(node):
            return self._all(arguments_of(node))
        return self._all([node])

    def _all(self, nodes: list[Node]) -> list[Expression] | None:
        found = [self.expression(node) for node in nodes]
        return [f for f in found if f is not None] if found and None not in found else None

    def _value(self, node: Node) -> Expression | None:
        self._steps += 1
        if self._depth >= MAX_DEPTH or self._steps > MAX_STEPS:
            return None
        self._depth += 1
        try:
            text = text_of(node)
            if text in self.symbols.leaves:
                return Name(self.symbols.leaves[text])
            if text in self.symbols.expressions:
                return self.symbols.expressions[text]
            if "::" in text and (constant := self._class_constant(text)) is not None:
                return constant
            return self._of_kind(node, text)
        finally:
            self._depth -= 1

    def _of_kind(self, node: Node, text: str) -> Expression | None:
        match node.type:
            case "number_literal":
                return _number(text)
            case "true" | "false":
                return Integer(int(text == "true"))
            case "identifier":
                return self._identifier(text)
            case "qualified_identifier":
                return self._qualified(text)
            case "field_expression":
                return self._field(node)
            case "parenthesized_expression":
                return self._value(node.named_children[0]) if node.named_child_count == 1 else None
            case "cast_expression":
                value = node.child_by_field_name("value")
                return self._value(value) if value is not None else None
            case "unary_expression":
                return self._unary(node)
            case "conditional_expression":
                return self._conditional(node)
            case "binary_expression":
                return self._binary(node)
            case "sizeof_expression":
                return self._sizeof(text)
            case "call_expression":
                return self._call(node)
            case "subscript_expression":
                return self._element(node)
            case _:
                return None

    # -- leaves ----------------------------------------------------------------------------------

    def _identifier(self, name: str) -> Expression | None:
        symbols = self.symbols
        if name in self._bound:
            return self._bound[name]
        if name in symbols.numbers:
            return Integer(symbols.numbers[name])
        if name in symbols.attributes:
            return Name(symbols.attributes[name])
        definition = symbols.definitions.get(name) or symbols.constants.get(name)
        if definition is not None:
            return self._once(name, definition)
        if name in PROPERTIES:
            return Name(PROPERTIES[name])
        return Name(free_name(name)) if symbols.known(name) else None

    def _class_constant(self, text: str) -> Expression | None:
        """A constant of a class of a template; the grammar takes its brackets for comparisons."""
        plain = "".join(text.split())
        for full, value in self.symbols.class_constants.items():
            if full == plain or full.endswith(f"::{plain}"):
                return Integer(value)
        return None

    def _qualified(self, text: str) -> Expression | None:
        name = text.rpartition("::")[2]
        definition = self.symbols.constants.get(name)
        return self._once(name, definition) if definition is not None else None

    def _field(self, node: Node) -> Expression | None:
        owner, part = (
            node.child_by_field_name("argument"),
            text_of(node.child_by_field_name("field")),
        )
        if part in PROPERTIES:
            return Name(PROPERTIES[part])
        if part in _CAPABILITY and "prop" in text_of(owner).lower():
            return Integer(_CAPABILITY[part])
        assigned = self.symbols.definitions.get(text_of(node))
        if assigned is not None:
            return self._once(text_of(node), assigned)
        value = self.symbols.definitions.get(text_of(owner))
        if part in AXES and value is not None and is_dim3(value):
            parts = arguments_of(value)
            axis = AXES.index(part)
            return self._value(parts[axis]) if axis < len(parts) else Integer(1)
        return None

    def _once(self, name: str, definition: Node) -> Expression | None:
        """The value of a name; None where it is defined by itself."""
        if name in self._open:
            return None
        self._open.add(name)
        found = self._value(definition)
        self._open.discard(name)
        return found

    # -- operators -------------------------------------------------------------------------------

    def _unary(self, node: Node) -> Expression | None:
        operand = node.child_by_field_name("argument")
        value = self._value(operand) if operand is not None else None
        operator = text_of(node.child_by_field_name("operator"))
        if value is None:
            return None
        if operator in ("!", "not"):
            return Unary("not", as_truth(value))
        if operator == "-":
            return Unary("-", _as_integer(value))
        return _as_integer(value) if operator == "+" else None

    def _conditional(self, node: Node) -> Expression | None:
        parts = [
            node.child_by_field_name(name) for name in ("condition", "consequence", "alternative")
        ]
        values = [self._value(part) if part is not None else None for part in parts]
        condition, a, b = values
        if condition is not None and (known := known_truth(as_truth(condition))) is not None:
            return a if known else b
        if condition is None or a is None or b is None:
            return None
        return Conditional(as_truth(condition), _as_integer(a), _as_integer(b))

    def _binary(self, node: Node) -> Expression | None:
        operator = text_of(node.child_by_field_name("operator"))
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return None
        if operator == "&":
            return self._rounded_down(left, right)
        if operator == "==" and text_of(right) == "0" and (found := self._aligned(left)):
            return found
        a, b = self._value(left), self._value(right)
        if operator in _LOGIC and (decided := _decided(_LOGIC[operator], a, b)) is not None:
            return decided
        if a is None or b is None:
            return None
        if operator in _LOGIC:
            return Binary(_LOGIC[operator], as_truth(a), as_truth(b))
        a, b = _as_integer(a), _as_integer(b)
        if operator in _COMPARISONS:
            return _compared(operator, a, b)
        if operator in ("<<", ">>") and isinstance(b, Integer) and b.value < 32:
            return folding.combined("*" if operator == "<<" else "//", a, Integer(1 << b.value))
        return folding.combined(_ARITHMETIC[operator], a, b) if operator in _ARITHMETIC else None

    def _aligned(self, node: Node) -> Expression | None:
        """`reinterpret_cast<uintptr_t>(x.data_ptr()) % 16`, where it is compared with 0."""
        node = without_wrapping(node)
        address, by = node.child_by_field_name("left"), node.child_by_field_name("right")
        if address is None or by is None or text_of(node.child_by_field_name("operator")) != "%":
            return None
        name = text_of(without_wrapping(address))
        value = self.symbols.definitions.get(name, address)
        pointer = without_wrapping(value)
        tensor = self._tensor(pointer)
        bytes_ = self.expression(by)
        if tensor is None or bytes_ is None or "uintptr_t" not in text_of(value):
            return None
        return Call("aligned", (Name(tensor), bytes_))

    def _tensor(self, pointer: Node) -> str | None:
        """The tensor that a pointer, or a call for its data, is of."""
        owner = re.match(r"(\w+)(?:(?:\.|->)\w*data_ptr\b.*)?$", text_of(pointer))
        known = {**self.symbols.tensors, **self._pointers}
        return known.get(owner[1]) if owner is not None else None

    def _rounded_down(self, left: Node, right: Node) -> Expression | None:
        """`x & ~31` is x rounded down to a multiple of 32."""
        inner = right.child_by_field_name("argument")
        value = self.expression(left)
        mask = self.expression(inner) if inner is not None and text_of(right)[:1] == "~" else None
        if value is None or not isinstance(mask, Integer) or mask.value & (mask.value + 1):
            return None
        step = Integer(mask.value + 1)
        return folding.combined("*", folding.combined("//", value, step), step)

    # -- calls -----------------------------------------------------------------------------------

    def _sizeof(self, text: str) -> Expression | None:
        name = " ".join(text[len("sizeof") :].strip().strip("()").split())
        known = self.symbols.types.get(name) or _SIZES.get(name.removeprefix("const "))
        if known:
            return Call("sizeof", (Name(known),))
        size = self.symbols.class_sizes.get(name.rpartition("::")[2])
        return Integer(size) if size else None

    def _call(self, node: Node) -> Expression | None:
        name, arguments = called_name(node), arguments_of(node)
        if is_cast(node):
            return self._value(arguments[0])
        helper = self.symbols.helpers.get(name)
        if name in ("min", "max"):
            helper = None  # A project's own are no others, and say less.
            if len(arguments) == 1 and arguments[0].type == "initializer_list":
                arguments = arguments_of(arguments[0])
        passed = helper.passed(arguments) if helper is not None else None
        if helper is not None and passed is not None:
            return self._expanded(name, helper, node, passed)
        if name in self.symbols.queries:
            return self._query(self.symbols.queries[name], arguments)
        if name in ("ceil", "ceilf") and len(arguments) == 1:
            return self._ceil(arguments[0])
        if (
            text_of(node.child_by_field_name("function")).endswith(".stride")
            and len(arguments) == 1
        ):
            return self._stride(node, arguments[0])
        values = [self.expression(argument) for argument in arguments]
        found = tuple(v for v in values if v is not None)
        if len(found) != len(arguments):
            return None
        if name in ("min", "max") and len(found) > 1:
            return Call(name, found)
        if _CEIL_DIV.fullmatch(name) and len(found) == 2:
            return Call("ceil_div", found)
        if name == "gcd" and len(found) == 2:
            return _power_of_two_divisor(*found)
        return None

    def _element(self, node: Node) -> Expression | None:
        """An element of a table of the host code, where all of them are the same, or of the
        largest grid that a device launches.
        """
        argument = text_of(node.child_by_field_name("argument"))
        axis = integer_value(text_of(node.child_by_field_name("indices")).strip("[]"))
        if argument.endswith("maxGridSize") and axis is not None and axis < len(_LARGEST_GRID):
            return Integer(_LARGEST_GRID[axis])
        table = self.symbols.definitions.get(argument)
        if table is None or table.type != "initializer_list":
            return None
        values = [self.expression(entry) for entry in arguments_of(table)]
        return values[0] if values and all(v == values[0] for v in values) else None

    def _stride(self, call: Node, axis: Node) -> Expression | None:
        function = call.child_by_field_name("function")
        owner = function.child_by_field_name("argument") if function is not None else None
        tensor = self.symbols.tensors.get(text_of(owner))
        number = 0 if text_of(axis) == "-2" else integer_value(text_of(axis))
        if tensor is None or number is None:
            return None
        return Call("stride", (Name(tensor), Integer(number)))

    def _ceil(self, argument: Node) -> Expression | None:
        """`ceil((float)n / 256)` and `ceil(n / 256.0)`."""
        if argument.type != "binary_expression":
            return None
        sides = [argument.child_by_field_name(side) for side in ("left", "right")]
        if text_of(argument.child_by_field_name("operator")) != "/" or None in sides:
            return None
        whole = [parse_expression(re.sub(r"\b(\d+)\.0*f?(?!\w)", r"\1", text_of(s))) for s in sides]
        values = [self.expression(side) if side is not None else None for side in whole]
        a, b = values
        return Call("ceil_div", (a, b)) if a is not None and b is not None else None

    def _query(self, attribute: str, arguments: list[Node]) -> Expression | None:
        """What a host function asks the device: its number of SMs, or the blocks that one runs."""
        if attribute != "max_threads_per_sm":
            return Name(attribute)
        block = self.expression(arguments[1]) if len(arguments) > 1 else None
        return folding.combined("//", Name(attribute), block) if block is not None else None

    def _expanded(
        self, name: str, helper: Helper, call: Node, arguments: list[Node]
    ) -> Expression | None:
        """The body of a helper with its parameters replaced by the values of the arguments."""
        values = [self.expression(argument) for argument in arguments]
        tensors = [self._tensor(without_wrapping(argument)) for argument in arguments]
        if name in self._open or (None, None) in zip(values, tensors, strict=True):
            return None
        given = [parse_expression(text_of(node)) for node in template_arguments(call)]
        template = [self._value(node) if node is not None else None for node in given]
        outer = self._bound, self._pointers
        pairs = (
            *zip(helper.parameters, values, strict=True),
            *zip(helper.template, template, strict=False),
        )
        self._bound = {name: value for name, value in pairs if value is not None}
        passed = zip(helper.parameters, tensors, strict=True)
        self._pointers = {name: tensor for name, tensor in passed if tensor is not None}
        found = self._once(name, helper.body)
        self._bound, self._pointers = outer
        return found


def _compared(operator: str, a: Expression, b: Expression) -> Expression:
    """A comparison; of two numbers, whether it holds as 0 or 1."""
    if isinstance(a, Integer) and isinstance(b, Integer):
        return Integer(int(_SIGNS[operator](a.value, b.value)))
    return Compare(a, ((operator, b),))


def _power_of_two_divisor(a: Expression, b: Expression) -> Expression | None:
    """`gcd(16 / sizeof(T), d)`, as vector widths are chosen; the plan's language has no gcd.

    The greatest common divisor with a power of two is the smaller of it and of the largest power
    of two that divides the other.
    """
    match a:
        case (
            Integer(value=most)
            | Binary(operator="//", left=Integer(value=most), right=Call(function="sizeof"))
        ):
            pass
        case _:
            return None
    if most & (most - 1) or not 1 < most <= MAX_POWER:
        return None
    found: Expression = Integer(1)
    step = 2
    while step <= most:
        divides = Compare(Binary("%", b, Integer(step)), (("==", Integer(0)),))
        found = Conditional(divides, Integer(step), found)
        step *= 2
    return found if isinstance(a, Integer) else Call("min", (a, found))


def is_dim3(node: Node) -> bool:
    """Whether a tree is `dim3(...)`, or the list of values that initialises one."""
    if node.type in ("argument_list", "initializer_list"):
        return True
    if node.type in ("call_expression", "compound_literal_expression"):
        return bool(re.match(r"dim3\s*[({]", text_of(node)))
    return False


def _is_truth(value: Expression) -> bool:
    match value:
        case Compare() | Unary(operator="not") | Binary(operator="and" | "or"):
            return True
        case Call(function="aligned"):
            return True
        case _:
            return False


def known_truth(value: Expression) -> bool | None:
    """Whether a condition holds in all cases or in none; None where it depends."""
    match value:
        case Integer(value=number):
            return number != 0
        case Unary(operator="not", operand=operand):
            inner = known_truth(operand)
            return None if inner is None else not inner
        case Binary(operator="and" | "or" as operator, left=left, right=right):
            decided = _decided(operator, left, right)
            return known_truth(decided) if decided not in (None, left, right) else None
        case Compare(first=Integer(value=a), links=((sign, Integer(value=b)),)):
            return bool(_SIGNS[sign](a, b))
        case _:
            return None


def _decided(operator: str, a: Expression | None, b: Expression | None) -> Expression | None:
    """What `and` or `or` comes to where one side is known; None where it depends on both.

    A side that is None could not be read.
    """
    ends = operator == "or"
    sides = [known_truth(side) if side is not None else None for side in (a, b)]
    if ends in sides:
        return Integer(int(ends))
    if sides[0] is not None:
        return b
    return a if sides[1] is not None else None


def _parts(value: Expression | None, holds: bool) -> Iterator[Expression]:
    """What a condition that was read says where it holds, or where it does not."""
    match value:
        case Compare(first=a, links=((sign, b),)) if not holds:
            yield Compare(a, ((_NEGATED[sign], b),))
        case Binary(operator="and", left=a, right=b) if holds:
            yield from _parts(a, holds)
            yield from _parts(b, holds)
        case Unary(operator="not", operand=operand):
            yield from _parts(operand, not holds)
        case Binary(operator="or", left=a, right=b) if not holds:
            yield from _parts(a, holds)
            yield from _parts(b, holds)
        case Compare() | Binary(operator="and" | "or") | Call(function="aligned"):
            yield value if holds else Unary("not", value)


def opposite(condition: Expression) -> Expression:
    """The condition that holds where this one does not."""
    parts = list(_parts(condition, False)) or [Unary("not", condition)]
    return reduce(lambda a, b: Binary("and", a, b), parts)


def as_truth(value: Expression) -> Expression:
    return value if _is_truth(value) else Compare(value, (("!=", Integer(0)),))


def _as_integer(value: Expression) -> Expression:
    return Conditional(value, Integer(1), Integer(0)) if _is_truth(value) else value


def _number(text: str) -> Expression | None:
    value = integer_value(text.lstrip("-"))
    if value is None or value > MAX_INTEGER:
        return None
    return Unary("-", Integer(value)) if text.startswith("-") else Integer(value)
