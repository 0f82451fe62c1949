"""What names mean in a kernel: declarations, writes, and whether an expression has effects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    arguments_of,
    bare,
    called_name,
    cast_of,
    field,
    identifiers_in,
    named,
    of_type,
    operator_of,
    text_of,
)

BUILTIN_OBJECTS = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})

_FLOAT_FUNCTIONS = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "atan2",
    "pow",
    "fabs",
    "floor",
    "ceil",
    "round",
    "trunc",
    "rint",
    "fmax",
    "fmin",
    "fma",
    "fmod",
    "copysign",
    "erf",
    "erfc",
]
_INTRINSICS = [
    "__expf",
    "__exp10f",
    "__logf",
    "__log2f",
    "__log10f",
    "__powf",
    "__sinf",
    "__cosf",
    "__tanf",
    "__fdividef",
    "__frcp_rn",
    "__frcp_rz",
    "__fsqrt_rn",
    "__frsqrt_rn",
    "__fmaf_rn",
    "__fadd_rn",
    "__fmul_rn",
    "__fdiv_rn",
    "__saturatef",
    "__half2float",
    "__float2half",
    "__float2half_rn",
    "__bfloat162float",
    "__float2bfloat16",
    "__float2bfloat16_rn",
    "__int_as_float",
    "__float_as_int",
    "__ldg",
    "__ldcs",
]
PURE_FUNCTIONS = frozenset(
    {
        *_FLOAT_FUNCTIONS,
        *(f"{name}f" for name in _FLOAT_FUNCTIONS),
        *_INTRINSICS,
        *("min", "max", "abs", "isinf", "isnan", "isfinite", "signbit", "sizeof"),
    }
)
"""CUDA's functions without effects; the result depends on the arguments alone (or on memory)."""

_QUALIFIERS = re.compile(r"\b(const|constexpr|static|volatile|register|__restrict__|__shared__)\b")


@dataclass(frozen=True)
class Variable:
    """A parameter or a local: its element type, what it is, and where it is declared."""

    name: str
    type: str
    """Without qualifiers, stars and sizes."""
    is_pointer: bool
    is_array: bool
    is_shared: bool
    is_const: bool
    """For a pointer, whether what it points at is const."""
    value: Node | None
    declarator: Node
    declaration: Node

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single value."""
        return not self.is_pointer and not self.is_array

    @property
    def is_parameter(self) -> bool:
        """Whether a caller or the launch plan gives its value."""
        return self.declaration.type == "parameter_declaration"


@dataclass(frozen=True)
class Function:
    """A function of the source, and its template parameters by name with their kind."""

    node: Node
    outer: Node
    """The template declaration around it, or the function itself."""
    name: str
    template: tuple[tuple[str, str], ...]
    is_kernel: bool

    @cached_property
    def body(self) -> Node:
        """The braces and what is in them."""
        return field(self.node, "body")

    @cached_property
    def parameters(self) -> tuple[Variable, ...]:
        """The parameters in order."""
        listed = next(of_type(field(self.node, "declarator"), "parameter_list"))
        declared = (n for n in named(listed) if n.type == "parameter_declaration")
        return tuple(v for n in declared for v in variables_of(n))

    @cached_property
    def locals(self) -> tuple[Variable, ...]:
        """Every local, in the order of the text."""
        return tuple(v for n in of_type(self.body, "declaration") for v in variables_of(n))

    def lookup(self, name: str, at: Node) -> Variable | None:
        """The variable that a name means at a place of the function, None for anything else."""
        visible = [v for v in self.locals if v.name == name and _is_visible(v.declaration, at)]
        if visible:
            return visible[-1]
        return next((p for p in self.parameters if p.name == name), None)

    def declared_here(self, name: str, variable: Variable | None) -> Iterator[Node]:
        """The identifiers that mean this very variable, its declaration excluded."""
        for node in of_type(self.body, "identifier"):
            if text_of(node) != name or _declares(node):
                continue
            if self.lookup(name, node) == variable:
                yield node

    def uses(self, variable: Variable) -> list[Node]:
        """Every place that mentions a variable, its declaration excluded."""
        return list(self.declared_here(variable.name, variable))

    def is_constant(self, variable: Variable) -> bool:
        """Whether a variable keeps its first value: it is never assigned to, nor its address."""
        return not any(is_written(use) for use in self.uses(variable))

    def line_text(self) -> str:
        """How messages call it."""
        return f"{self.name} (line {self.node.start_point[0] + 1})"


def variables_of(declaration: Node) -> Iterator[Variable]:
    """The variables that a declaration or a parameter declares."""
    text = text_of(declaration)
    words = text_of(declaration.child_by_field_name("type"))
    qualifiers = {text_of(c) for c in declaration.children if c.type == "type_qualifier"}
    shared = "__shared__" in text.split("=")[0]
    for number, child in enumerate(declaration.children):
        if declaration.field_name_for_child(number) != "declarator":
            continue
        value = child.child_by_field_name("value")
        inner = field(child, "declarator") if child.type == "init_declarator" else child
        kinds, name = _unwrap(inner)
        if name is None or "function_declarator" in kinds:
            continue
        yield Variable(
            name=text_of(name),
            type=" ".join(_QUALIFIERS.sub("", words).split()),
            is_pointer="pointer_declarator" in kinds,
            is_array="array_declarator" in kinds,
            is_shared=shared,
            is_const=bool({"const", "constexpr"} & qualifiers),
            value=value,
            declarator=child,
            declaration=declaration,
        )


def _unwrap(declarator: Node) -> tuple[set[str], Node | None]:
    kinds: set[str] = set()
    while declarator.type not in ("identifier", "field_identifier"):
        kinds.add(declarator.type)
        inner = declarator.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in named(declarator) if c.type == "identifier"), None)
        if inner is None:
            return kinds, None
        declarator = inner
    return kinds, declarator


def _is_visible(declaration: Node, at: Node) -> bool:
    """Whether a declaration reaches a place: it comes before, in a block around the place."""
    scope = declaration.parent
    assert scope is not None
    before = declaration.start_byte <= at.start_byte
    return before and scope.start_byte <= at.start_byte and at.end_byte <= scope.end_byte


def _declares(identifier: Node) -> bool:
    parent = identifier.parent
    if parent is None or ("declarator" not in parent.type and parent.type != "declaration"):
        return False
    if parent.type == "init_declarator":
        return parent.child_by_field_name("declarator") == identifier
    return parent.type != "array_declarator" or parent.child_by_field_name("size") != identifier


def is_written(identifier: Node) -> bool:
    """Whether a mention of a name changes it, or takes its address."""
    node, parent = identifier, identifier.parent
    while parent is not None and parent.type == "parenthesized_expression":
        node, parent = parent, parent.parent
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        return parent.child_by_field_name("left") == node
    if parent.type == "update_expression":
        return True
    return parent.type == "pointer_expression" and operator_of(parent) == "&"


def written_names(node: Node) -> set[str]:
    """The plain variables that something assigns to, or whose address it takes."""
    return {text_of(n) for n in of_type(node, "identifier") if is_written(n)}


def stores_in(node: Node) -> list[Node]:
    """The assignments and increments of memory: the left side is no plain name."""
    found = []
    for change in of_type(node, "assignment_expression", "update_expression"):
        target = bare(change.child_by_field_name("left") or field(change, "argument"))
        if target.type != "identifier":
            found.append(change)
    return found


def is_pure(node: Node) -> bool:
    """Whether evaluating an expression changes nothing and calls only what is known."""
    for part in of_type(
        node, "assignment_expression", "update_expression", "call_expression", "new_expression",
        "lambda_expression", "delete_expression",
    ):  # fmt: skip
        if part.type != "call_expression":
            return False
        if cast_of(part) is None and called_name(part) not in PURE_FUNCTIONS:
            return False
    return True


def reads_memory(node: Node) -> list[Node]:
    """The loads in an expression: `a[i]`, `*p`, and loads through intrinsics."""
    found = list(of_type(node, "subscript_expression"))
    for part in of_type(node, "pointer_expression"):
        if operator_of(part) == "*":
            found.append(part)
    found += [
        c for c in of_type(node, "call_expression")
        if called_name(c) in ("__ldg", "__ldcs") and arguments_of(c)
    ]  # fmt: skip
    return found


def fresh_name(wanted: str, taken: set[str]) -> str:
    """A name that the source does not use, made from a wanted one; it counts as taken then."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


def all_names(root: Node) -> set[str]:
    """Every identifier, type and field name of a source."""
    kinds = ("type_identifier", "field_identifier", "namespace_identifier", "primitive_type")
    return identifiers_in(root) | {text_of(n) for n in of_type(root, *kinds)}


def functions_of(root: Node) -> Iterator[Function]:
    """The functions that a source defines."""
    for node in of_type(root, "function_definition"):
        declarator = field(node, "declarator")
        called = next(of_type(declarator, "function_declarator"), None)
        name = called.child_by_field_name("declarator") if called is not None else None
        if name is None or name.type != "identifier" or node.child_by_field_name("body") is None:
            continue
        parent = node.parent
        is_template = parent is not None and parent.type == "template_declaration"
        outer = parent if is_template and parent is not None else node
        head = text_of(node)[: field(node, "body").start_byte - node.start_byte]
        yield Function(
            node,
            outer,
            text_of(name),
            _template_of(outer),
            bool(re.search(r"\b__global__\b", head)),
        )


def _template_of(outer: Node) -> tuple[tuple[str, str], ...]:
    if outer.type != "template_declaration":
        return ()
    found = []
    for parameter in named(field(outer, "parameters")):
        names = list(of_type(parameter, "type_identifier", "identifier"))
        kind = "type" if parameter.type == "type_parameter_declaration" else "value"
        found.append((text_of(names[-1]) if names else "", kind))
    return tuple(found)
