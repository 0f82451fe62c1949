"""The functions of a source: template and parameters, locals, and what a name means at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    LOOPS,
    all_of_type,
    ancestors,
    declarators,
    declared_name,
    descendants,
    field,
    line_of,
    of_type,
    operator_of,
    text_of,
)

TYPE = "typename"
_PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_QUALIFIERS = re.compile(
    r"\b(const|constexpr|static|volatile|register|struct|typename|__shared__|restrict|__restrict"
    r"|__restrict__|__grid_constant__)\b|__align__\([^)]*\)"
)


class TemplateParameter(NamedTuple):
    """Kind (`TYPE`, "int", "float (*)(float)"), name and default."""

    kind: str
    name: str
    default: str


@dataclass(frozen=True)
class Variable:
    """A parameter or a local: its type, what it is, and where it is declared."""

    name: str
    type: str
    """Without qualifiers, stars and sizes."""
    pointers: int
    """How many `*` its type has; an array that is a parameter is a pointer."""
    is_array: bool
    is_shared: bool
    is_const: bool
    """For a pointer, whether what it points at is const."""
    is_reference: bool
    value: Node | None
    """What a local begins with."""
    default: str
    """What a parameter is where nothing is passed."""
    declarator: Node
    """The declaration itself where a parameter has no name."""
    declaration: Node

    @property
    def is_pointer(self) -> bool:
        """Whether it points to elements."""
        return self.pointers == 1

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single value."""
        return not self.pointers and not self.is_array

    @property
    def is_parameter(self) -> bool:
        """Whether a caller or the launch plan gives its value."""
        return self.declaration.type in _PARAMETERS


@dataclass(frozen=True)
class ChangingValue:
    """A local whose value at a place is not known; `text` tells it from others of its name."""

    text: str
    declarator: Node


@dataclass(frozen=True)
class Movement:
    """Where a pointer points at a place: what it was set to, and what was added since."""

    value: Node | None
    """None for what its caller passes."""
    steps: tuple[Node, ...]
    """Statements such as `p += n` and `++p`, in order."""
    is_all: bool
    """Whether these are all steps; others may have been taken in a loop or a branch."""


@dataclass(frozen=True)
class Function:
    """A function of the source."""

    node: Node

    @cached_property
    def outer(self) -> Node:
        """The template declaration around it, or the function itself."""
        above = self.node.parent
        is_template = above is not None and above.type == "template_declaration"
        return above if is_template and above is not None else self.node

    @cached_property
    def name(self) -> str:
        """Without namespaces and template arguments."""
        return function_name(self.node)

    @cached_property
    def path(self) -> str:
        """Its name with the namespaces around it, as in "a::b::name"."""
        above = [n for n, _ in ancestors(self.node) if n.type == "namespace_definition"]
        names = (n.child_by_field_name("name") for n in reversed(above))
        return "::".join([*(text_of(name) for name in names if name is not None), self.name])

    @cached_property
    def template(self) -> tuple[TemplateParameter, ...]:
        """Its template parameters."""
        return template_of(self.node)

    @cached_property
    def is_kernel(self) -> bool:
        """Whether it is a `__global__` function."""
        return "__global__" in specifiers(self.node)

    @cached_property
    def body(self) -> Node:
        """The braces and what is in them."""
        return field(self.node, "body")

    @cached_property
    def parameters(self) -> tuple[Variable, ...]:
        """The parameters in order."""
        return parameters_of(self.node)

    @cached_property
    def locals(self) -> tuple[Variable, ...]:
        """Every local, in the order of the text."""
        body = self.node.child_by_field_name("body") or self.node
        return tuple(v for n in of_type(body, "declaration") for v in variables_of(n))

    def local(self, name: str, at: Node) -> Variable | None:
        """The local that a name means at a place."""
        visible = (v for v in reversed(self.locals) if v.name == name and _is_visible(v, at))
        return next(visible, None)

    def lookup(self, name: str, at: Node) -> Variable | None:
        """The variable that a name means at a place of the function, None for anything else."""
        found = self.local(name, at)
        return found or next((p for p in self.parameters if p.name == name), None)

    def value_at(self, name: str, site: Node) -> Node | ChangingValue | None:
        """The expression that a local stands for at a place, None when it is no local."""
        variable = self.local(name, site)
        if variable is None:
            return None
        declarator, scope = variable.declarator, variable.declaration.parent
        changing = ChangingValue(f"{name}@{declarator.start_byte}", declarator)
        value = variable.value
        plain: list[Node] = []
        for change in _changes(name, scope, declarator) if scope is not None else ():
            if operator_of(change) != "=":
                return changing
            plain.append(change)
        for change in plain:
            before = change.end_byte <= site.start_byte
            if before and _surely_ran(change, site):
                value = change.child_by_field_name("right")
            elif before or _shares_loop(change, site, scope):
                return changing
        return value if value is not None else changing

    def movement(self, name: str, site: Node) -> Movement | None:
        """How a pointer came to where it points at a place; None where that cannot be said."""
        variable = self.local(name, site)
        scope = self.body if variable is None else variable.declaration.parent
        value = None if variable is None else variable.value
        if scope is None or (variable is not None and value is None):
            return None
        steps: list[Node] = []
        is_all = True
        for change in _changes(name, scope, scope if variable is None else variable.declarator):
            is_before = change.end_byte <= site.start_byte
            is_repeated = _shares_loop(change, site, scope)
            if not is_before and not is_repeated:
                continue
            is_sure = is_before and not is_repeated and _surely_ran(change, site)
            if operator_of(change) == "=":
                if not is_sure:
                    return None
                value, steps, is_all = change.child_by_field_name("right"), [], True
            elif is_sure:
                steps.append(change)
            else:
                is_all = False
        return Movement(value, tuple(steps), is_all)

    def uses(self, variable: Variable) -> list[Node]:
        """The identifiers that mean this very variable, its declaration excluded."""
        return [
            node for node in self._identifiers.get(variable.name, ())
            if not _declares(node) and self.lookup(variable.name, node) == variable
        ]  # fmt: skip

    @cached_property
    def _identifiers(self) -> dict[str, list[Node]]:
        """Those of the body by name, each in the order of the text."""
        found: dict[str, list[Node]] = {}
        for node in of_type(self.body, "identifier"):
            found.setdefault(text_of(node), []).append(node)
        return found

    def is_constant(self, variable: Variable) -> bool:
        """Whether a variable keeps its first value: it is never assigned to, nor its address."""
        return not any(is_written(use) for use in self.uses(variable))

    def line_text(self) -> str:
        """How messages call it."""
        return f"{self.name} (line {line_of(self.node)})"


def functions_of(root: Node) -> Iterator[Function]:
    """The functions with a plain name that a source defines."""
    for node in of_type(root, "function_definition"):
        declarator = function_declarator(node)
        name = declarator.child_by_field_name("declarator") if declarator is not None else None
        if name is not None and name.type == "identifier" and node.child_by_field_name("body"):
            yield Function(node)


# -- the head of a function ------------------------------------------------------------------------


def function_declarator(function: Node) -> Node | None:
    """The part of a definition that holds name and parameters."""
    for child in descendants(function):
        if child.type == "function_declarator":
            return child
        if child.type == "compound_statement":
            return None
    return None


def function_name(function: Node) -> str:
    """The name of a function, without namespaces and template arguments."""
    declarator = function_declarator(function)
    named = declarator.child_by_field_name("declarator") if declarator is not None else None
    return text_of(named).partition("<")[0].rpartition("::")[2].strip()


def specifiers(function: Node) -> set[str]:
    """The words before a function's name: `__global__`, `static`, ..."""
    declarator = function_declarator(function)
    end = declarator.start_byte if declarator is not None else function.end_byte
    head = (function.text or b"")[: end - function.start_byte].decode(errors="replace")
    return set(re.findall(r"\w+", head))


def template_of(function: Node) -> tuple[TemplateParameter, ...]:
    """The template parameters of a function or class."""
    above = function.parent
    listed = above.child_by_field_name("parameters") if above is not None else None
    if above is None or above.type != "template_declaration" or listed is None:
        return ()
    found = []
    for child in listed.named_children:
        declared, _, default = text_of(child).partition("=")
        words = re.findall(r"\w+", declared)
        pointer = re.match(r"(.*\(\s*\*\s*)(\w+)(\s*\).*)", " ".join(declared.split()))
        if pointer is not None:
            kind = pointer[1] + pointer[3].strip()
            found.append(TemplateParameter(kind, pointer[2], default.strip()))
        elif child.type != "comment" and len(words) >= 2 and "..." not in declared:
            kind = TYPE if words[0] in (TYPE, "class") else " ".join(words[:-1])
            found.append(TemplateParameter(kind, words[-1], default.strip()))
    return tuple(found)


def parameters_of(function: Node) -> tuple[Variable, ...]:
    """The parameters of a function, those without a name as well."""
    declarator = function_declarator(function)
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    children = listed.named_children if listed is not None else ()
    return tuple(
        _variable(child, child.child_by_field_name("declarator"))
        for child in children if child.type in _PARAMETERS
    )  # fmt: skip


# -- variables -------------------------------------------------------------------------------------


def variables_of(declaration: Node) -> Iterator[Variable]:
    """The variables that a declaration declares; functions are none."""
    for _, declarator in declarators(declaration):
        if next(of_type(declarator, "function_declarator"), None) is None:
            yield _variable(declaration, declarator)


def _variable(declaration: Node, declarator: Node | None) -> Variable:
    is_parameter = declaration.type in _PARAMETERS
    value = declarator.child_by_field_name("value") if declarator is not None else None
    inner = declarator
    if declarator is not None and declarator.type == "init_declarator":
        inner = field(declarator, "declarator")
    marks = _COMMENTS.sub(" ", text_of(inner))
    first = declaration.child_by_field_name("declarator")
    end = first.start_byte if first is not None else declaration.end_byte
    text = (declaration.text or b"")[: end - declaration.start_byte].decode(errors="replace")
    head = _COMMENTS.sub(" ", text)
    is_array = bool(re.search(r"\[[^\]]*\]", marks))
    return Variable(
        name=declared_name(declarator),
        type=_plain_type(declaration, head),
        pointers=head.count("*") + marks.count("*") + (is_array and is_parameter),
        is_array=is_array and not is_parameter,
        is_shared="__shared__" in head,
        is_const=bool(re.search(r"\bconst(expr)?\b", head)),
        is_reference="&" in head + marks,
        value=value,
        default=text_of(declaration.child_by_field_name("default_value")),
        declarator=declarator or declaration,
        declaration=declaration,
    )


def _plain_type(declaration: Node, head: str) -> str:
    """The type's text; of what the grammar takes apart, all that stands before the name."""
    kind = text_of(declaration.child_by_field_name("type")) or head
    return " ".join(_QUALIFIERS.sub(" ", kind).split())


def _is_visible(variable: Variable, at: Node) -> bool:
    """Whether a local reaches a place: declared before, in a block around the place."""
    scope = variable.declaration.parent
    before = variable.declarator.start_byte <= at.start_byte
    return before and scope is not None and _lies_in(at, scope)


def _lies_in(node: Node, outer: Node) -> bool:
    return bool(outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte)


def _declares(identifier: Node) -> bool:
    parent = identifier.parent
    if parent is None or ("declarator" not in parent.type and parent.type != "declaration"):
        return False
    if parent.type == "init_declarator":
        return parent.child_by_field_name("declarator") == identifier
    return parent.type != "array_declarator" or parent.child_by_field_name("size") != identifier


def is_written(identifier: Node) -> bool:
    """Whether a mention of a name changes it, takes its address, or calls a function of it."""
    node, parent = identifier, identifier.parent
    while parent is not None and parent.type == "parenthesized_expression":
        node, parent = parent, parent.parent
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        return parent.child_by_field_name("left") == node
    if parent.type == "update_expression":
        return True
    if parent.type == "field_expression" and parent.parent is not None:
        return parent.parent.child_by_field_name("function") == parent
    return parent.type == "pointer_expression" and operator_of(parent) == "&"


# -- values ----------------------------------------------------------------------------------------


def _changes(name: str, scope: Node, declarator: Node) -> Iterator[Node]:
    for node in all_of_type(scope, "assignment_expression", "update_expression"):
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if node.start_byte > declarator.start_byte and text_of(target) == name:
            yield node


def _surely_ran(change: Node, site: Node) -> bool:
    """Whether an assignment is a statement of a block around the place."""
    statement = change.parent
    block = statement.parent if statement is not None else None
    is_statement = statement is not None and statement.type == "expression_statement"
    is_block = block is not None and block.type == "compound_statement"
    return is_statement and is_block and block is not None and _lies_in(site, block)


def _shares_loop(change: Node, site: Node, scope: Node | None) -> bool:
    """Whether a loop inside of the scope runs both, so that the change may come first."""
    for above, _ in ancestors(site):
        if above == scope:
            return False
        if above.type in LOOPS and _lies_in(change, above):
            return True
    return False
