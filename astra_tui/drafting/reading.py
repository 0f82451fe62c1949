"""What a CUDA source says of itself: kernels, their parameters, how host code launches them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    ancestors,
    arguments_of,
    declarators,
    declared_name,
    descendants,
    line_of,
    parse,
    parse_expression,
    text_of,
)
from astra_tui.drafting.expressions import Helper

_MARKS = re.compile(r"__restrict__|__restrict|\brestrict\b|__grid_constant__|__align__\([^)]*\)")


@dataclass(frozen=True)
class KernelParameter:
    """One parameter as it is written; `pointers` is how many `*` its type has."""

    name: str
    type: str
    pointers: int
    is_const: bool
    default: str = ""

    @property
    def is_pointer(self) -> bool:
        """Whether this is a pointer to elements."""
        return self.pointers == 1


@dataclass(frozen=True)
class KernelText:
    """A `__global__` function. `scope` names the namespaces around it."""

    name: str
    scope: tuple[str, ...]
    template: tuple[tuple[str, str, str], ...]
    """Kind ("typename", "int", ...), name and default of each template parameter."""
    parameters: tuple[KernelParameter, ...]
    node: Node
    """The function's definition."""

    @property
    def line(self) -> int:
        """The line where it begins."""
        return line_of(self.node)

    @property
    def qualified(self) -> str:
        """Its name with its namespaces."""
        return "::".join((*(part for part in self.scope if part), self.name))


@dataclass(frozen=True)
class HostLaunch:
    """A `kernel<<<...>>>(...)`, and the host function that it stands in."""

    kernel: str
    template_args: tuple[Node, ...]
    configuration: tuple[Node, ...]
    arguments: tuple[Node, ...]
    function: Node
    call: Node

    @property
    def line(self) -> int:
        """The line of the launch."""
        return line_of(self.call)


@dataclass(frozen=True)
class SourceText:
    """A parsed source."""

    root: Node
    kernels: tuple[KernelText, ...]
    launches: tuple[HostLaunch, ...]
    constants: dict[str, Node] = field(default_factory=dict)
    """Values of object-like macros, of constants outside of functions, of enumerators."""
    helpers: dict[str, Helper] = field(default_factory=dict)
    """Macros with parameters, and functions that only return an expression."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Names of types that stand for other types."""
    functions: dict[str, Node] = field(default_factory=dict)
    """Definitions of functions by name; of several with one name, the first."""


def read_source(text: str) -> SourceText:
    """Parses a CUDA source; what the grammar does not understand is passed over."""
    root = parse(text)
    functions = [n for n in descendants(root) if n.type == "function_definition"]
    by_name: dict[str, Node] = {}
    for function in functions:
        by_name.setdefault(function_name(function), function)
    return SourceText(
        root,
        tuple(k for k in map(_kernel, functions) if k is not None),
        tuple(launch for f in functions for launch in _launches(f)),
        dict(_constants(root)),
        dict(_helpers(root, functions)),
        dict(_aliases(root)),
        by_name,
    )


# -- functions -------------------------------------------------------------------------------------


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
    begin = function.start_byte
    head = (function.text or b"")[: end - begin].decode(errors="replace")
    return set(re.findall(r"\w+", head))


def template_of(function: Node) -> tuple[tuple[str, str, str], ...]:
    """The template parameters of a function."""
    above = function.parent
    listed = above.child_by_field_name("parameters") if above is not None else None
    if above is None or above.type != "template_declaration" or listed is None:
        return ()
    found = []
    for child in listed.named_children:
        declared, _, default = text_of(child).partition("=")
        words = re.findall(r"\w+", declared)
        if child.type != "comment" and len(words) >= 2 and "..." not in declared:
            kind = "typename" if words[0] in ("typename", "class") else " ".join(words[:-1])
            found.append((kind, words[-1], default.strip()))
    return tuple(found)


def parameters_of(function: Node) -> tuple[KernelParameter, ...]:
    """The parameters of a function."""
    declarator = function_declarator(function)
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    return tuple(
        _parameter(child)
        for child in (listed.named_children if listed is not None else ())
        if child.type in ("parameter_declaration", "optional_parameter_declaration")
    )


def _parameter(node: Node) -> KernelParameter:
    declarator = node.child_by_field_name("declarator")
    default = text_of(node.child_by_field_name("default_value"))
    end = declarator.start_byte if declarator is not None else node.end_byte
    before = (node.text or b"")[: end - node.start_byte].decode(errors="replace")
    marks = text_of(declarator)
    base = re.sub(r"\b(const|volatile|struct|typename)\b|[*&]", " ", _MARKS.sub(" ", before))
    pointers = before.count("*") + marks.count("*") + bool(re.search(r"\[[^\]]*\]", marks))
    return KernelParameter(
        declared_name(declarator),
        " ".join(base.split()),
        pointers,
        bool(re.search(r"\bconst\b", before)),
        default,
    )


def _kernel(function: Node) -> KernelText | None:
    if "__global__" not in specifiers(function) or function.child_by_field_name("body") is None:
        return None
    return KernelText(
        function_name(function), scope_of(function), template_of(function),
        parameters_of(function), function,
    )  # fmt: skip


def scope_of(node: Node) -> tuple[str, ...]:
    """The namespaces around a node, "" for one without a name."""
    found = []
    for above, _ in ancestors(node):
        if above.type == "namespace_definition":
            found.append(text_of(above.child_by_field_name("name")))
    return tuple(reversed(found))


# -- launches --------------------------------------------------------------------------------------


def _launches(function: Node) -> Iterator[HostLaunch]:
    body = function.child_by_field_name("body")
    for call in descendants(body) if body is not None else ():
        configured = next((c for c in call.children if c.type == "kernel_call_syntax"), None)
        if call.type != "call_expression" or configured is None:
            continue
        named = call.children[0]
        if named.type == "qualified_identifier":
            named = named.child_by_field_name("name") or named
        given = (
            named.child_by_field_name("arguments") if named.type == "template_function" else None
        )
        yield HostLaunch(
            text_of(named).partition("<")[0].rpartition("::")[2].strip(),
            tuple(given.named_children) if given is not None else (),
            tuple(configured.named_children),
            tuple(arguments_of(call)),
            function,
            call,
        )


def local_values(launch: HostLaunch) -> dict[str, Node]:
    """What the host function says that its variables are, up to the launch.

    A variable whose address is taken gets its value elsewhere, so it is left out.
    """
    found: dict[str, Node] = {}
    unknown: set[str] = set()
    for node in descendants(launch.function):
        if node.start_byte >= launch.call.start_byte:
            break
        if node.type == "declaration":
            found.update(_initialised(node))
        elif node.type == "assignment_expression" and text_of(node.children[1]) == "=":
            value = node.child_by_field_name("right")
            if value is not None:
                found[text_of(node.child_by_field_name("left"))] = value
        elif node.type == "pointer_expression" and text_of(node).startswith("&"):
            unknown.add(text_of(node.child_by_field_name("argument")))
    return {name: value for name, value in found.items() if name not in unknown}


def _initialised(declaration: Node) -> Iterator[tuple[str, Node]]:
    is_dim3 = text_of(declaration.child_by_field_name("type")) == "dim3"
    for name, declarator in declarators(declaration):
        value = declarator.child_by_field_name("value")
        if is_dim3 and declarator.type == "function_declarator":
            # `dim3 grid(rows)` reads like the declaration of a function.
            listed = text_of(declarator.child_by_field_name("parameters"))
            value = parse_expression(f"dim3{listed}")
        if value is not None:
            yield name, value


def declared_types(function: Node) -> dict[str, str]:
    """The types of a function's parameters and of its local pointers and numbers."""
    found = {p.name: p.type for p in parameters_of(function)}
    for node in descendants(function):
        if node.type == "declaration":
            base = re.sub(r"\bconst\b", "", text_of(node.child_by_field_name("type"))).strip()
            found.update((name, base) for name, _ in declarators(node))
    return found


# -- names of the whole file -----------------------------------------------------------------------


def _constants(root: Node) -> Iterator[tuple[str, Node]]:
    for node in descendants(root):
        if node.type == "preproc_def":
            value = parse_expression(text_of(node.child_by_field_name("value")).strip() or ";")
            if value is not None:
                yield text_of(node.child_by_field_name("name")), value
        elif node.type == "enumerator" and node.child_by_field_name("value") is not None:
            value = node.child_by_field_name("value")
            if value is not None:
                yield text_of(node.child_by_field_name("name")), value
        elif node.type in ("declaration", "field_declaration") and _is_outside(node):
            is_constant = re.search(r"\bconst(expr)?\b", text_of(node).partition("=")[0])
            yield from _initialised(node) if is_constant else ()


def _is_outside(node: Node) -> bool:
    return all(above.type != "compound_statement" for above, _ in ancestors(node))


def _helpers(root: Node, functions: list[Node]) -> Iterator[tuple[str, Helper]]:
    for node in descendants(root):
        if node.type == "preproc_function_def":
            text = " ".join(text_of(node.child_by_field_name("value")).split())
            body = parse_expression(text.replace("\\", " ")) if text else None
            listed = node.child_by_field_name("parameters")
            if body is not None and listed is not None:
                names = tuple(text_of(c) for c in listed.named_children)
                yield text_of(node.child_by_field_name("name")), Helper(names, body)
    for function in functions:
        body = function.child_by_field_name("body")
        inside = [c for c in body.named_children if c.type != "comment"] if body is not None else []
        if len(inside) == 1 and inside[0].type == "return_statement" and inside[0].named_children:
            names = tuple(p.name for p in parameters_of(function))
            yield function_name(function), Helper(names, inside[0].named_children[0])


def _aliases(root: Node) -> Iterator[tuple[str, str]]:
    for node in descendants(root):
        if node.type == "type_definition":
            for name, declarator in declarators(node):
                if declarator.type == "type_identifier":
                    yield name, text_of(node.child_by_field_name("type"))
        elif node.type == "alias_declaration":
            kind = node.child_by_field_name("type")
            yield text_of(node.child_by_field_name("name")), text_of(kind)
