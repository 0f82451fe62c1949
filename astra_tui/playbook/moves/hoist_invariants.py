"""Takes out of a loop what it computes again every iteration with the same result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function, is_written
from astra_tui.cuda_source.syntax import (
    field as child,
)
from astra_tui.cuda_source.syntax import (
    line_of,
    of_type,
    one_line,
    statements_of,
    text_of,
)
from astra_tui.cuda_source.types import type_of
from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.playbook.accesses import is_conditional
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import (
    Edit,
    dedented,
    indentation,
    indented,
    indented_deeper,
    insert_before,
    line_start,
    outermost,
    pragma_of,
    remove_statement,
    replace,
)
from astra_tui.playbook.evidence import (
    evidence_of,
    lines_text,
    places_of,
    predicted,
    share,
)
from astra_tui.playbook.invariance import (
    Invariance,
    assignment_to,
    can_speculate,
    is_costly,
    plain_locals,
)
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.loops import JUMPS, Loop, loops_of

_EXPRESSIONS = ("call_expression", "binary_expression", "subscript_expression")


@dataclass
class _Found:
    """What leaves one loop: whole statements, and expressions inside of others."""

    loop: Loop
    statements: list[Node] = field(default_factory=list)
    expressions: list[Node] = field(default_factory=list)

    def nodes(self) -> list[Node]:
        return [*self.statements, *self.expressions]


class HoistInvariants:
    """Loop-invariant code motion that the compiler may not do itself.

    It may not where loads could alias stores, or where code stands under a condition.
    """

    name = "hoist_invariants"
    summary = "compute once, before the loop, what every iteration repeats"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (1.0, 1.01)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Moves invariant declarations and expressions out of the loops of every function."""
        looked_at = [(f, loop) for f in source.functions for loop in _innermost(loops_of(f))]
        found = [(f, each) for f, loop in looked_at if (each := _find(source, f, loop)).nodes()]
        if not found:
            return NotApplicable(self.name, _why_not([loop.node for _, loop in looked_at]))
        loops = evidence.several(
            "loops",
            "lines of the loops that give up their invariant work",
            sorted(line_of(each.loop.node) for _, each in found),
        )
        found = [(f, each) for f, each in found if line_of(each.loop.node) in loops.chosen]
        names = source.names()
        edits = [e for f, each in found for e in _rewrite(source, f, each, names)]
        moved = [n for _, each in found for n in each.nodes()]
        part = share(evidence.counters, Counter.WARP_INSTRUCTIONS, moved)
        if part == 0:
            return NotApplicable(self.name, f"{lines_text(moved)}: no workload runs there")
        what = "; ".join(one_line(text_of(n), 70) for n in moved[:4])
        plan = Plan(
            title="Hoist loop-invariant work",
            bottleneck="every iteration of a loop computes the same values again",
            evidence=evidence_of(
                evidence.counters, moved, Counter.WARP_INSTRUCTIONS, Counter.REQUESTS
            ),
            change=f"{lines_text(moved)}: computed before the loop: {what}. Nothing they read "
            "is written in the loop; loads move under the condition that the loop runs at all.",
            prediction=predicted(Counter.WARP_INSTRUCTIONS, part, 0.3, (1.0, 1.6), 0.3),
            risk=Risk.LOW,
            places=places_of(moved),
            move=self.name,
            parameters=settable(loops),
        )
        return Proposal(plan, source.changed(edits))


def _why_not(loops: list[Node]) -> str:
    if not loops:
        return "no counted loop"
    return (
        f"{lines_text(loops)}: each load, function and division in the loops changes by iteration"
    )


def _innermost(loops: Iterator[Loop]) -> list[Loop]:
    """Outer loops wait until the inner ones have given up what they can."""
    found = list(loops)
    return [
        a for a in found
        if not any(a is not b and _inside(b.node, a.node) for b in found) or not _has_work(a, found)
    ]  # fmt: skip


def _inside(inner: Node, outer: Node) -> bool:
    return outer.start_byte < inner.start_byte and inner.end_byte <= outer.end_byte


def _has_work(outer: Loop, loops: list[Loop]) -> bool:
    return any(_inside(b.node, outer.node) for b in loops)


def _find(source: KernelText, function: Function, loop: Loop) -> _Found:
    """Repeats the search without the names that turned out to change after all."""
    banned: set[str] = set()
    while True:
        invariance = Invariance(source, function, loop.node)
        found = _Found(loop)
        _lift_statements(invariance, loop.body, found, banned, conditional=False)
        changed = _changed_elsewhere(invariance, found)
        if not changed:
            break
        banned |= changed
    _lift_expressions(invariance, found)
    if not any(is_costly(n, function) for n in found.nodes()):
        return _Found(loop)
    return found


def _lift_statements(
    invariance: Invariance,
    statements: tuple[Node, ...] | list[Node],
    found: _Found,
    banned: set[str],
    conditional: bool,
) -> None:
    for statement in statements:
        if any(True for _ in of_type(statement, *JUMPS)):
            return
        if _can_leave(invariance, statement, banned, conditional):
            found.statements.append(statement)
            declared = plain_locals(statement) or []
            invariance.lifted |= {v.name for v in declared}
        elif statement.type == "if_statement":
            condition = child(statement, "condition")
            if invariance.holds(condition):
                for branch in _branches(statement):
                    _lift_statements(invariance, statements_of(branch), found, banned, True)


def _branches(statement: Node) -> list[Node]:
    branches = [child(statement, "consequence")]
    other = statement.child_by_field_name("alternative")
    if other is not None:
        branches += [c for c in other.named_children if c.type != "comment"][:1]
    return [b for b in branches if b.type == "compound_statement"]


def _can_leave(
    invariance: Invariance, statement: Node, banned: set[str], conditional: bool
) -> bool:
    declared = plain_locals(statement)
    if declared is not None:
        names = {v.name for v in declared}
        values = [v.value for v in declared if v.value is not None]
        free = not names & banned and not any(_is_taken(invariance, n) for n in names)
        safe = not conditional or all(can_speculate(v, invariance.function) for v in values)
        return free and safe and all(map(invariance.holds, values))
    assigned = assignment_to(statement)
    if assigned is None or conditional:
        return False
    name, values = assigned
    return name in invariance.lifted and all(map(invariance.holds, values))


def _is_taken(invariance: Invariance, name: str) -> bool:
    """Whether a second variable of the function has this name."""
    function = invariance.function
    return sum(v.name == name for v in (*function.parameters, *function.locals)) > 1


def _changed_elsewhere(invariance: Invariance, found: _Found) -> set[str]:
    """Lifted names that a statement which stays in the loop assigns to."""
    changed = set()
    for variable in invariance.function.locals:
        if variable.name not in invariance.lifted:
            continue
        for use in invariance.function.uses(variable):
            stays = not any(_covers(s, use) for s in found.statements)
            if stays and is_written(use):
                changed.add(variable.name)
    return changed


def _covers(statement: Node, node: Node) -> bool:
    return bool(statement.start_byte <= node.start_byte and node.end_byte <= statement.end_byte)


def _lift_expressions(invariance: Invariance, found: _Found) -> None:
    """The largest costly invariant expressions of the statements that stay."""
    function = invariance.function
    for statement in found.loop.body:
        if any(True for _ in of_type(statement, *JUMPS)):
            return
        candidates = [
            n for n in of_type(statement, *_EXPRESSIONS)
            if not any(_covers(s, n) for s in found.statements)
            and not _is_assigned(n)
            and not _is_row(n)
            and invariance.holds(n)
            and is_costly(n, function)
            and not _conditional(n, statement)
        ]  # fmt: skip
        found.expressions += outermost(candidates)


def _conditional(node: Node, statement: Node) -> bool:
    return node != statement and is_conditional(node, statement)


def _is_row(node: Node) -> bool:
    """Whether it is the `a[i]` of `a[i][j]`, which loads nothing by itself."""
    above = node.parent
    return (
        above is not None
        and above.type == "subscript_expression"
        and (child(above, "argument") == node)
    )


def _is_assigned(node: Node) -> bool:
    parent = node.parent
    while parent is not None and parent.type == "subscript_expression":
        node, parent = parent, parent.parent
    assigned = parent is not None and parent.type in ("assignment_expression", "update_expression")
    return assigned and parent is not None and parent.child_by_field_name("right") != node


def _rewrite(source: KernelText, function: Function, found: _Found, names: set[str]) -> list[Edit]:
    edits = [remove_statement(source.data, s) for s in found.statements]
    lines = [dedented(source.data, s, text_of(s)) for s in found.statements]
    by_text: dict[str, str] = {}
    for expression in found.expressions:
        text = text_of(expression)
        if text not in by_text:
            by_text[text] = fresh_name("invariant", names)
            kind = type_of(expression, function)
            kind = kind if kind in ("float", "double") else "auto"
            lines.append(f"const {kind} {by_text[text]} = {text};")
        edits.append(replace(expression, by_text[text]))
    if all(can_speculate(n, function) for n in found.nodes()):
        return [*edits, insert_before(source.data, found.loop.node, lines)]
    guard = _guarded(source.data, found.loop, lines)
    return [*edits, *(g for g in guard if not any(e.start <= g.start < e.end for e in edits))]


def _guarded(source: bytes, loop: Loop, lines: list[str]) -> list[Edit]:
    """The lines before the loop, both under the condition that the loop runs at least once."""
    first = pragma_of(loop.node) or loop.node
    indent = indentation(source, loop.node)
    inner = indented("\n".join(lines), indent + "  ")
    start, own = line_start(source, first), line_start(source, loop.node)
    begins_line = start == 0 or source[start - 1 : start] == b"\n"
    lead = indent if begins_line else ""
    return [
        Edit(start, start, f"{lead}if ({_first_turn(loop)}) {{\n{inner}\n"),
        Edit(own, own, "  "),
        *indented_deeper(source, loop.node),
        Edit(loop.node.end_byte, loop.node.end_byte, f"\n{indent}}}"),
    ]


def _first_turn(loop: Loop) -> str:
    """The loop's condition before its first iteration."""
    if loop.declaration is not None:
        return f"{loop.name} {loop.compare} {text_of(loop.bound)}"
    start = text_of(loop.start)
    if loop.start.type not in ("identifier", "number_literal", "field_expression"):
        start = f"({start})"
    if loop.variable.type != "auto":
        start = f"({loop.variable.type}){start}"
    return f"{start} {loop.compare} {text_of(loop.bound)}"
