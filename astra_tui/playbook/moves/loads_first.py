"""Loads that stand behind slow arithmetic leave as soon as their addresses are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import is_pure, reads_memory, stores_in, written_names
from astra_tui.cuda_source.functions import Function, variables_of
from astra_tui.cuda_source.syntax import (
    LOOPS,
    called_name,
    field,
    identifiers_in,
    of_type,
    operator_of,
    statements_of,
    text_of,
)
from astra_tui.cuda_source.types import type_of
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.task import KernelTask
from astra_tui.playbook.accesses import pointer_in, root_of
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, dedented, insert_before, remove_statement
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.invariance import plain_locals
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.loops import JUMPS
from astra_tui.playbook.waiting import WAIT, calls_of, keep_loads_below, stable_arguments

_WITH_BRANCHES = frozenset(
    name + suffix
    for name in ("sqrt", "rsqrt", "cbrt", "sin", "cos", "tan", "pow", "fmod", "log1p", "atan2")
    for suffix in ("", "f")
) | {"__frcp_rn", "__fdiv_rn", "__fsqrt_rn"}
"""Functions that the compiler makes branches of, for operands that are rare. It moves no load from
behind a branch to before it.
"""
_UNKNOWN = (
    *("gnu_asm_expression", "new_expression", "delete_expression", "lambda_expression"),
    "function_declarator",  # As the grammar has a constructor's arguments.
)
_ACCESSES = ("subscript_expression", "pointer_expression")
_KNOWN = ("declaration", "expression_statement", "if_statement")


@dataclass(frozen=True)
class _Early:
    """A load that waits for nothing that it needs."""

    kernel: Function
    load: Node
    moved: tuple[Node, ...]
    """Its declaration, and those of what its address needs, in their order."""
    before: Node
    """The statement that they come to stand before."""
    slow: Node
    """What it stood behind."""


class LoadsFirst:
    """Memory is asked for everything at once, before a thread computes with what came first."""

    name = "loads_first"
    summary = "loads leave before slow arithmetic that they stand behind"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show what a load waits for"
    gain = (0.97, 1.15)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every declaration of what is loaded that slow arithmetic stands before, in its block."""
        found = [early for kernel in source.kernels for early in _loads(kernel)]
        if not found:
            return NotApplicable(self.name, "no load stands behind slow arithmetic in its block")
        nodes = [early.load for early in found]
        behind = list({early.slow.id: early.slow for early in found}.values())
        plan = Plan(
            title="Load first",
            bottleneck="accurate functions and divisions have branches, behind which loads wait "
            "for a value that they do not need",
            evidence=evidence_of(evidence.counters, behind, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: loaded before {lines_text(behind)}, as soon as the "
            "address is known. Nothing in between stores, waits or jumps. It costs registers.",
            prediction=Prediction(*self.gain, Counter.SECTORS, 1.0),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
        )
        return Proposal(plan, source.changed(_rewrite(source, found, evidence.task)))


def _loads(kernel: Function) -> Iterator[_Early]:
    if "volatile" in text_of(kernel.node) or any(v.is_reference for v in kernel.locals):
        return
    blocks = [kernel.body, *of_type(kernel.body, "compound_statement")]
    for block in {b.id: b for b in blocks}.values():
        statements = statements_of(block)
        for number, statement in enumerate(statements):
            if _is_load(statement, kernel):
                early = _early(statements, number, kernel)
                if early is not None:
                    yield early


def _is_load(statement: Node, kernel: Function) -> bool:
    """Whether a statement declares nothing but what it loads from buffers of the launch."""
    if plain_locals(statement) is None or not is_pure(statement):
        return False
    loads = reads_memory(statement)
    pointers = [pointer_in(field(n, "argument"), kernel) for n in loads if n.type in _ACCESSES]
    roots = [root_of(p, kernel) if p is not None else None for p in pointers]
    is_known = len(roots) == len(loads) and all(r is not None and r.is_pointer for r in roots)
    return bool(loads) and is_known


def _early(statements: Sequence[Node], number: int, kernel: Function) -> _Early | None:
    """How far up a load can go; None where nothing slow is on the way."""
    load = statements[number]
    moved, needed, first = [load], identifiers_in(load), number
    for at in range(number - 1, -1, -1):
        above = statements[at]
        changed = _declared(above) | written_names(above)
        if changed & needed and (_is_address(above) or _is_load(above, kernel)):
            moved.append(above)
            needed |= identifiers_in(above)
        elif changed & needed or not _may_be_passed(above):
            break
        first = at
    passed = [s for s in statements[first:number] if s not in moved]
    slow = next((s for s in passed if _is_slow(s, kernel)), None)
    names = [v.name for v in kernel.locals]
    if slow is None or any(names.count(name) > 1 for s in moved for name in _declared(s)):
        return None
    return _Early(kernel, load, tuple(reversed(moved)), passed[0], slow)


def _declared(statement: Node) -> set[str]:
    is_declaration = statement.type == "declaration"
    return {v.name for v in variables_of(statement)} if is_declaration else set()


def _is_address(statement: Node) -> bool:
    """Whether a declaration only computes, from what is there already."""
    plain = plain_locals(statement) is not None
    return plain and is_pure(statement) and not reads_memory(statement)


def _may_be_passed(statement: Node) -> bool:
    """Whether a load may as well happen before a statement."""
    if statement.type not in _KNOWN or stores_in(statement):
        return False
    if any(True for _ in of_type(statement, *LOOPS, *JUMPS, *_UNKNOWN)):
        return False
    values = (d.child_by_field_name("value") for d in of_type(statement, "init_declarator"))
    if any(v is not None and v.type in ("argument_list", "initializer_list") for v in values):
        return False
    return all(map(is_pure, of_type(statement, "call_expression")))


def _is_slow(statement: Node, kernel: Function) -> bool:
    calls = (called_name(c) for c in of_type(statement, "call_expression"))
    if any(name in _WITH_BRANCHES for name in calls):
        return True
    divisions = (b for b in of_type(statement, "binary_expression") if operator_of(b) == "/")
    return any(type_of(d, kernel) in ("float", "double") for d in divisions)


def _rewrite(source: KernelText, found: Sequence[_Early], task: KernelTask) -> list[Edit]:
    """Each declaration once, before the first statement that one of the loads has it before, and
    below the wait for launches before.
    """
    targets: dict[int, tuple[Node, Node]] = {}
    for early in found:
        for node in early.moved:
            held = targets.setdefault(node.id, (node, early.before))
            if early.before.start_byte < held[1].start_byte:
                targets[node.id] = node, early.before
    waiting = [k for k in dict.fromkeys(e.kernel for e in found) if calls_of(k.body, WAIT)]
    stable = stable_arguments(task)
    edits = [e for kernel in waiting for e in keep_loads_below(source, kernel, stable)]
    for before in {target.id: target for _, target in targets.values()}.values():
        moved = sorted(
            (node for node, target in targets.values() if target == before),
            key=lambda node: node.start_byte,
        )
        lines = [dedented(source.data, node, text_of(node)) for node in moved]
        edits += [insert_before(source.data, before, lines)]
        edits += [remove_statement(source.data, node) for node in moved]
    return edits
