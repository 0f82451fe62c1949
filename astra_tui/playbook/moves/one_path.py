"""Chooses values where a branch chose what to store, so that no load waits for its condition."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as replaced
from textwrap import dedent

from tree_sitter import Node

from astra_tui.cuda_source.effects import is_pure, reads_memory, written_names
from astra_tui.cuda_source.functions import Function, variables_of
from astra_tui.cuda_source.syntax import (
    bare,
    field,
    identifiers_in,
    line_of,
    named,
    operator_of,
    same_code,
    statements_of,
    text_of,
)
from astra_tui.cuda_source.syntax import of_type as nodes_of
from astra_tui.cuda_source.types import type_of
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.accesses import Access, accesses_in, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, indentation, indented, remove_statement, rewritten
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.turns import element_of


class _Unsuitable(Exception):
    """Why a branch stays."""


@dataclass(frozen=True)
class _Store:
    """A store of one side, with the condition that it has for itself."""

    guard: Node | None
    target: Node
    value: Node


@dataclass(frozen=True)
class _Side:
    """What runs where the condition holds, or where it does not."""

    declarations: tuple[Node, ...]
    stores: tuple[_Store, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All code that it consists of."""
        guards = tuple(s.guard for s in self.stores if s.guard is not None)
        return (*self.declarations, *guards, *(n for s in self.stores for n in (s.target, s.value)))


@dataclass(frozen=True)
class _Branch:
    """A branch whose sides store to the same elements."""

    kernel: Function
    node: Node
    then: _Side
    other: _Side
    kept: Node | None
    """The side whose code stays; None where it follows a return."""

    @property
    def condition(self) -> Node:
        """What decides."""
        return bare(field(self.node, "condition"))

    @property
    def long(self) -> _Side:
        """The side that declares what it stores."""
        return self.then if self.then.declarations else self.other

    @property
    def short(self) -> _Side:
        """The side that stores what is known."""
        return self.other if self.long is self.then else self.then


class OnePath:
    """All threads take one path: both values are computed, and the condition chooses between."""

    name = "one_path"
    summary = "values that a condition chooses in place of a branch that loads wait behind"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show what a load waits for"
    gain = (0.97, 1.15)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every branch on floats whose sides store to the same elements."""
        reasons: list[str] = []
        found: list[_Branch] = []
        for kernel in source.kernels:
            for node in nodes_of(kernel.body, "if_statement"):
                try:
                    branch = _branch(kernel, node)
                    found += [branch] if branch is not None else []
                except _Unsuitable as reason:
                    reasons.append(f"{kernel.name}: line {line_of(node)}: {reason}")
        if not found:
            none = "no branch whose sides store to the same elements"
            return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or none)
        nodes = [branch.node for branch in found]
        plan = Plan(
            title="Take one path",
            bottleneck="loads stand behind a branch, so that they leave once its condition is "
            "known, which is loaded itself",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: every thread computes what the longer side stores, and "
            "the condition chooses between that and what the other side stores. Values that it "
            "does not choose may be NaN.",
            prediction=Prediction(*self.gain, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
        )
        return Proposal(plan, source.changed([e for b in found for e in _rewrite(source, b)]))


def _branch(kernel: Function, node: Node) -> _Branch | None:
    """A branch that can go; None for a condition that has no other side. Raises _Unsuitable."""
    above, alternative = node.parent, node.child_by_field_name("alternative")
    then = statements_of(field(node, "consequence"))
    if above is None or above.type != "compound_statement":
        return None
    if alternative is not None:
        inner = named(alternative)[0]
        sides = _side(then), _side(statements_of(inner))
        long_is_then = bool(sides[0].declarations)
        kept = field(node, "consequence") if long_is_then else inner
    elif above == kernel.body and len(then) > 1 and then[-1].type == "return_statement":
        after = [s for s in named(above) if s.start_byte >= node.end_byte]
        sides, kept = (_side(then[:-1]), _side(after)), None
    else:
        return None
    branch = _Branch(kernel, node, *sides, kept)
    _require_same_stores(branch)
    _require_no_effects(branch)
    _require_floats(branch)
    _require_elements(branch)
    return branch


def _side(statements: list[Node]) -> _Side:
    declarations = tuple(s for s in statements if s.type == "declaration")
    stores = [_store(s) for s in statements[len(declarations) :]]
    if not stores or any(s.type == "declaration" for s in statements[len(declarations) :]):
        raise _Unsuitable("a side does not end with stores")
    return _Side(declarations, tuple(stores))


def _store(statement: Node) -> _Store:
    if statement.type == "if_statement" and not statement.child_by_field_name("alternative"):
        inner = statements_of(field(statement, "consequence"))
        if len(inner) == 1 and inner[0].type == "expression_statement":
            return replaced(_store(inner[0]), guard=bare(field(statement, "condition")))
    if statement.type == "expression_statement" and named(statement):
        change = named(statement)[0]
        if change.type == "assignment_expression" and operator_of(change) == "=":
            target = field(change, "left")
            if target.type == "subscript_expression":
                return _Store(None, target, field(change, "right"))
    raise _Unsuitable("a side does more than declare and store")


def _require_same_stores(branch: _Branch) -> None:
    if branch.short.declarations or (branch.kept is None and branch.long is branch.then):
        raise _Unsuitable("both sides, or the one that returns, declare variables")
    pairs = list(zip(branch.then.stores, branch.other.stores, strict=False))
    if len(branch.then.stores) != len(branch.other.stores) or not all(_alike(*p) for p in pairs):
        raise _Unsuitable("its sides do not store to the same elements")


def _alike(one: _Store, other: _Store) -> bool:
    """Whether two stores go to the same element under the same condition."""
    if one.guard is None or other.guard is None:
        return one.guard is other.guard and same_code(one.target, other.target)
    return same_code(one.guard, other.guard) and same_code(one.target, other.target)


def _require_no_effects(branch: _Branch) -> None:
    nodes = [branch.condition, *branch.then.nodes, *branch.other.nodes]
    if not all(is_pure(n) and not written_names(n) for n in nodes):
        raise _Unsuitable("a side calls or changes something")
    names = [v.name for v in branch.kernel.locals]
    for declaration in branch.long.declarations:
        for variable in variables_of(declaration):
            if variable.value is None or not variable.is_scalar or variable.is_shared:
                raise _Unsuitable(f"{variable.name} is no value")
            if names.count(variable.name) > 1:
                raise _Unsuitable(f"{variable.name} is the name of another variable, too")


def _require_floats(branch: _Branch) -> None:
    """What floats decide keeps no thread from elements that are not there."""
    condition = branch.condition
    found = [branch.kernel.lookup(name, condition) for name in identifiers_in(condition)]
    types = {v.type.removeprefix("const ") for v in found if v is not None}
    if types != {"float"} or reads_memory(condition):
        raise _Unsuitable("its condition is not on floats alone")


def _require_elements(branch: _Branch) -> None:
    """Every load of the longer side is of an element of which the same number is stored anyway."""
    kernel = branch.kernel
    if any(unknown_accesses(n, kernel) for n in (*branch.then.nodes, *branch.other.nodes)):
        raise _Unsuitable("an access that cannot be followed")
    if any(reads_memory(n) for n in _without_targets(branch.short)):
        raise _Unsuitable("both sides load")
    loads = [a for n in _without_targets(branch.long) for a in accesses_in(n, kernel)]
    if not loads:
        raise _Unsuitable("no load waits behind it")
    stored = [
        element_of(kernel, _access(kernel, s)) for s in branch.short.stores if s.guard is None
    ]
    for load in loads:
        element = element_of(kernel, load)
        if element is None or element not in stored:
            raise _Unsuitable(f"{text_of(load.node)} may not be there where it is not loaded")


def _without_targets(side: _Side) -> list[Node]:
    targets = [s.target for s in side.stores]
    return [n for n in side.nodes if n not in targets]


def _access(kernel: Function, store: _Store) -> Access:
    return next(a for a in accesses_in(store.target, kernel) if a.is_store)


def _rewrite(source: KernelText, branch: _Branch) -> list[Edit]:
    edits = [
        put(long.value, _chosen(branch, *stores))
        for long, *stores in zip(
            branch.long.stores, branch.then.stores, branch.other.stores, strict=True
        )
    ]
    if branch.kept is None:
        return [remove_statement(source.data, branch.node), *edits]
    text = rewritten(source.data, branch.kept, edits)
    if branch.kept.type == "compound_statement":
        text = dedent(text[1:-1].strip("\n").rstrip())
    text = indented(text, indentation(source.data, branch.node)).lstrip()
    return [put(branch.node, text)]


def _chosen(branch: _Branch, then: _Store, other: _Store) -> str:
    """The value of one of two stores; what they store has one type, or is made the element's."""
    kernel = branch.kernel
    types = [type_of(s.value, kernel) for s in (then, other)]
    element = "" if types[0] and types[0] == types[1] else _access(kernel, then).element
    texts = [_operand(s.value, element) for s in (then, other)]
    return f"{text_of(branch.condition)} ? {texts[0]} : {texts[1]}"


def _operand(value: Node, element: str) -> str:
    text = text_of(value)
    if element:
        return f"({element})({text})"
    return f"({text})" if value.type == "conditional_expression" else text
