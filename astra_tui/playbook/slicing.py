"""What a store needs to be computed at the end of an earlier loop over the same iterations.

A backward slice (Weiser, 1981) of the later loop's body: the statements, and of nested loops the
parts, that the stored value, its place and its condition depend on.
"""

from __future__ import annotations

from tree_sitter import Node

from astra_tui.cuda_source.effects import is_pure, stores_in
from astra_tui.cuda_source.functions import variables_of
from astra_tui.cuda_source.syntax import (
    LOOPS,
    ancestors,
    bare,
    contains,
    field,
    identifiers_in,
    line_of,
    named,
    statements_of,
    text_of,
)
from astra_tui.playbook.edits import dedented, indented_lines, pragma_of
from astra_tui.playbook.invariance import plain_locals

_CHANGES = ("assignment_expression", "update_expression", "call_expression")


class NotSliced(Exception):
    """Why a store cannot be told apart from the rest of its loop."""


class Slice:
    """The part of a loop's body that one of its stores needs, as text and as nodes."""

    def __init__(self, source: bytes, body: tuple[Node, ...], store: Node):
        self._source = source
        self._store = store
        around = (a for a, _ in ancestors(store) if any(contains(s, a) for s in body))
        self._is_last = not any(a.type in LOOPS for a in around)
        """Whether what follows the store in an iteration comes too late for it."""
        self.names: set[str] = set()
        """Every name that the slice mentions."""
        self.nodes: list[Node] = []
        """Declarations, assignments, conditions and loop heads, as they stand in the loop."""
        self.declared: set[str] = set()
        """Names that the slice declares at its outermost level."""
        while True:
            before = len(self.names)
            self.nodes.clear()
            parts = [(statement, self._part(statement)) for statement in reversed(body)]
            if len(self.names) == before:
                break
        self._parts = [(statement, lines) for statement, lines in reversed(parts) if lines]
        for statement in body:
            if statement in self.nodes and statement.type == "declaration":
                self.declared |= {v.name for v in variables_of(statement)}

    @property
    def lines(self) -> list[str]:
        """The statements of the slice, in order."""
        return [line for _, lines in self._parts for line in lines]

    @property
    def guard(self) -> Node | None:
        """The condition that decides about the store, where it is the last thing in the loop."""
        last = self._parts[-1][0]
        return field(last, "condition") if last.type == "if_statement" else None

    def lines_within(self) -> list[str]:
        """The statements without the condition that decides about the store."""
        *before, (_, branch) = self._parts
        inner = [line.removeprefix("  ") for line in branch[1:-1]]
        return [*(line for _, lines in before for line in lines), *inner]

    def _of(self, statements: list[Node]) -> list[str]:
        lines: list[str] = []
        for statement in reversed(statements):
            lines[:0] = self._part(statement)
        return lines

    def _part(self, statement: Node) -> list[str]:
        if statement == self._store:
            return self._take(statement)
        if self._is_last and statement.start_byte >= self._store.end_byte:
            return []
        match statement.type:
            case "declaration":
                names = {v.name for v in variables_of(statement)}
                return self._take(statement) if names & self.names else []
            case "expression_statement":
                return self._take(statement) if _target(statement) in self.names else []
            case "for_statement":
                return self._loop(statement)
            case "if_statement":
                return self._branch(statement)
            case "compound_statement":
                inner = self._of(named(statement))
                return _braced("", inner) if inner else []
        return []

    def _take(self, statement: Node) -> list[str]:
        if plain_locals(statement) is None and statement.type == "declaration":
            values = [v.value for v in variables_of(statement) if v.value is not None]
            if not all(map(is_pure, values)):
                raise NotSliced(f"line {line_of(statement)}: a value with effects")
        self.nodes.append(statement)
        self.names |= identifiers_in(statement)
        return dedented(self._source, statement, text_of(statement)).split("\n")

    def _loop(self, loop: Node) -> list[str]:
        inner = self._of(statements_of(field(loop, "body")))
        if not inner:
            return []
        body = field(loop, "body")
        parts = [c for c in loop.named_children if c != body]
        self.nodes += parts
        for part in parts:
            self.names |= identifiers_in(part)
        head = (loop.text or b"")[: body.start_byte - loop.start_byte].decode().rstrip()
        pragma = pragma_of(loop)
        before = [text_of(pragma).strip()] if pragma is not None else []
        return [*before, *_braced(f"{head} ", inner)]

    def _branch(self, branch: Node) -> list[str]:
        condition, consequence = field(branch, "condition"), field(branch, "consequence")
        if not contains(branch, self._store):
            changed = {_target(s) for s in _statements(branch)} & self.names
            if changed:
                raise NotSliced(f"line {line_of(branch)}: a value that depends on a condition")
            return []
        if not contains(consequence, self._store) or not is_pure(condition):
            raise NotSliced(f"line {line_of(branch)}: a store that a condition decides on")
        inner = self._of(statements_of(consequence))
        self.nodes.append(condition)
        self.names |= identifiers_in(condition)
        return _braced(f"if {text_of(condition)} ", inner)


def _braced(head: str, lines: list[str]) -> list[str]:
    return [f"{head}{{", *indented_lines(lines).split("\n"), "}"]


def _statements(node: Node) -> list[Node]:
    found = [node] if node.type == "expression_statement" else []
    return [*found, *(s for c in node.named_children for s in _statements(c))]


def _target(statement: Node) -> str:
    """The local that an assignment changes, wholly or in part, or one of whose functions is called;
    "" for anything else.
    """
    inner = named(statement)
    if not inner or inner[0].type not in _CHANGES:
        return ""
    change = inner[0]
    target = (change.child_by_field_name(name) for name in ("left", "argument", "function"))
    node = bare(next(n for n in target if n is not None))
    while node.type in ("subscript_expression", "field_expression"):
        node = bare(field(node, "argument"))
    is_function = change.type == "call_expression" and node.parent == change
    return text_of(node) if node.type == "identifier" and not is_function else ""


def written_only(name: str, body: tuple[Node, ...], store: Node) -> list[Node]:
    """The statements that give a local its value, where nothing but a store reads it.

    With its declaration; empty where something else reads it.
    """
    found: list[Node] = []
    for statement in (s for b in body for s in leaves(b)):
        if statement == store or name not in identifiers_in(statement):
            continue
        declared = [v.name for v in variables_of(statement)] if _declares(statement) else []
        if declared != [name] and _target(statement) != name:
            return []
        if _target(statement) == name and len(stores_in(statement)) > 1:
            return []
        found.append(statement)
    return found


def _declares(statement: Node) -> bool:
    return statement.type == "declaration"


def leaves(node: Node) -> list[Node]:
    """The declarations and expressions that statements are made of, conditions included."""
    match node.type:
        case "compound_statement" | "for_statement" | "if_statement" | "else_clause":
            return [leaf for c in node.named_children for leaf in leaves(c)]
    return [node]
