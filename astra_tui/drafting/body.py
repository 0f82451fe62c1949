"""What the integers and pointers in a kernel's body stand for, as sums over threads and sizes."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from astra_tui.cuda_source.functions import ChangingValue, Function, Movement
from astra_tui.cuda_source.polynomial import constant, of_atom
from astra_tui.cuda_source.syntax import (
    ancestors,
    arguments_of,
    called_name,
    cast_type,
    integer_value,
    parse_expression,
    text_of,
    without_wrapping,
)
from astra_tui.drafting.expressions import Helper
from astra_tui.drafting.polynomial import Atom, Polynomial, quotient, remainder
from astra_tui.model.dtypes import DType

MAX_DEPTH = 24

_AXES = {"x": 0, "y": 1, "z": 2}
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
    "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b),
}  # fmt: skip
_PAIRS = re.compile(r"[\w:]*\bpacked_t\b")
_LEAVING = ("return_statement", "continue_statement", "break_statement", "throw_statement")
_VECTOR_LANES = {name: n for d in DType for name, n in d.vectors.items()}
_VECTOR_BYTES = {name: d.bytes_of(n) for d in DType for name, n in d.vectors.items()}


@dataclass(frozen=True)
class Pointer:
    """A pointer into a tensor: elements from its beginning, and how many one item covers.

    `width` is 0 where it is not known; `vector` names the template parameter that it comes from.
    `lanes` is the width where it is no number: one that the launcher computes.
    """

    tensor: str
    offset: Polynomial
    width: int = 1
    vector: str = ""
    lanes: Polynomial | None = None


@dataclass(frozen=True)
class Facts:
    """What is known outside of the body."""

    constants: Mapping[str, Node] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Values of template parameters."""
    sizes: Mapping[str, Polynomial] = field(default_factory=dict)
    """Template parameters that are no numbers, over the sizes of the plan."""
    block: tuple[Polynomial, ...] = ()
    grid: tuple[Polynomial | None, ...] = ()
    functions: Mapping[str, Node] = field(default_factory=dict)
    helpers: Mapping[str, Helper] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    element_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of an element of each tensor."""
    type_bytes: Mapping[str, int] = field(default_factory=dict)


Bound = tuple[Polynomial, Polynomial]
"""A sum, and a limit that it stays below."""


class Body:
    """One function's body, with the values that its parameters have."""

    def __init__(self, function: Node, values: Mapping[str, Polynomial | Pointer], facts: Facts):
        self.function = Function(function)
        self.values = values
        self.facts = facts
        self._depth = 0

    def declared_type(self, name: str, site: Node) -> str:
        """The type of a local, a `*` with it for a pointer; "" for what is none."""
        found = self.function.local(name, site)
        return found.type + "*" * found.pointers if found is not None else ""

    # -- integers --------------------------------------------------------------------------------

    def integer(self, node: Node) -> Polynomial:
        """The value of an integer expression; what is not understood is one opaque atom."""
        if self._depth >= MAX_DEPTH:
            return self._opaque(node)
        self._depth += 1
        try:
            found = self._integer(without_wrapping(node))
        finally:
            self._depth -= 1
        return found if found is not None and found.is_small else self._opaque(node)

    def _opaque(self, node: Node) -> Polynomial:
        return of_atom(Atom("variable", f"{' '.join(text_of(node).split())}@{node.start_byte}"))

    def _integer(self, node: Node) -> Polynomial | None:
        match node.type:
            case "number_literal":
                value = integer_value(text_of(node))
                return constant(value) if value is not None else None
            case "identifier":
                return self._name(node)
            case "field_expression":
                return self._builtin(node)
            case "binary_expression":
                return self._binary(node)
            case "subscript_expression":
                return self._load(node)
            case "pointer_expression":
                return self._load(node)
            case "call_expression":
                return self._call(node)
            case "conditional_expression":
                return self._conditional(node)
            case "sizeof_expression":
                name = " ".join(text_of(node)[len("sizeof") :].strip("() ").split())
                size = self.facts.type_bytes.get(name)
                return constant(size) if size else None
            case "unary_expression":
                operand = node.child_by_field_name("argument")
                negative = text_of(node.child_by_field_name("operator")) == "-"
                return -self.integer(operand) if operand is not None and negative else None
            case _:
                return None

    def _conditional(self, node: Node) -> Polynomial | None:
        """The side that a condition over constants chooses."""
        condition = node.child_by_field_name("condition")
        holds = self.integer(condition).number if condition is not None else None
        side = node.child_by_field_name("consequence" if holds else "alternative")
        return self.integer(side) if holds is not None and side is not None else None

    def _builtin(self, node: Node) -> Polynomial | None:
        owner, _, part = text_of(node).partition(".")
        axis = _AXES.get(part)
        if axis is None:
            return None
        if owner == "threadIdx":
            return of_atom(Atom("thread", f"threadIdx.{part}", axis))
        if owner == "blockIdx":
            return of_atom(Atom("block", f"blockIdx.{part}", axis))
        if owner == "blockDim":
            return self.facts.block[axis] if axis < len(self.facts.block) else constant(1)
        if owner == "gridDim":
            return self.facts.grid[axis] if axis < len(self.facts.grid) else constant(1)
        return None

    def _binary(self, node: Node) -> Polynomial | None:
        sides = [node.child_by_field_name(side) for side in ("left", "right")]
        if sides[0] is None or sides[1] is None:
            return None
        a, b = (self.integer(side) for side in sides if side is not None)
        match text_of(node.child_by_field_name("operator")):
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case "/":
                return quotient(a, b) if b.terms else None
            case "%":
                return remainder(a, b) if b.terms else None
            case "<<" if b.number is not None and 0 <= b.number < 32:
                return a * constant(1 << b.number)
            case ">>" if b.number is not None and 0 <= b.number < 32:
                return quotient(a, constant(1 << b.number))
            case "&" if b.number is not None and b.number & (b.number + 1) == 0:
                return remainder(a, constant(b.number + 1))
            case sign if sign in _COMPARED and a.number is not None and b.number is not None:
                return constant(_COMPARED[sign](a.number, b.number))
            case _:
                return None

    def _name(self, node: Node) -> Polynomial | None:
        name = text_of(node)
        found = self.function.value_at(name, node)
        if found is not None:
            if isinstance(found, ChangingValue):
                return of_atom(Atom("variable", found.text))
            return self.integer(found)
        value = self.values.get(name)
        if value is not None and not isinstance(value, Pointer):
            return value
        if name in self.facts.numbers:
            return constant(self.facts.numbers[name])
        if name in self.facts.sizes:
            return self.facts.sizes[name]
        if name == "warpSize":
            return constant(32)
        outside = self.facts.constants.get(name)
        return self.integer(outside) if outside is not None else None

    def _call(self, node: Node) -> Polynomial | None:
        """A macro or helper that computes an index, or a load that is written as a call."""
        name, given = called_name(node), arguments_of(node)
        helper = self.facts.helpers.get(name)
        passed = helper.passed(given) if helper is not None else None
        if helper is not None and passed is not None:
            values = dict(zip(helper.parameters, map(self.integer, passed), strict=True))
            inner = Body(helper.body, values, self.facts)
            inner._depth = self._depth
            return inner.integer(helper.body)
        if name.startswith("__ld") and len(given) == 1:
            return self._loaded(self.pointer(given[0]))
        if text_of(node).endswith("thread_rank()"):
            return self._rank(node)
        return None

    def _rank(self, node: Node) -> Polynomial | None:
        """The index that cooperative groups give a thread of a block with one dimension."""
        called = node.child_by_field_name("function")
        group = called.child_by_field_name("argument") if called is not None else None
        if group is not None and group.type == "identifier":
            found = self.function.value_at(text_of(group), group)
            group = found if isinstance(found, Node) else None
        if group is None or any(part.number != 1 for part in self.facts.block[1:]):
            return None
        thread = of_atom(Atom("thread", "threadIdx.x", 0))
        if text_of(group).endswith("this_thread_block()"):
            return thread
        if not text_of(group).endswith("this_grid()") or len(self.facts.grid) > 1:
            return None
        block = self.facts.block[0] if self.facts.block else constant(1)
        return of_atom(Atom("block", "blockIdx.x", 0)) * block + thread

    def _load(self, node: Node) -> Polynomial | None:
        """An element of a tensor, when the expression is one."""
        return self._loaded(self.element(node))

    def _loaded(self, place: Pointer | None) -> Polynomial | None:
        if place is None:
            return None
        return of_atom(
            Atom("load", f"{place.tensor}[{place.offset.text()}]", parts=(place.offset,))
        )

    # -- pointers --------------------------------------------------------------------------------

    def element(self, node: Node) -> Pointer | None:
        """Where `p[i]` or `*p` lies, None when the base is no pointer into a tensor."""
        if node.type == "subscript_expression":
            base = node.child_by_field_name("argument")
            pointer = self.pointer(base) if base is not None else None
            listed = node.child_by_field_name("indices")
            indices = listed.named_children if listed is not None else []
            if pointer is None or len(indices) != 1:
                return None
            return self.moved(pointer, self.integer(indices[0]))
        if node.type == "pointer_expression" and text_of(node).startswith("*"):
            operand = node.child_by_field_name("argument")
            return self.pointer(operand) if operand is not None else None
        return None

    def pointer(self, node: Node) -> Pointer | None:
        """The value of an expression that is a pointer into a tensor."""
        if self._depth >= MAX_DEPTH:
            return None
        self._depth += 1
        try:
            return self._pointer(node)
        finally:
            self._depth -= 1

    def _pointer(self, node: Node) -> Pointer | None:
        kind = cast_type(node)
        if kind:
            inner = without_wrapping(node)
            pointer = self.pointer(inner)
            return self.viewed(pointer, kind) if pointer is not None and "*" in kind else pointer
        match node.type:
            case "parenthesized_expression" if node.named_child_count == 1:
                return self.pointer(node.named_children[0])
            case "identifier":
                return self._named_pointer(node)
            case "pointer_expression" if text_of(node).startswith("&"):
                operand = node.child_by_field_name("argument")
                return self.element(operand) if operand is not None else None
            case "binary_expression":
                return self._advanced(node)
            case "call_expression" if called_name(node) == "offset":
                return self._offset(node)
            case _:
                return None

    def _offset(self, node: Node) -> Pointer | None:
        """`pointer::offset<T>(base, steps, ...)`, with steps in elements."""
        given = arguments_of(node)
        pointer = self.pointer(given[0]) if given else None
        for step in given[1:]:
            if pointer is not None:
                pointer = self.moved(pointer, self.integer(step))
        return pointer

    def _named_pointer(self, node: Node) -> Pointer | None:
        name = text_of(node)
        kind = self.declared_type(name, node)
        value = self.values.get(name)
        if not kind and not isinstance(value, Pointer):
            return None
        movement = self.function.movement(name, node)
        if movement is None:  # It may be declared without a value, and set once.
            set_once = self.function.value_at(name, node)
            if not isinstance(set_once, Node):
                return None
            movement = Movement(set_once, (), True)
        set_to = movement.value
        found = self.pointer(set_to) if set_to is not None else value if not kind else None
        if not isinstance(found, Pointer):
            return None
        pointer = self.viewed(found, kind) if "*" in kind else found
        for step in movement.steps:
            pointer = self._stepped(pointer, step)
        if not movement.is_all:
            pointer = self.moved(pointer, of_atom(Atom("variable", f"{name}@{node.start_byte}")))
        return pointer

    def _stepped(self, pointer: Pointer, step: Node) -> Pointer:
        """A pointer after `p += n` or `++p`."""
        right = step.child_by_field_name("right")
        by = self.integer(right) if right is not None else constant(1)
        return self.moved(
            pointer, -by if "-" in text_of(step.child_by_field_name("operator")) else by
        )

    def _advanced(self, node: Node) -> Pointer | None:
        operator = text_of(node.child_by_field_name("operator"))
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None or operator not in ("+", "-"):
            return None
        pointer = self.pointer(left)
        if pointer is None and operator == "+":
            left, right = right, left
            pointer = self.pointer(left)
        if pointer is None:
            return None
        steps = self.integer(right)
        return self.moved(pointer, steps if operator == "+" else -steps)

    def moved(self, pointer: Pointer, steps: Polynomial) -> Pointer:
        item = pointer.lanes or constant(max(pointer.width, 1))
        return replace(pointer, offset=pointer.offset + steps * item)

    def viewed(self, pointer: Pointer, kind: str) -> Pointer:
        """The pointer seen as one to another type."""
        base = re.sub(r"\b(const|volatile|__restrict__|auto)\b|[*&]", " ", kind)
        name = " ".join(base.split())
        if not name:
            return pointer
        element = self.facts.element_bytes.get(pointer.tensor, 0)
        for _ in range(4):
            size = _VECTOR_BYTES.get(name) or self.facts.type_bytes.get(name)
            if size is not None and element:
                return replace(pointer, width=max(size // element, 1), vector="", lanes=None)
            if "<" in name:
                break
            name = self.facts.aliases.get(name, "")
        given = re.findall(r"[\w:]+", name.partition("<")[2].rpartition(">")[0])
        each = self._components(given[0]) if given else 1
        for word in given:
            if word in self.facts.numbers:
                width = self.facts.numbers[word] * each
                return replace(pointer, width=width, vector=word, lanes=None)
            if word in self.facts.sizes:
                lanes = self.facts.sizes[word] * constant(each)
                return replace(pointer, width=0, vector=word, lanes=lanes)
            value = integer_value(word) or self._lanes(name)
            if value:
                return replace(pointer, width=value * each, vector="", lanes=None)
        if len(given) == 1 and given[0] in self.facts.aliases:
            return self.viewed(pointer, self.facts.aliases[given[0]])
        return replace(pointer, width=0, vector="", lanes=None)

    def _components(self, name: str) -> int:
        """How many elements one item of a vector has: 2 in `Vec<__half2, 4>`, mostly 1."""
        for _ in range(4):
            if name in _VECTOR_LANES:
                return _VECTOR_LANES[name]
            if _PAIRS.match(name):
                return 2
            name = self.facts.aliases.get(name, "")
        return 1

    def _lanes(self, name: str) -> int:
        """The number that a vector's type has as its last argument, as in `Vec<T, 16 / sizeof(T)>`;
        0 where it has none.
        """
        node = parse_expression(name.partition("<")[2].removesuffix(">").rpartition(",")[2])
        return (self.integer(node).number or 0) if node is not None else 0

    def bytes_of(self, kind: str, tensor: str) -> int:
        """Bytes of a type that a tensor is viewed as; 0 where they are not known."""
        return self.viewed(
            Pointer(tensor, Polynomial()), kind
        ).width * self.facts.element_bytes.get(tensor, 0)

    # -- conditions ------------------------------------------------------------------------------

    def bounds_at(self, site: Node) -> list[Bound]:
        """What the conditions around a place say about sums: that they stay below a limit."""
        found: list[Bound] = []
        for condition, holds in conditions_at(site, self.function.node):
            found.extend(self._limits(condition, holds))
        return found

    def _limits(self, condition: Node, holds: bool) -> Iterator[Bound]:
        node = without_wrapping(condition)
        if node.type == "condition_clause":
            value = node.child_by_field_name("value")
            if value is not None:
                yield from self._limits(value, holds)
            return
        if node.type == "unary_expression" and text_of(node)[:1] == "!":
            operand = node.child_by_field_name("argument")
            if operand is not None:
                yield from self._limits(operand, not holds)
            return
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if node.type != "binary_expression" or left is None or right is None:
            return
        operator = text_of(node.child_by_field_name("operator"))
        if operator == ("&&" if holds else "||"):
            yield from self._limits(left, holds)
            yield from self._limits(right, holds)
            return
        if not holds:
            operator = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}.get(operator, "")
        if operator in ("<", "<="):
            yield from _below(self.integer(left), self.integer(right) + constant(operator == "<="))
        elif operator in (">", ">="):
            yield from _below(self.integer(right), self.integer(left) + constant(operator == ">="))


def _below(value: Polynomial, limit: Polynomial) -> Iterator[Bound]:
    """That a value is below a limit; `a // b < limit` also says `a < limit * b`."""
    yield value, limit
    for atom in value.atoms():
        if atom.kind == "quotient" and value == of_atom(atom):
            yield from _below(atom.parts[0], limit * atom.parts[1])


def conditions_at(site: Node, function: Node) -> Iterator[tuple[Node, bool]]:
    """The conditions that hold, or do not hold, at a place of a function, the innermost first."""
    for above, below in ancestors(site):
        yield from _conditions(above, below)
        if above == function:
            break


def _conditions(above: Node, below: Node) -> Iterator[tuple[Node, bool]]:
    """The conditions of a statement that hold, or do not hold, in one of its parts."""
    condition = above.child_by_field_name("condition")
    if above.type in ("if_statement", "conditional_expression") and condition is not None:
        if above.child_by_field_name("consequence") == below:
            yield condition, True
        elif above.child_by_field_name("alternative") == below:
            yield condition, False
    elif above.type in ("for_statement", "while_statement") and condition is not None:
        if below != condition and above.child_by_field_name("initializer") != below:
            yield condition, True
    elif above.type == "binary_expression" and above.child_by_field_name("right") == below:
        left = above.child_by_field_name("left")
        if text_of(above.child_by_field_name("operator")) == "&&" and left is not None:
            yield left, True
    elif above.type == "compound_statement":
        for statement in above.named_children:
            if statement.start_byte >= below.start_byte:
                break
            left_by = statement.child_by_field_name("condition")
            if statement.type == "if_statement" and left_by is not None and _leaves(statement):
                yield left_by, False


def _leaves(statement: Node) -> bool:
    """Whether an if without else ends the function or the turn of a loop."""
    body = statement.child_by_field_name("consequence")
    if body is None or statement.child_by_field_name("alternative") is not None:
        return False
    inside = body.named_children if body.type == "compound_statement" else [body]
    last = inside[-1] if inside else body
    return last.type in _LEAVING
