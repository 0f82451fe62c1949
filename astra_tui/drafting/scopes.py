"""Which value a local name has at a place of a function's body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.syntax import ancestors, declarators, descendants, text_of

_LOOPS = {"for_statement", "while_statement", "do_statement"}


@dataclass(frozen=True)
class Variable:
    """A local name whose value changes; `text` tells it from others of its name."""

    text: str
    declarator: Node


def definition_of(name: str, site: Node, function: Node) -> Node | Variable | None:
    """The expression that a local name stands for at a place, None when it is not local."""
    found = _declaration(name, site, function)
    if found is None:
        return None
    declarator, scope = found
    variable = Variable(f"{name}@{declarator.start_byte}", declarator)
    value = declarator.child_by_field_name("value")
    plain: list[Node] = []
    for change in _changes(name, scope, declarator):
        if change.type != "assignment_expression" or text_of(change.children[1]) != "=":
            return variable
        plain.append(change)
    for change in plain:
        before = change.end_byte <= site.start_byte
        if before and _surely_ran(change, site):
            value = change.child_by_field_name("right")
        elif before or _shares_loop(change, site, scope):
            return variable
    return value if value is not None else variable


def declared_type(name: str, site: Node, function: Node) -> str:
    """The type that a local name is declared with, a `*` with it for a pointer."""
    found = _declaration(name, site, function)
    if found is None:
        return ""
    declarator, _ = found
    declaration = declarator.parent
    kind = text_of(declaration.child_by_field_name("type")) if declaration is not None else ""
    return kind + "*" * text_of(declarator).partition("=")[0].count("*")


def _declaration(name: str, site: Node, function: Node) -> tuple[Node, Node] | None:
    """The declarator that a name refers to, and the block or loop that it is declared in."""
    for above, below in ancestors(site):
        for declaration in _declarations(above, below):
            for declared, declarator in declarators(declaration):
                if declared == name and declarator.start_byte < site.start_byte:
                    return declarator, above
        if above == function:
            return None
    return None


def _declarations(above: Node, below: Node) -> Iterator[Node]:
    """Declarations of a block before one of its parts, nearest first; those of a loop's head."""
    if above.type == "for_statement":
        head = above.child_by_field_name("initializer")
        if head is not None and head.type == "declaration":
            yield head
    elif above.type in ("compound_statement", "case_statement"):
        for child in reversed(above.named_children):
            if child.type == "declaration" and child.start_byte <= below.start_byte:
                yield child


def _changes(name: str, scope: Node, declarator: Node) -> Iterator[Node]:
    for node in descendants(scope):
        if node.type not in ("assignment_expression", "update_expression"):
            continue
        target = node.child_by_field_name(
            "left" if node.type == "assignment_expression" else "argument"
        )
        if node.start_byte > declarator.start_byte and text_of(target) == name:
            yield node


def _surely_ran(change: Node, site: Node) -> bool:
    """Whether an assignment is a statement of a block around the place."""
    statement = change.parent
    block = statement.parent if statement is not None else None
    return (
        block is not None
        and statement is not None
        and statement.type == "expression_statement"
        and block.type == "compound_statement"
        and any(above == block for above, _ in ancestors(site))
    )


def _shares_loop(change: Node, site: Node, scope: Node) -> bool:
    """Whether a loop inside of the scope runs both, so that the change may come first."""
    for above, _ in ancestors(site):
        if above == scope:
            return False
        if above.type in _LOOPS and any(outer == above for outer, _ in ancestors(change)):
            return True
    return False
