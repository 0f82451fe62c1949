"""What a CUDA source says of itself: kernels, their parameters, how host code launches them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_cuda.language())
_DEVICE_WORDS = {"__global__", "__device__", "__constant__", "__shared__"}


@dataclass(frozen=True)
class KernelParameter:
    """One parameter as it is written."""

    name: str
    type: str
    is_pointer: bool
    is_const: bool


@dataclass(frozen=True)
class KernelText:
    """A `__global__` function: its name, template parameters, parameters and body."""

    name: str
    template: tuple[tuple[str, str], ...]
    """Kind ("typename", "int", ...) and name of each template parameter."""
    parameters: tuple[KernelParameter, ...]
    body: str
    line: int


@dataclass(frozen=True)
class HostLaunch:
    """A `kernel<<<...>>>(...)`, with what its function says about the names in it."""

    kernel: str
    template_args: tuple[str, ...]
    configuration: tuple[str, ...]
    arguments: tuple[str, ...]
    host_values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Local names to the expressions that they were initialised with (three for a dim3)."""
    host_integers: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class SourceText:
    """A parsed source. `pieces` are its top-level parts, in order."""

    kernels: tuple[KernelText, ...]
    launches: tuple[HostLaunch, ...]
    pieces: tuple[Piece, ...]
    constants: dict[str, str]
    """Names of `#define`s and constexpr integers with their text."""


@dataclass(frozen=True)
class Piece:
    """A top-level part: its text, whether it is host code, an include, or a function's name."""

    text: str
    kind: str
    """"include", "host", "plain function" (unannotated) or "kept"."""
    name: str = ""
    line: int = 0


def read_source(text: str) -> SourceText:
    """Parses a CUDA source; what the grammar does not understand is passed over."""
    tree = Parser(_LANGUAGE).parse(text.encode())
    top = list(_unwrapped(tree.root_node))
    kernels = [k for node in top for k in _kernels(node)]
    launches = [launch for node in top for launch in _launches(node)]
    pieces = tuple(_piece(node) for node in top)
    return SourceText(tuple(kernels), tuple(launches), pieces, _constants(top))


def text_of(node: Node) -> str:
    """The source text of a node."""
    return (node.text or b"").decode()


def descendants(node: Node) -> Iterator[Node]:
    """The node and everything below it, in order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def _unwrapped(node: Node) -> Iterator[Node]:
    """Top-level nodes; `extern "C"` and namespaces are opened where they hold kernels."""
    for child in node.children:
        if child.type == "linkage_specification":
            body = child.child_by_field_name("body")
            if body is not None and body.type == "declaration_list":
                yield from _unwrapped(body)
            elif body is not None:
                yield body
        elif child.type not in ("{", "}", ";"):
            yield child


def _functions(node: Node) -> Iterator[tuple[Node, Node | None]]:
    """Function definitions with the template that they stand in."""
    for child in descendants(node):
        if child.type == "function_definition":
            parent = child.parent
            yield child, parent if parent and parent.type == "template_declaration" else None


def _specifiers(function: Node) -> set[str]:
    body = function.child_by_field_name("body")
    end = body.start_byte if body else function.end_byte
    return {c.type for c in function.children if c.start_byte < end} | {
        text_of(c)
        for c in function.children
        if c.start_byte < end and c.type != "function_declarator"
    }


def _declarator(function: Node) -> Node | None:
    for child in descendants(function):
        if child.type == "function_declarator":
            return child
        if child.type == "compound_statement":
            return None
    return None


def _kernels(node: Node) -> Iterator[KernelText]:
    for function, template in _functions(node):
        declarator = _declarator(function)
        if "__global__" not in _specifiers(function) or declarator is None:
            continue
        name = declarator.child_by_field_name("declarator")
        parameters = declarator.child_by_field_name("parameters")
        body = function.child_by_field_name("body")
        if name is not None and parameters is not None and body is not None:
            yield KernelText(
                text_of(name),
                tuple(_template_parameters(template)),
                tuple(_parameters(parameters)),
                text_of(body),
                function.start_point[0] + 1,
            )


def _template_parameters(template: Node | None) -> Iterator[tuple[str, str]]:
    listed = template.child_by_field_name("parameters") if template else None
    for child in listed.named_children if listed else ():
        words = re.findall(r"\w+", text_of(child).partition("=")[0])
        if len(words) >= 2:
            kind = "typename" if words[0] in ("typename", "class") else " ".join(words[:-1])
            yield kind, words[-1]


def _parameters(listed: Node) -> Iterator[KernelParameter]:
    for child in listed.named_children:
        if child.type not in ("parameter_declaration", "optional_parameter_declaration"):
            continue
        text = re.sub(r"__restrict__|__grid_constant__|\brestrict\b", " ", text_of(child))
        text = text.partition("=")[0]
        match = re.match(r"^(.*?)(\w+)\s*(\[\s*\])?\s*$", text.strip(), re.DOTALL)
        if match is None:
            continue
        declared = match[1]
        is_pointer = "*" in declared or bool(match[3])
        base = re.sub(r"\bconst\b|\bvolatile\b|[*&]", " ", declared)
        yield KernelParameter(
            match[2], " ".join(base.split()), is_pointer, bool(re.search(r"\bconst\b", declared))
        )


def _launches(node: Node) -> Iterator[HostLaunch]:
    for function, _ in _functions(node):
        body = function.child_by_field_name("body")
        declarator = _declarator(function)
        for call in descendants(body) if body else ():
            configuration = next((c for c in call.children if c.type == "kernel_call_syntax"), None)
            if call.type == "call_expression" and configuration is not None and body is not None:
                yield _launch(call, configuration, body, declarator)


def _launch(call: Node, configuration: Node, body: Node, declarator: Node | None) -> HostLaunch:
    function = call.children[0]
    template_args: tuple[str, ...] = ()
    name = text_of(function)
    if function.type == "template_function":
        name = text_of(function.children[0])
        template_args = tuple(text_of(c) for c in function.children[1].named_children)
    arguments = call.child_by_field_name("arguments") or call.children[-1]
    integers = [
        p.name
        for p in (_parameters(declarator.child_by_field_name("parameters")) if declarator else ())  # type: ignore[arg-type]
        if not p.is_pointer
    ]
    return HostLaunch(
        name,
        template_args,
        tuple(text_of(c) for c in configuration.named_children),
        tuple(text_of(c) for c in arguments.named_children),
        dict(_host_values(body)),
        tuple(integers),
        call.start_point[0] + 1,
    )


def _host_values(body: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    """`int blocks = ...;` and `dim3 grid(...)` of a host function."""
    for node in descendants(body):
        if node.type != "declaration":
            continue
        text = text_of(node).rstrip(";").strip()
        match = re.match(
            r"^(?:const\s+|constexpr\s+|static\s+)*(?P<type>[\w:]+(?:\s+(?:int|long))*)\s+"
            r"(?P<name>\w+)\s*(?:=\s*(?P<value>.+)|[({](?P<list>.+)[)}])$",
            text,
            re.DOTALL,
        )
        if match is None:
            continue
        value = match["value"] or match["list"]
        inner = re.match(r"^dim3\s*[({](.*)[)}]$", value.strip(), re.DOTALL)
        if match["type"] == "dim3":
            yield match["name"], split_arguments(inner[1] if inner else value)
        else:
            yield match["name"], (value.strip(),)


def split_arguments(text: str) -> tuple[str, ...]:
    """Splits at commas that stand outside brackets."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return (*parts, current.strip()) if current.strip() else tuple(parts)


def _constants(top: list[Node]) -> dict[str, str]:
    found = {}
    for node in top:
        text = text_of(node).strip()
        define = re.match(r"^#\s*define\s+(\w+)\s+(\S.*)$", text)
        constant = re.match(
            r"^(?:static\s+)?(?:constexpr|const)\s+[\w\s]*?(\w+)\s*=\s*([^;]+);?$", text
        )
        match = define or constant
        if match:
            found[match[1]] = match[2].strip()
    return found


def _piece(node: Node) -> Piece:
    text, line = text_of(node), node.start_point[0] + 1
    if node.type == "preproc_include":
        match = re.search(r"[<\"]([^>\"]+)[>\"]", text)
        return Piece(text, "include", match[1] if match else "", line)
    functions = list(_functions(node))
    if functions and node.type in ("function_definition", "template_declaration"):
        function, _ = functions[0]
        declarator = _declarator(function)
        named = declarator.child_by_field_name("declarator") if declarator else None
        name = text_of(named) if named is not None else ""
        if _specifiers(function) & _DEVICE_WORDS:
            return Piece(text, "kept", name, line)
        is_host = "<<<" in text or re.search(r"\bcuda[A-Z]\w*\(|\bstd::|\bat::|\btorch::", text)
        return Piece(text, "host" if is_host or name == "main" else "plain function", name, line)
    if node.type in ("expression_statement", "ERROR") or re.search(
        r"\bstd::(?!min|max|numeric)|\btorch::|\bat::|using namespace std|TORCH_LIBRARY|PYBIND11",
        text,
    ):
        return Piece(text, "host", "", line)
    if node.type in ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier"):
        text += ";"
    return Piece(text, "kept", "", line)
