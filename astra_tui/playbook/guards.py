"""Kernels of one element a thread, as loops over all elements of the grid.

`if (i >= n) return;` before the work on element i says the same as a loop over i from the thread's
place in the grid, in steps of the grid's threads. Lines stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.indices import GLOBAL_THREAD, IndexReader
from astra_tui.cuda_source.syntax import (
    bare,
    contains,
    field,
    of_type,
    operator_of,
    statements_of,
    text_of,
)
from astra_tui.playbook.edits import Edit, indented_deeper
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.invariance import plain_locals
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.loops import JUMPS

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def guards_as_loops(source: KernelText, included: Mapping[str, str]) -> KernelText:
    """The source with a loop in place of the guard of each kernel that has one."""
    edits = [e for kernel in source.kernels for e in _edits(source, included, kernel)]
    return KernelText.read(source.changed(edits)) if edits else source


def _edits(source: KernelText, included: Mapping[str, str], kernel: Function) -> list[Edit]:
    statements = statements_of(kernel.body)
    for number, statement in enumerate(statements):
        found = _guarded(kernel, statement)
        if found is None:
            continue
        variable, operator, bound = found
        name, kind = variable.name, variable.type
        start = f"for ({kind} {name} = {text_of(variable.value)};"
        rest = f"{name} < {text_of(bound)}; {name} += ({kind})gridDim.x * blockDim.x)"
        heads = _heads(source.data, variable.declaration, statement, (start, rest))
        body, after = field(statement, "consequence"), statements[number + 1 :]
        if operator == "<" and not after and _is_plain(source, included, [body]):
            return [heads[0], Edit(statement.start_byte, body.start_byte, f"{heads[1]} ")]
        leaves = [s.type for s in statements_of(body)] == ["return_statement"]
        if operator == ">=" and after and leaves and _is_plain(source, included, after):
            deeper = [e for s in after for e in _deeper(source.data, s)]
            end = after[-1].end_byte
            return [heads[0], put(statement, f"{heads[1]} {{"), *deeper, Edit(end, end, " }")]
    return []


def _heads(data: bytes, declaration: Node, guard: Node, head: tuple[str, str]) -> tuple[Edit, str]:
    """What takes the declaration's place, and the text in that of the guard, on the same lines."""
    if data[declaration.end_byte : guard.start_byte].strip():
        return put(declaration, ""), " ".join(head)
    return put(declaration, head[0]), f"     {head[1]}"


def _deeper(data: bytes, statement: Node) -> list[Edit]:
    pragma = text_of(statement).startswith("#")
    first = [] if pragma else [Edit(statement.start_byte, statement.start_byte, "  ")]
    return [*first, *indented_deeper(data, statement)]


def _guarded(kernel: Function, statement: Node) -> tuple[Variable, str, Node] | None:
    """The thread's place in the grid, how it is compared, and with what."""
    if statement.type != "if_statement" or statement.child_by_field_name("alternative") is not None:
        return None
    condition = bare(field(statement, "condition"))
    if condition.type != "binary_expression" or operator_of(condition) not in _FLIPPED:
        return None
    left, right = bare(field(condition, "left")), bare(field(condition, "right"))
    operator, reader = operator_of(condition), IndexReader(kernel)
    if left.type != "identifier" or reader.read(left) != GLOBAL_THREAD:
        left, right, operator = right, left, _FLIPPED[operator]
    variable = kernel.lookup(text_of(left), left) if left.type == "identifier" else None
    if variable is None or variable.value is None or reader.read(left) != GLOBAL_THREAD:
        return None
    alone = plain_locals(variable.declaration)
    before = [u for u in kernel.uses(variable) if u.start_byte < statement.start_byte]
    at_top = variable.declaration.parent == kernel.body
    if not alone or len(alone) != 1 or before or not at_top or not kernel.is_constant(variable):
        return None
    if any(contains(right, use) for use in kernel.uses(variable)):
        return None
    return variable, operator, right


def _is_plain(source: KernelText, included: Mapping[str, str], statements: list[Node]) -> bool:
    """Whether threads neither leave in them nor meet."""
    for statement in statements:
        if next(of_type(statement, *JUMPS), None) is not None:
            return False
        if source.meeting(statement, included) is not None:
            return False
    return True
