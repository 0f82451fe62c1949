"""Keeps what several inputs make, in place of the inputs, where loops compute it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import (
    BUILTIN_OBJECTS,
    PURE_FUNCTIONS,
    fresh_name,
    is_pure,
    written_names,
)
from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.syntax import (
    ancestors,
    contains,
    field,
    identifiers_in,
    of_type,
    statements_of,
    text_of,
)
from astra_tui.cuda_source.types import is_float
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.accesses import accesses_in
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import (
    Edit,
    insert_after,
    insert_before,
    pragma_of,
    remove_statement,
    replace,
    rewritten,
)
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.invariance import plain_locals
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import is_left_over
from astra_tui.playbook.loops import Loop, loops_of
from astra_tui.playbook.turns import fixed_loops


@dataclass(frozen=True)
class _Value:
    """A float that a lane of a turn computes from arrays of the thread."""

    variable: Variable
    turn: Loop
    lane: Loop
    value: Node


@dataclass(frozen=True)
class _Shared:
    """The same value, computed at several places."""

    kernel: Function
    first: _Value
    later: tuple[_Value, ...]


class KeepValues:
    """Computed once, and kept in the registers of what it was computed from."""

    name = "keep_values"
    summary = "what several kept inputs make is kept in their place, and not computed again"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: it costs no memory access, and registers decide"
    gain = (0.97, 1.1)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every float of two kept packs or more that loops with the same turns compute again."""
        found = _shared_values(source)
        if not found:
            return NotApplicable(self.name, "no value of several kept inputs is computed again")
        nodes = [v.value for shared in found for v in shared.later]
        plan = Plan(
            title="Keep values in place of inputs",
            bottleneck="loops compute a value again from inputs that registers keep",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: taken from registers that the first loop fills, in place "
            "of its inputs, which are not needed after that.",
            prediction=Prediction(*self.gain, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
        )
        return Proposal(plan, _rewritten(source, found))


def with_kept_values(text: str, before: KernelText) -> str:
    """A changed source whose new kernels keep values in place of inputs."""
    source = KernelText.read(text)
    old = {kernel.name for kernel in before.kernels}
    found = [shared for shared in _shared_values(source) if shared.kernel.name not in old]
    return _rewritten(source, found) if found else text


def _shared_values(source: KernelText) -> list[_Shared]:
    found = []
    for kernel in (k for k in source.kernels if not is_left_over(source, k)):
        by_form: dict[str, list[_Value]] = {}
        for value in _values(kernel):
            form = _form_of(source, kernel, value)
            if form:
                by_form.setdefault(form, []).append(value)
        found += [_Shared(kernel, v[0], tuple(v[1:])) for v in by_form.values() if len(v) > 1]
    return found


def _values(kernel: Function) -> Iterator[_Value]:
    """The floats that unrolled loops over lanes declare, in the order of the text."""
    lanes = [loop for loop in loops_of(kernel) if loop.counts_up() and _is_unrolled(loop)]
    for turn in filter(_is_unrolled, fixed_loops(kernel)):
        for lane in (x for x in lanes if x.node != turn.node and contains(turn.node, x.node)):
            for statement in lane.body:
                for variable in plain_locals(statement) or ():
                    if variable.value is not None and is_float(variable.value, kernel):
                        yield _Value(variable, turn, lane, variable.value)


def _is_unrolled(loop: Loop) -> bool:
    pragma = pragma_of(loop.node)
    return pragma is not None and text_of(pragma).split()[1:] == ["unroll"]


def _form_of(source: KernelText, kernel: Function, value: _Value) -> str:
    """What is computed, for which lanes and under which conditions, whatever locals are called; ""
    for what cannot be kept, or has fewer than two inputs that are.
    """
    guards = _guards(value)
    if guards is None or text_of(value.turn.start) != "0" or value.lane.step is not None:
        return ""
    if any(v.is_reference for v in kernel.locals):
        return ""
    arrays: set[str] = set()
    whole = (value.value, value.lane.bound, value.lane.start, value.turn.bound, *guards)
    parts = [_written_out(source, kernel, value, node, arrays) for node in whole]
    if "" in parts or len(arrays) < 2 or not all(_is_filled(kernel, value, a) for a in arrays):
        return ""
    return "; ".join(parts)


def _guards(value: _Value) -> list[Node] | None:
    """The conditions within a turn that hold where the lanes compute; None where something else
    decides.
    """
    found: list[Node] = []
    for above, below in ancestors(value.lane.node):
        if above == value.turn.node:
            return found
        if above.type == "if_statement" and below == field(above, "consequence"):
            found.append(field(above, "condition"))
        elif above.type != "compound_statement":
            return None
    return None


def _written_out(
    source: KernelText, kernel: Function, value: _Value, node: Node, arrays: set[str]
) -> str:
    """An expression with locals of the turn replaced by what they stand for; "" where it may have
    another value later. Notes the arrays of the thread that it reads.
    """
    edits = []
    for use in of_type(node, "identifier"):
        text = _stands_for(source, kernel, value, use, arrays)
        if not text:
            return ""
        edits.append(replace(use, text))
    return " ".join(rewritten(source.data, node, edits).split()) if is_pure(node) else ""


def _stands_for(
    source: KernelText, kernel: Function, value: _Value, use: Node, arrays: set[str]
) -> str:
    name, variable = text_of(use), kernel.lookup(text_of(use), use)
    if any(name in identifiers_in(a) for a in of_type(kernel.body, "gnu_asm_expression")):
        return ""
    if variable is None:
        known = {*BUILTIN_OBJECTS, *PURE_FUNCTIONS, *(name for _, name, _ in kernel.template)}
        return name if name in known else ""
    if variable in (value.turn.variable, value.lane.variable):
        return "(turn)" if variable == value.turn.variable else "(lane)"
    if variable.is_array and not variable.is_shared:
        arrays.add(name)
        return name
    if not variable.is_scalar or variable.is_shared or not kernel.is_constant(variable):
        return ""
    if not contains(value.turn.node, variable.declaration):
        return name
    if variable.value is None:
        return ""
    text = _written_out(source, kernel, value, variable.value, arrays)
    return f"({text})" if text else ""


def _is_filled(kernel: Function, value: _Value, array: str) -> bool:
    """Whether an array of the thread has all that it ever gets before a value is computed."""
    variable = kernel.lookup(array, value.value)
    assert variable is not None
    stores = [a for a in accesses_in(kernel.body, kernel) if a.is_store and a.root == variable]
    known = all(map(_is_element, kernel.uses(variable)))
    return known and all(a.node.end_byte < value.variable.declaration.start_byte for a in stores)


def _is_element(array: Node) -> bool:
    """Whether an array is named for one of its elements, and the element's address is not taken."""
    element = array.parent
    if element is None or element.type != "subscript_expression":
        return False
    above = element.parent
    while above is not None and above.type in ("field_expression", "subscript_expression"):
        above = above.parent
    return above is None or above.type != "pointer_expression"


def _rewritten(source: KernelText, found: Sequence[_Shared]) -> str:
    taken = source.names()
    return source.changed([edit for shared in found for edit in _edits(source, shared, taken)])


def _edits(source: KernelText, shared: _Shared, taken: set[str]) -> Iterator[Edit]:
    first = shared.first
    name = fresh_name(f"{first.variable.name}_kept", taken)
    sizes = f"[{text_of(first.turn.bound)}][{text_of(first.lane.bound)}]"
    statements = statements_of(shared.kernel.body)
    whole = next(s for s in statements if contains(s, first.turn.node))
    yield insert_before(source.data, whole, [f"float {name}{sizes};"])
    kept = f"{name}[{first.turn.name}][{first.lane.name}] = {first.variable.name};"
    yield insert_after(source.data, first.variable.declaration, [kept])
    for value in shared.later:
        yield replace(value.value, f"{name}[{value.turn.name}][{value.lane.name}]")
    for declaration in _left_without_use(shared):
        yield remove_statement(source.data, declaration)


def _left_without_use(shared: _Shared) -> Iterator[Node]:
    """Declarations of which nothing is used any more."""
    kernel, values = shared.kernel, [v.value for v in shared.later]
    for variable in kernel.locals:
        uses = kernel.uses(variable)
        gone = [u for u in uses if any(contains(v, u) for v in values)]
        is_plain = plain_locals(variable.declaration) is not None and variable.value is not None
        if gone and gone == uses and is_plain and not written_names(variable.declaration):
            yield variable.declaration
