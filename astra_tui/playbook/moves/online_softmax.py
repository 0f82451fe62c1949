"""The largest element and the sum of exponentials below it in one pass over a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name, is_pure, written_names
from astra_tui.cuda_source.functions import Function, Variable, is_written
from astra_tui.cuda_source.indices import IndexReader
from astra_tui.cuda_source.syntax import (
    arguments_of,
    bare,
    called_name,
    contains,
    field,
    is_barrier,
    line_of,
    of_type,
    operator_of,
    same_code,
    text_of,
)
from astra_tui.cuda_source.types import is_float, type_of
from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.playbook.accesses import accesses_in, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import (
    indentation,
    indented,
    insert_after,
    insert_before,
    pragma_of,
    remove_statement,
)
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.grids import over_row
from astra_tui.playbook.invariance import assignment_to, plain_locals
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import Unsuitable
from astra_tui.playbook.loops import Loop, loops_of
from astra_tui.playbook.tolerance import tight_tolerance

_EXPONENTIALS = ("expf", "__expf", "exp")
_ZERO = re.compile(r"0?\.?0*[fF]?")
_LARGER = ("fmaxf", "max", "fmax")


@dataclass(frozen=True)
class _Passes:
    """Two loops over a row: one for the largest element, one for the sum of exponentials."""

    function: Function
    first: Loop
    update: Node
    """The statement by which the first loop keeps the largest."""
    element: Node
    largest: Variable
    second: Loop
    total: Variable
    exponential: str
    subtracted: Node
    """What the second loop subtracts from each element."""


class OnlineSoftmax:
    """A thread sums below its own largest element, and brings that to the row's at the end."""

    name = "online_softmax"
    summary = "largest element and sum of exponentials of a row in one pass in place of two"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (1.0, 1.5)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first kernel with two such loops."""
        tight = tight_tolerance(evidence.task)
        if tight:
            return NotApplicable(self.name, tight)
        reasons: list[str] = []
        for kernel in source.kernels:
            try:
                found = _find(source, kernel)
            except Unsuitable as reason:
                reasons.append(f"{kernel.name}: {reason}")
                continue
            return _proposal(source, evidence, found)
        return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")


def _proposal(source: KernelText, evidence: Evidence, found: _Passes) -> Proposal:
    loops = [found.first.node, found.second.node]
    loads = [a.node for s in found.second.body for a in accesses_in(s, found.function)]
    part = share(evidence.counters, Counter.SECTORS, loads)
    plan = Plan(
        title="Sum exponentials while the largest is found",
        bottleneck="the row is read once for its largest element and again for the sum",
        evidence=evidence_of(evidence.counters, loads, Counter.SECTORS, Counter.REQUESTS),
        change=f"{lines_text(loops)}: the first loop sums exponentials below the largest element "
        "that its thread has seen, and scales the sum whenever there is a larger one. The second "
        "loop becomes one product, which brings the sum to what it subtracts. Rounding differs.",
        prediction=predicted(Counter.SECTORS, part, 0.0, (1.05, 1.5), 0.3),
        risk=Risk.MEDIUM,
        places=places_of(loops),
        move=OnlineSoftmax.name,
    )
    return Proposal(plan, _rewrite(source, found))


def _find(source: KernelText, function: Function) -> _Passes:
    launches = list(source.launches_of(function))
    rows = [loop for loop in loops_of(function) if over_row(loop, function, launches)]
    reasons = ["no two loops over a row"] if len(rows) < 2 else []
    for number, first in enumerate(rows):
        kept = _largest_of(first, function)
        if kept is None:
            reasons.append(f"line {line_of(first.node)}: it does not look for the largest alone")
            continue
        for second in rows[number + 1 :]:
            found = _sum_of(second, function)
            if found is None:
                reasons.append(f"line {line_of(second.node)}: it does not sum exponentials alone")
                continue
            passes = _Passes(function, first, *kept, second, *found[:3])
            problem = _problem(passes, found[3])
            if not problem:
                return passes
            reasons.append(problem)
    raise Unsuitable("; ".join(dict.fromkeys(reasons)))


def _single_update(loop: Loop) -> Node | None:
    """The only statement of a loop that declares nothing, where all others declare pure values."""
    others = [s for s in loop.body if not _is_declaration(s)]
    return others[0] if len(others) == 1 and not loop.has_jump() else None


def _is_declaration(statement: Node) -> bool:
    declared = plain_locals(statement)
    return declared is not None and all(v.value is None or is_pure(v.value) for v in declared)


def _largest_of(loop: Loop, function: Function) -> tuple[Node, Node, Variable] | None:
    """`m = fmaxf(m, x)` or `if (x > m) m = x`: the statement, the element, and m."""
    update = _single_update(loop)
    assigned = assignment_to(update) if update is not None else None
    if update is None or assigned is None:
        return None
    name, values = assigned
    element = _kept(name, values, update)
    largest = function.lookup(name, update)
    if element is None or largest is None or not _is_outer_float(largest, loop):
        return None
    return update, element, largest


def _kept(name: str, values: list[Node], update: Node) -> Node | None:
    if update.type == "if_statement":
        condition = bare(field(update, "condition"))
        (change,) = list(of_type(field(update, "consequence"), "assignment_expression"))
        if condition.type != "binary_expression" or operator_of(change) != "=":
            return None
        sides = {"<": ("right", "left"), ">": ("left", "right")}.get(operator_of(condition))
        if sides is None:
            return None
        more, less = (bare(field(condition, side)) for side in sides)
        new = field(change, "right")
        return new if text_of(less) == name and same_code(more, bare(new)) else None
    (change,) = list(of_type(update, "assignment_expression"))[:1]
    call = bare(values[-1])
    if operator_of(change) != "=" or call.type != "call_expression":
        return None
    given = arguments_of(call)
    others = [a for a in given if text_of(bare(a)) != name]
    is_larger = called_name(call) in _LARGER and len(given) == 2
    return others[0] if is_larger and len(others) == 1 else None


def _is_outer_float(variable: Variable, loop: Loop) -> bool:
    outside = not contains(loop.node, variable.declaration)
    return outside and variable.is_scalar and not variable.is_shared and variable.type == "float"


def _sum_of(loop: Loop, function: Function) -> tuple[Variable, str, Node, Node] | None:
    """`s += expf(x - m)`: s, the function, m, and x."""
    update = _single_update(loop)
    if update is None or update.type != "expression_statement" or not update.named_children:
        return None
    change = update.named_children[0]
    if change.type != "assignment_expression" or operator_of(change) != "+=":
        return None
    total = function.lookup(text_of(field(change, "left")), update)
    call = _meant(field(change, "right"), loop, function)
    if call.type != "call_expression" or called_name(call) not in _EXPONENTIALS:
        return None
    if total is None or not _is_outer_float(total, loop):
        return None
    (argument, *more) = arguments_of(call)
    below = _meant(argument, loop, function)
    if more or below.type != "binary_expression" or operator_of(below) != "-":
        return None
    subtracted = bare(field(below, "right"))
    if subtracted.type != "identifier" or not is_float(argument, function):
        return None
    return total, called_name(call), subtracted, field(below, "left")


def _meant(node: Node, loop: Loop, function: Function) -> Node:
    """An expression, or what a local of the loop stands for."""
    node = bare(node)
    variable = function.lookup(text_of(node), node) if node.type == "identifier" else None
    if variable is None or variable.value is None or not contains(loop.node, variable.declaration):
        return node
    return _meant(variable.value, loop, function) if function.is_constant(variable) else node


def _problem(found: _Passes, element: Node) -> str:
    """Why two loops stay two, "" where they can be one."""
    function, first, second = found.function, found.first, found.second
    reader, where = IndexReader(function), f"line {line_of(second.node)}"
    if first.node.parent != second.node.parent:
        return f"{where}: the loops stand in different blocks"
    if reader.read(first.bound) != reader.read(second.bound):
        return f"{where}: the loops run to different bounds"
    if type_of(found.element, function) != "float":
        return f"line {line_of(found.element)}: the elements are no float"
    if _spelled(found.element, first, function) != _spelled(element, second, function):
        return f"{where}: it sums other elements than the first loop compares"
    if any(is_barrier(s) for loop in (first, second) for s in loop.body):
        return f"{where}: a barrier in a loop"
    changed = _changed_between(found)
    if changed:
        return f"{where}: {changed} changes between the loops"
    total = found.total
    earlier = (use for use in function.uses(total) if use.start_byte < second.start_byte)
    begins = total.value is not None and _ZERO.fullmatch(text_of(total.value))
    together = total.declaration.parent == second.node.parent
    if not begins or not together or any(is_written(use) for use in earlier):
        return f"{where}: {found.total.name} does not begin at zero"
    return ""


def _changed_between(found: _Passes) -> str:
    """A name or buffer of the elements that may change from the one loop to the other."""
    function, first, second = found.function, found.first, found.second
    between = [
        s for s in field(function.node, "body").named_children
        if first.start_byte <= s.start_byte and s.end_byte <= second.node.end_byte
    ] if first.node.parent == function.body else [function.body]  # fmt: skip
    stores = [
        a for s in between for a in accesses_in(s, function) if a.is_store and not a.root.is_shared
    ]
    unknown = [n for s in between for n in unknown_accesses(s, function)]
    if stores or unknown:
        return f"memory (line {line_of((unknown or [s.node for s in stores])[0])})"
    written = set().union(*(written_names(s) for s in between))
    for name in _outer_names(found.element, first, function):
        if name in written - {first.name}:
            return name
    return ""


def _outer_names(node: Node, loop: Loop, function: Function) -> Iterator[str]:
    for identifier in of_type(node, "identifier"):
        meant = _meant(identifier, loop, function)
        if meant == identifier:
            yield text_of(identifier)
        else:
            yield from _outer_names(meant, loop, function)


def _spelled(node: Node, loop: Loop, function: Function) -> str:
    """An expression with its loop's locals written out, and the loop's variable under one name."""
    node = bare(node)
    if node.type == "identifier":
        if text_of(node) == loop.name:
            return "#"
        meant = _meant(node, loop, function)
        return text_of(node) if meant == node else _spelled(meant, loop, function)
    if not node.children:
        return text_of(node)
    parts = (_spelled(c, loop, function) if c.is_named else text_of(c) for c in node.children)
    return f"({' '.join(parts)})"


def _rewrite(source: KernelText, found: _Passes) -> str:
    taken = source.names()
    total, largest = found.total.name, found.largest.name
    own, element, seen = (
        fresh_name(name, taken) for name in (f"{total}_below", "element", f"{largest}_seen")
    )
    exp, subtracted = found.exponential, text_of(found.subtracted)
    kept = [
        f"const float {element} = {text_of(found.element)};",
        f"if ({element} > {largest}) {{",
        f"  {own} = {own} * {exp}({largest} - {element}) + 1.0f;",
        f"  {largest} = {element};",
        "} else {",
        f"  {own} += {element} == {largest} ? 1.0f : {exp}({element} - {largest});",
        "}",
    ]
    at = found.update
    if found.update == field(found.first.node, "body"):
        at, kept = found.first.node, ["{", *(f"  {line}" for line in kept), "}"]
    scaled = f"{total} = {own} == 0.0f ? 0.0f : {own} * {exp}({seen} - {subtracted});"
    first, second = found.first, found.second
    edits = [
        insert_before(source.data, first.node, [f"float {own} = 0.0f;"]),
        put(found.update, indented("\n".join(kept), indentation(source.data, at)).lstrip()),
        insert_after(source.data, first.node, [f"const float {seen} = {largest};"]),
        put(second.node, scaled),
    ]
    gone = (second.declaration, pragma_of(second.node))
    edits += [remove_statement(source.data, node) for node in gone if node is not None]
    return source.changed(edits)
