"""Changes to a source by byte ranges; what is not named stays byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.syntax import contains, text_of


class OverlappingEdits(ValueError):
    """Two edits want the same bytes: the rewrite is not sound for this source."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replaces the bytes from `start` up to `end`."""

    start: int
    end: int
    text: str


def replace(node: Node, text: str) -> Edit:
    """Puts a text in place of a node."""
    return Edit(node.start_byte, node.end_byte, text)


def apply(source: bytes, edits: Iterable[Edit]) -> bytes:
    """The source with all edits made; insertions at one place keep their order.

    Raises OverlappingEdits.
    """
    pieces: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < position:
            raise OverlappingEdits(f"two edits overlap at byte {edit.start}")
        pieces += [source[position : edit.start], edit.text.encode()]
        position = edit.end
    return b"".join([*pieces, source[position:]])


def rewritten(source: bytes, node: Node, edits: Iterable[Edit]) -> str:
    """The text of one node after the edits that lie within it."""
    inside = [
        Edit(e.start - node.start_byte, e.end - node.start_byte, e.text)
        for e in edits
        if node.start_byte <= e.start and e.end <= node.end_byte
    ]
    return apply(source[node.start_byte : node.end_byte], inside).decode()


def indentation(source: bytes, node: Node) -> str:
    """The blanks before the first thing on the node's line."""
    begin = source.rfind(b"\n", 0, node.start_byte) + 1
    line = source[begin:].split(b"\n", 1)[0]
    return line[: len(line) - len(line.lstrip(b" \t"))].decode()


def line_start(source: bytes, node: Node) -> int:
    """Where the node's line begins, if nothing but blanks stands before the node."""
    begin = source.rfind(b"\n", 0, node.start_byte) + 1
    return node.start_byte if source[begin : node.start_byte].strip() else begin


def insert_before(source: bytes, node: Node, lines: Iterable[str]) -> Edit:
    """Puts whole lines before a statement (and its #pragma), indented as the statement is."""
    start = line_start(source, pragma_of(node) or node)
    return Edit(start, start, indented("\n".join(lines), indentation(source, node)) + "\n")


def insert_above(source: bytes, node: Node, line: str) -> Edit:
    """Puts a line before a statement and the #pragma and comments that belong to it."""
    top = pragma_of(node) or node
    while (comment := _comment_above(source, top)) is not None:
        top = comment
    begin = line_start(source, top)
    if begin == 0 or source[begin - 1 : begin] == b"\n":
        return Edit(begin, begin, f"{indentation(source, node)}{line}\n")
    return Edit(begin, begin, f"{line} ")


def _comment_above(source: bytes, node: Node) -> Node | None:
    """The comment that ends on the line above and has its lines to itself."""
    before = node.prev_named_sibling
    if before is None or before.type != "comment":
        return None
    begin = line_start(source, before)
    alone = begin == 0 or source[begin - 1 : begin] == b"\n"
    return before if alone and before.end_point[0] + 1 == node.start_point[0] else None


def append_to(source: bytes, body: Node, line: str) -> Edit:
    """Puts a line at the end of a block in braces, indented as what is in it."""
    brace = body.end_byte - 1
    begin = source.rfind(b"\n", 0, brace) + 1
    before = source[begin:brace].decode()
    if before.strip():
        return Edit(brace, brace, f"{line} ")
    return Edit(begin, begin, f"{before}  {line}\n")


def insert_after(source: bytes, node: Node, lines: Iterable[str]) -> Edit:
    """Puts whole lines after a statement, indented as the statement is."""
    text = indented("\n".join(lines), indentation(source, node))
    return Edit(node.end_byte, node.end_byte, f"\n{text}")


def pragma_of(statement: Node) -> Node | None:
    """The `#pragma` that stands before a loop and belongs to it."""
    before = statement.prev_named_sibling
    is_pragma = before is not None and before.type == "preproc_call"
    return before if is_pragma and text_of(before).startswith("#pragma") else None


def remove_statement(source: bytes, node: Node) -> Edit:
    """Takes a statement away, with its line where nothing else stands on it."""
    start, end = node.start_byte, node.end_byte
    begin = source.rfind(b"\n", 0, start) + 1
    newline = source.find(b"\n", end)
    stop = len(source) if newline < 0 else newline + 1
    if not source[begin:start].strip() and not source[end:stop].strip():
        return Edit(begin, stop, "")
    return Edit(start, end, "")


def indented(text: str, indent: str) -> str:
    """Lines pushed in; preprocessor lines stay at the margin."""
    return "\n".join(_at(line, indent) for line in text.split("\n"))


def _at(line: str, indent: str) -> str:
    if not line.strip() or line.lstrip().startswith("#"):
        return line.strip()
    return indent + line


def dedented(source: bytes, node: Node, text: str) -> str:
    """A node's text as if its first line began at the margin."""
    indent = indentation(source, node)
    first, *rest = text.rstrip().split("\n")
    return "\n".join([first.rstrip(), *(line.removeprefix(indent).rstrip() for line in rest)])


def outermost(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that lie within no other of them."""
    kept: list[Node] = []
    for node in sorted(nodes, key=lambda n: (n.start_byte, -n.end_byte)):
        if not any(contains(other, node) for other in kept):
            kept.append(node)
    return kept


def indented_deeper(source: bytes, node: Node) -> list[Edit]:
    """One more level of indentation for every line of a node but its first."""
    edits = []
    at = source.find(b"\n", node.start_byte, node.end_byte)
    while at >= 0:
        line = source[at + 1 :].split(b"\n", 1)[0].strip()
        if line and not line.startswith(b"#"):
            edits.append(Edit(at + 1, at + 1, "  "))
        at = source.find(b"\n", at + 1, node.end_byte)
    return edits


def indented_lines(lines: Iterable[str]) -> str:
    """Lines pushed in by one level; preprocessor lines stay at the margin."""
    return indented("\n".join(lines), "  ")
