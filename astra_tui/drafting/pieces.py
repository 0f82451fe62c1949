"""The parts of a source that a kernel needs, and what of the file is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.syntax import declarators, descendants, line_of, one_line, text_of
from astra_tui.drafting.reading import function_name, scope_of, specifiers

_HOST_MARKS = re.compile(
    r"<<<|\bcuda[A-Z]\w*\s*\(|\b(?:std|at|torch|c10|thrust)::(?!min\b|max\b|numeric_limits\b)"
    r"|\b(?:printf|malloc|free|atoi)\s*\("
)
_HOST_HEADERS = {"device_launch_parameters.h", "helper_cuda.h", "helper_functions.h"}
_LICENCE = re.compile(r"(?i)copyright|licen[cs]e|SPDX")
_PLAN = re.compile(r"^/\*[\s*!]*@launch\b")
_FOREIGN_NAMESPACES = re.compile(r"\bnamespace\s+(?:std|at|torch|c10|thrust)\b")
_CUB = {
    "BlockReduce": "block/block_reduce", "BlockScan": "block/block_scan",
    "BlockLoad": "block/block_load", "BlockStore": "block/block_store",
    "BlockRadixSort": "block/block_radix_sort", "BlockExchange": "block/block_exchange",
    "WarpReduce": "warp/warp_reduce", "WarpScan": "warp/warp_scan",
}  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """A part of the file outside of functions. `kind` says what to do with it.

    "include", "code" (kept where the kernel needs it), "always" (kept), "host" (left out), or
    "comment".
    """

    text: str
    kind: str
    line: int
    scope: tuple[str, ...] = ()
    defines: frozenset[str] = frozenset()
    label: str = ""
    node: Node | None = None


@dataclass(frozen=True)
class Kept:
    """What a kernel's own file is made of."""

    licence: str
    includes: list[str]
    code: list[Piece]
    left_out: list[str]
    """Labels of what is missing, with lines."""
    missing_headers: list[str]
    """Headers of the source's own project that the compiler does not have."""


def select(root: Node, kernel: Node, is_available: Callable[[str], bool]) -> Kept:
    """The kernel with everything that it names, in the order of the file."""
    pieces = list(_with_comments(_pieces(root)))
    needed = _needed(pieces, kernel)
    kept = Kept(_licence(pieces), [], [], [], [])
    code = " ".join(p.text for p in needed)
    for piece in pieces:
        if piece.kind == "include":
            _include(piece, code, is_available, kept)
        elif piece in needed:
            kept.code.append(piece)
        elif piece.kind not in ("comment", "always") and piece.label:
            kept.left_out.append(f"{piece.label} (line {piece.line})")
    return kept


def joined(code: list[Piece]) -> str:
    """The pieces as text, with their namespaces around them again."""
    found: list[str] = []
    scope: tuple[str, ...] = ()
    for piece in code:
        inside = tuple(name for name in piece.scope if name)
        if inside != scope:
            found.extend(f"}}  // namespace {name}" for name in reversed(scope))
            found.extend(f"namespace {name} {{" for name in inside)
            scope = inside
        found.append(piece.text)
    found.extend(f"}}  // namespace {name}" for name in reversed(scope))
    return "\n\n".join(found)


# -- the parts of a file ---------------------------------------------------------------------------


def _pieces(root: Node) -> Iterator[Piece]:
    for node in _opened(root):
        piece = _piece(node)
        if piece is not None:
            yield piece


def _opened(node: Node) -> Iterator[Node]:
    """Top-level nodes; namespaces, `extern "C"` and plain `#if` blocks are gone into."""
    for child in node.named_children:
        body = child.child_by_field_name("body")
        if child.type == "linkage_specification" and body is not None:
            if body.type == "declaration_list":
                yield from _opened(body)
            else:
                yield body
        elif child.type == "namespace_definition" and body is not None:
            yield from _opened(body)
        elif child.type in ("preproc_ifdef", "preproc_if"):
            whole = child.child_by_field_name("alternative") is not None
            holds_functions = any(c.type == "function_definition" for c in descendants(child))
            if whole or not holds_functions:
                yield child
            else:
                yield from _opened(child)
        else:
            yield child


def _piece(node: Node) -> Piece | None:
    text, line, scope = text_of(node).strip(), line_of(node), scope_of(node)
    match node.type:
        case "comment":
            return None if _PLAN.match(text) else Piece(text, "comment", line, scope, node=node)
        case "preproc_include":
            found = re.search(r"[<\"]([^>\"]+)[>\"]", text)
            return Piece(text, "include", line, label=found[1] if found else "", node=node)
        case "preproc_def" | "preproc_function_def":
            name = text_of(node.child_by_field_name("name"))
            return Piece(text, "code", line, (), frozenset({name}), f"#define {name}", node)
        case "preproc_ifdef" | "preproc_if":
            return Piece(
                text, "code", line, (), frozenset(_defined(node)), one_line(text, 40), node
            )
        case "preproc_call":
            kind = "host" if "once" in text else "always"
            return Piece(text, kind, line, (), node=node)
        case "function_definition" | "template_declaration":
            return _function_piece(node, text, line, scope)
        case "using_declaration" | "namespace_alias_definition":
            if _FOREIGN_NAMESPACES.search(text):
                return Piece(text, "host", line, scope, label=one_line(text), node=node)
            return Piece(text, "always", line, scope, node=node)
        case "identifier" | "namespace_identifier" | "ERROR" | "template_instantiation":
            return Piece(text, "host", line, scope, label=one_line(text, 40), node=node)
        case "expression_statement":
            return Piece(text, "host", line, scope, label=one_line(text, 40), node=node)
        case _:
            return _declaration_piece(node, text, line, scope)


def _function_piece(node: Node, text: str, line: int, scope: tuple[str, ...]) -> Piece:
    function = node
    while function.type == "template_declaration" and function.named_children:
        function = function.named_children[-1]
    if function.type != "function_definition":
        return _declaration_piece(node, text, line, scope)
    name = function_name(function)
    words = specifiers(function)
    on_device = words & {"__global__", "__device__"}
    host = name == "main" or (not on_device and _HOST_MARKS.search(text))
    if not on_device and any(c.type == "field_initializer_list" for c in function.children):
        host = True
    shown = re.sub(r'\bextern\s+"C"\s+', "", text)
    if "__global__" in words:
        shown = re.sub(r"\bstatic\s+(?=(?:inline\s+)?__global__)", "", shown)
    return Piece(
        shown, "host" if host else "code", line, scope, frozenset({name}), f"{name}()", node
    )


def _declaration_piece(node: Node, text: str, line: int, scope: tuple[str, ...]) -> Piece:
    shown = text if text.endswith((";", "}")) else f"{text};"
    if re.search(r"(struct|class|union|enum)_specifier", node.type) and not text.endswith(";"):
        shown = f"{text};"
    names = frozenset(_defined(node))
    label = one_line(text.partition("{")[0].partition("=")[0], 40)
    host = _HOST_MARKS.search(text) and "__device__" not in text
    return Piece(shown, "host" if host else "code", line, scope, names, label, node)


def _defined(node: Node) -> Iterator[str]:
    """Every name that a declaration introduces, also inside of an #if."""
    for part in descendants(node):
        match part.type:
            case "struct_specifier" | "class_specifier" | "union_specifier" | "enum_specifier":
                yield text_of(part.child_by_field_name("name")).partition("<")[0]
            case "type_definition" | "declaration":
                yield from (name for name, _ in declarators(part))
                if part.type == "type_definition":
                    yield text_of(part.child_by_field_name("declarator"))
            case "alias_declaration" | "enumerator" | "preproc_def" | "preproc_function_def":
                yield text_of(part.child_by_field_name("name"))
            case "function_definition":
                yield function_name(part)


def _with_comments(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Comments that stand right above a part become its own."""
    above: list[Piece] = []
    for piece in pieces:
        if piece.kind == "comment":
            if above and piece.line > _end(above[-1]) + 1:
                yield from above
                above = []
            above.append(piece)
            continue
        if above and piece.kind == "code" and piece.line <= _end(above[-1]) + 1:
            text = "\n".join([*(a.text for a in above), piece.text])
            comments = "\n".join(a.text for a in above)
            if not _LICENCE.search(comments):
                yield Piece(
                    text,
                    piece.kind,
                    piece.line,
                    piece.scope,
                    piece.defines,
                    piece.label,
                    piece.node,
                )
                above = []
                continue
        yield from above
        above = []
        yield piece
    yield from above


def _end(piece: Piece) -> int:
    return piece.line + piece.text.count("\n")


def _licence(pieces: list[Piece]) -> str:
    found: list[str] = []
    for piece in pieces:
        if piece.kind != "comment":
            break
        found.append(piece.text)
    text = "\n".join(found)
    return text if _LICENCE.search(text) else ""


# -- what is needed --------------------------------------------------------------------------------


def _needed(pieces: list[Piece], kernel: Node) -> list[Piece]:
    """The kernel's part, and all parts that define a name which a needed part mentions."""
    chosen = [p for p in pieces if p.node is not None and _holds(p.node, kernel)]
    chosen += [p for p in pieces if p.kind == "always"]
    names = set().union(*(_mentioned(p.text) for p in chosen)) if chosen else set()
    while True:
        more = [
            p for p in pieces if p.kind == "code" and p not in chosen and p.defines & names
            and not _is_other_kernel(p)
        ]  # fmt: skip
        if not more:
            return chosen
        chosen += more
        names |= set().union(*(_mentioned(p.text) for p in more))


def _is_other_kernel(piece: Piece) -> bool:
    return re.search(r"\b__global__\b", piece.text.partition("{")[0]) is not None


def _holds(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def _mentioned(text: str) -> set[str]:
    code = re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", " ", text, flags=re.DOTALL)
    return set(re.findall(r"[A-Za-z_]\w*", code))


def _include(piece: Piece, code: str, is_available: Callable[[str], bool], kept: Kept) -> None:
    if piece.label == "cub/cub.cuh":
        parts = [header for name, header in _CUB.items() if re.search(rf"\b{name}\b", code)]
        kept.includes.extend(f"#include <cub/{part}.cuh>" for part in parts)
    elif is_available(piece.label):
        kept.includes.append(piece.text)
    else:
        kept.left_out.append(f"#include of {piece.label} (line {piece.line})")
        if '"' in piece.text and piece.label not in _HOST_HEADERS:
            kept.missing_headers.append(piece.label)
