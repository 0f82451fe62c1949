"""Counted loops in any spelling: one variable, a start, a bound, a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable, is_written, variables_of
from astra_tui.cuda_source.indices import IndexReader, Polynomial
from astra_tui.cuda_source.polynomial import constant
from astra_tui.cuda_source.syntax import (
    bare,
    field,
    integer_of,
    named,
    of_type,
    operator_of,
    statements_of,
    text_of,
)

JUMPS = ("break_statement", "continue_statement", "return_statement", "goto_statement")
"""Statements after which others may not run."""

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


@dataclass(frozen=True)
class Loop:
    """A loop over one variable that is changed once an iteration, at the end of the iteration.

    `step` and `operator` say how: `i += step`, `i /= step`, ... The condition is
    `variable compare bound`.
    """

    node: Node
    variable: Variable
    start: Node
    compare: str
    bound: Node
    operator: str
    step: Node | None
    """None for one."""
    body: tuple[Node, ...]
    """The statements of an iteration, the change of the variable excluded."""
    declaration: Node | None
    """Where the variable is declared, if that is before the loop."""

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.variable.name

    @property
    def start_byte(self) -> int:
        """Where the loop begins, with the declaration of its variable."""
        return (self.declaration or self.node).start_byte

    def counts_up(self) -> bool:
        """Whether it is `for (i = start; i < bound; i += step)` in some spelling."""
        return self.compare == "<" and self.operator == "+"

    def start_form(self, reader: IndexReader) -> Polynomial:
        """The start as a polynomial."""
        return reader.read(self.start)

    def step_form(self, reader: IndexReader) -> Polynomial:
        """The step as a polynomial."""
        return constant(1) if self.step is None else reader.read(self.step)

    def has_jump(self) -> bool:
        """Whether an iteration can end early or leave the loop."""
        return any(any(True for _ in of_type(s, *JUMPS)) for s in self.body)


def loops_of(function: Function) -> Iterator[Loop]:
    """The counted loops of a function, outer ones first."""
    for node in of_type(function.body, "for_statement", "while_statement"):
        found = read_loop(node, function)
        if found is not None:
            yield found


def read_loop(node: Node, function: Function) -> Loop | None:
    """A `for` or `while` as a counted loop, or None where it is none."""
    condition = node.child_by_field_name("condition")
    if condition is None:
        return None
    body = statements_of(field(node, "body"))
    update = node.child_by_field_name("update")
    if update is None:
        if not body or body[-1].type != "expression_statement" or not named(body[-1]):
            return None
        *body, last = body
        update = named(last)[0]
        if any(any(True for _ in of_type(s, "continue_statement")) for s in body):
            return None
    change = _read_update(update)
    if change is None:
        return None
    compared = _read_condition(bare(condition), change[0])
    variable = function.lookup(change[0], update)
    if compared is None or variable is None or variable.value is None:
        return None
    declaration = _declaration_before(node, variable, function)
    if declaration is None and variable.declaration.parent != node:
        return None
    if _changed_in(body, variable, function):
        return None
    return Loop(node, variable, variable.value, *compared, *change[1:], tuple(body), declaration)


def _declaration_before(node: Node, variable: Variable, function: Function) -> Node | None:
    """The declaration before a loop, when the variable serves that loop alone."""
    declaration = variable.declaration
    if declaration.parent != node.parent or len(list(variables_of(declaration))) != 1:
        return None
    inside = all(
        node.start_byte <= u.start_byte and u.end_byte <= node.end_byte
        for u in function.uses(variable)
    )
    return declaration if inside else None


def _changed_in(body: list[Node], variable: Variable, function: Function) -> bool:
    uses = [u for u in function.uses(variable) if is_written(u)]
    return any(s.start_byte <= u.start_byte < s.end_byte for s in body for u in uses)


def _read_update(update: Node) -> tuple[str, str, Node | None] | None:
    """The variable, the operator and the step of `i += s`, `i = i + s`, `i++`, `i >>= 1`, ..."""
    if update.type == "update_expression":
        operator = operator_of(update)[0]
        return text_of(field(update, "argument")), operator, None
    if update.type != "assignment_expression":
        return None
    left, right = field(update, "left"), bare(field(update, "right"))
    if left.type != "identifier":
        return None
    name, operator = text_of(left), operator_of(update)
    if operator != "=":
        return name, operator[:-1], right
    if right.type != "binary_expression":
        return None
    first, second = bare(field(right, "left")), bare(field(right, "right"))
    if text_of(first) == name:
        return name, operator_of(right), second
    if text_of(second) == name and operator_of(right) in ("+", "*"):
        return name, operator_of(right), first
    return None


def _read_condition(condition: Node, name: str) -> tuple[str, Node] | None:
    """The comparison and the bound, with the variable on the left."""
    if condition.type != "binary_expression" or operator_of(condition) not in _FLIPPED:
        return None
    left, right = bare(field(condition, "left")), bare(field(condition, "right"))
    operator = operator_of(condition)
    if text_of(left) == name and left.type == "identifier":
        return operator, right
    if text_of(right) == name and right.type == "identifier":
        return _FLIPPED[operator], left
    return None


def halves(loop: Loop) -> bool:
    """Whether the variable is halved each iteration, down to one."""
    if integer_of(loop.bound) is None:
        return False
    ends = (loop.compare, integer_of(loop.bound)) in ((">", 0), (">=", 1), ("!=", 0))
    step = integer_of(bare(loop.step)) if loop.step is not None else None
    return ends and (loop.operator, step) in (("/", 2), (">>", 1))
