"""Stores a result in the loop that has all it needs, before threads wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import PURE_FUNCTIONS
from astra_tui.cuda_source.functions import Function, Variable, variables_of
from astra_tui.cuda_source.indices import IndexReader, Polynomial
from astra_tui.cuda_source.syntax import (
    bare,
    called_name,
    cast_of,
    contains,
    field,
    identifiers_in,
    line_of,
    of_type,
    operator_of,
    statements_of,
    subscript_of,
    text_of,
)
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.accesses import Access, accesses_in, may_alias, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, indentation, indented, indented_lines, remove_statement
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.loops import Loop, loops_of
from astra_tui.playbook.slicing import NotSliced, Slice, written_only
from astra_tui.playbook.turns import element_of, is_own, with_any_turn


class _Unsuitable(Exception):
    """Why a store stays where it is."""


@dataclass(frozen=True)
class _Early:
    """A store of a later loop, and what it needs at the end of the first."""

    kernel: Function
    first: Loop
    later: Loop
    store: Node
    needs: Slice


class StoreEarly:
    """The store leaves while the block still reduces, and its operands' registers are free."""

    name = "store_early"
    summary = "results that the first loop could store already leave before the second"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show when a store leaves"
    gain = (1.0, 1.2)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first store, its operands in registers, of a later loop over the same iterations."""
        reasons: list[str] = []
        for kernel in source.kernels:
            for first, later in _pairs(source, kernel):
                for access in _stores(later, kernel):
                    try:
                        early = _early(source, kernel, first, later, access)
                    except (_Unsuitable, NotSliced) as reason:
                        reasons.append(f"{kernel.name}: {reason}")
                        continue
                    return self._proposal(source, evidence, early)
        none = "no two loops over the same iterations with a barrier in between"
        return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or none)

    def _proposal(self, source: KernelText, evidence: Evidence, early: _Early) -> Proposal:
        plan = Plan(
            title="Store before the threads wait",
            bottleneck="a result that is known early waits in registers until the whole block has "
            "met, and all stores leave at once",
            evidence=evidence_of(evidence.counters, [early.store], Counter.SECTORS),
            change=f"{lines_text([early.store])}: stored at the end of the loop at line "
            f"{line_of(early.first.node)}, from the same registers. No thread reads these elements "
            "in between.",
            prediction=Prediction(1.0, 1.2, Counter.SECTORS, 1.0),
            risk=Risk.MEDIUM,
            places=places_of([early.first.node, early.later.node]),
            move=self.name,
        )
        return Proposal(plan, source.changed(_rewrite(source, early)))


def _pairs(source: KernelText, kernel: Function) -> Iterator[tuple[Loop, Loop]]:
    """Two loops of the same block over the same iterations, between which its threads wait for each
    other.
    """
    barriers = [b.start_byte for b in source.barriers(kernel)]
    loops = [x for x in loops_of(kernel) if x.counts_up() and x.step is None]
    for number, first in enumerate(loops):
        for later in loops[number + 1 :]:
            heads = [tuple(map(text_of, (x.start, x.bound))) for x in (first, later)]
            waits = any(first.node.end_byte <= b < later.node.start_byte for b in barriers)
            if waits and heads[0] == heads[1] and first.node.parent == later.node.parent:
                yield first, later


def _stores(loop: Loop, kernel: Function) -> list[Access]:
    return [
        a for s in loop.body for a in accesses_in(s, kernel) if a.is_store and not a.root.is_array
    ]


def _early(
    source: KernelText, kernel: Function, first: Loop, later: Loop, access: Access
) -> _Early:
    store = _statement(access.node)
    change = store.named_children[0] if store.type == "expression_statement" else store
    if change.type != "assignment_expression" or operator_of(change) != "=":
        raise _Unsuitable(f"line {line_of(store)}: no plain store")
    if first.has_jump() or later.has_jump():
        raise _Unsuitable(f"line {line_of(later.node)}: an iteration of the loops can end early")
    needs = Slice(source.data, later.body, store)
    _check_memory(source, kernel, first, later, access)
    for node in needs.nodes:
        _check_node(kernel, first, later, access, node)
    for name in sorted(needs.names | identifiers_in(later.start) | identifiers_in(later.bound)):
        _check_name(kernel, first, later, name)
    return _Early(kernel, first, later, store, needs)


def _statement(node: Node) -> Node:
    while node.parent is not None and node.type != "expression_statement":
        node = node.parent
    return node


def _check_memory(
    source: KernelText, kernel: Function, first: Loop, later: Loop, store: Access
) -> None:
    """Nothing but this thread's own iteration may touch the element until the old place."""
    place = element_of(kernel, store, later.name)
    if place is None or not is_own(place):
        raise _Unsuitable(f"line {line_of(store.node)}: other threads may have this element")
    begin, end = first.node.start_byte, store.node.start_byte
    between = [n for n in unknown_accesses(kernel.body, kernel) if begin <= n.start_byte < end]
    if between:
        raise _Unsuitable(f"line {line_of(between[0])}: an access that cannot be followed")
    for access in accesses_in(kernel.body, kernel):
        if not begin <= access.node.start_byte < end or access.node == store.node:
            continue
        if not may_alias(source, kernel, access.root, store.root):
            continue
        same = contains(first.node, access.node) and not access.is_store
        if not same or element_of(kernel, access, first.name) != place:
            raise _Unsuitable(f"line {line_of(access.node)}: the buffer is used in between")


def _check_node(kernel: Function, first: Loop, later: Loop, store: Access, node: Node) -> None:
    """What the store needs may come from registers of the same iteration only."""
    for call in of_type(node, "call_expression"):
        if cast_of(call) is None and called_name(call) not in PURE_FUNCTIONS:
            raise _Unsuitable(f"line {line_of(call)}: a call that may have effects")
    for access in accesses_in(node, kernel):
        if access.node == store.node:
            continue
        if not access.root.is_array or access.root.is_shared:
            raise _Unsuitable(f"line {line_of(access.node)}: what it needs is in memory")
        if contains(later.node, access.root.declaration):
            continue
        if text_of(access.index) != later.name or not _filled(kernel, first, access.root):
            raise _Unsuitable(f"line {line_of(access.node)}: the first loop does not have it")


def _filled(kernel: Function, first: Loop, array: Variable) -> bool:
    """Whether an array gets its values in one loop only, each iteration its own."""
    stores = [a for a in accesses_in(kernel.body, kernel) if a.root == array and a.is_store]
    return bool(stores) and all(
        contains(first.node, a.node) and text_of(a.index) == first.name for a in stores
    )


def _check_name(kernel: Function, first: Loop, later: Loop, name: str) -> None:
    variable = kernel.lookup(name, later.body[-1])
    if variable is None or variable.is_array or variable == later.variable:
        return
    if variable.is_parameter or not contains(later.node, variable.declaration):
        before = variable.is_parameter or variable.declaration.end_byte <= first.node.start_byte
        if not before or not kernel.is_constant(variable):
            raise _Unsuitable(f"line {line_of(later.node)}: {name} is not known any earlier")


def _rewrite(source: KernelText, early: _Early) -> list[Edit]:
    edits = [_inserted(source, early), remove_statement(source.data, early.store)]
    for name in _locals_of(early):
        dead = written_only(name, early.later.body, early.store)
        edits += [remove_statement(source.data, statement) for statement in dead]
    return edits


def _inserted(source: KernelText, early: _Early) -> Edit:
    """The slice at the end of the first loop, within the same condition where it has that too.

    A condition of its own would keep the compiler from ending the life of registers there.
    """
    first, later = early.first, early.later
    body, lines = field(first.node, "body"), early.needs.lines
    branch = _same_branch(early)
    if branch is not None:
        body, lines = field(branch, "consequence"), early.needs.lines_within()
    if first.name != later.name:
        lines.insert(0, f"const {later.variable.type} {later.name} = {first.name};")
    statements = statements_of(body)
    declared = {v.name for s in (*first.body, *statements) for v in _declared(s)}
    again = {v.name for line in early.needs.nodes for v in _declared(line)}
    if first.name != later.name or declared & again:
        lines = ["{", *indented_lines(lines).split("\n"), "}"]
    return _appended(body, indented("\n".join(lines), indentation(source.data, statements[-1])))


def _same_branch(early: _Early) -> Node | None:
    """The last statement of the first loop, where it asks what decides about the store."""
    guard, last = early.needs.guard, early.first.body[-1]
    if guard is None or last.type != "if_statement":
        return None
    if last.child_by_field_name("alternative") is not None:
        return None
    body = field(last, "consequence")
    both = (bare(guard), bare(field(last, "condition")))
    if body.type != "compound_statement" or any(c.type != "binary_expression" for c in both):
        return None
    forms = [_compared(early, condition) for condition in both]
    return last if forms[0] == forms[1] else None


def _compared(early: _Early, condition: Node) -> tuple[str, Polynomial, Polynomial]:
    """A comparison in terms of the iteration."""
    reader = IndexReader(early.kernel)
    sides = (reader.read(field(condition, side)) for side in ("left", "right"))
    names = (early.first.name, early.later.name)
    left, right = (with_any_turn(side, names) for side in sides)
    return operator_of(condition), left, right


def _appended(body: Node, text: str) -> Edit:
    """Lines at the end of a loop's body."""
    last = body.named_children[-1] if body.type == "compound_statement" else body
    return Edit(last.end_byte, last.end_byte, f"\n{text}")


def _declared(statement: Node) -> list[Variable]:
    return list(variables_of(statement)) if statement.type == "declaration" else []


def _locals_of(early: _Early) -> list[str]:
    """Locals of the later loop that the store alone has use for, perhaps."""
    change = next(of_type(early.store, "assignment_expression"))
    value = field(change, "right")
    parts = subscript_of(value)
    names = [text_of(n) for n in of_type(parts[0] if parts else value, "identifier")]
    return sorted(set(names))
