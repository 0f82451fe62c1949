"""Lets the first warp reduce what all warps have left, where every warp did so for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.syntax import (
    arguments_of,
    bare,
    called_name,
    contains,
    field,
    is_barrier,
    line_of,
    named,
    statements_of,
    text_of,
)
from astra_tui.model.occupancy import WARP
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, dedented, indentation, indented, indented_lines
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import multiple_of_warp
from astra_tui.playbook.reductions import Lanes, assignment, is_butterfly


class _Unsuitable(Exception):
    """Why every warp reduces."""


@dataclass(frozen=True)
class _Reduction:
    """`value = lane < warps ? array[lane] : number;` behind a barrier, and what reduces it."""

    fill: Node
    last: Node
    """Shuffles of the value in a loop, or `return f(value);` with a function that has these."""
    array: Variable
    value: Variable
    result: str
    """The reduced value, as an expression of the first warp."""


class FirstWarp:
    """The first warp alone reduces what the warps have left, and the block meets again."""

    name = "first_warp"
    summary = "the first warp alone reduces the warps' values, and the block meets twice"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show how long a block waits"
    gain = (0.95, 1.06)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every such reduction at the outermost level of a kernel, or of a function it calls."""
        found: list[_Reduction] = []
        reasons: list[str] = []
        for function in source.functions:
            try:
                found += _reductions(source, function)
            except _Unsuitable as reason:
                reasons.append(f"{function.name}: {reason}")
        if not found:
            why = "; ".join(reasons) or "no block in which every warp reduces a value a warp"
            return NotApplicable(self.name, why)
        nodes = [reduction.fill for reduction in found]
        plan = Plan(
            title="Reduce in the first warp alone",
            bottleneck="every warp spends instructions on the same few values, where more blocks "
            "wait than run at once",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: the first warp does it for the block, and leaves the "
            "result in shared memory, the same to the last bit. Each block meets once more.",
            prediction=Prediction(*self.gain, Counter.WARP_INSTRUCTIONS, 0.95),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
        )
        return Proposal(plan, source.changed([_rewrite(source.data, one) for one in found]))


def _reductions(source: KernelText, function: Function) -> Iterator[_Reduction]:
    statements = [s for s in statements_of(function.body) if s.type != "preproc_call"]
    own = Lanes(function)
    for store, barrier, fill, last in zip(
        statements, statements[1:], statements[2:], statements[3:], strict=False
    ):
        stored = own.store_of(store, own.warp) if is_barrier(barrier) else None
        change = assignment(fill)
        left = bare(field(change, "left")) if change is not None else None
        value = function.lookup(text_of(left), fill) if left is not None else None
        if stored is None or value is None or not own.is_filled(fill, stored[0], value):
            continue
        yield _read(source, function, (store, fill, last), stored[0], value)


def _read(
    source: KernelText,
    function: Function,
    parts: tuple[Node, Node, Node],
    array: Variable,
    value: Variable,
) -> _Reduction:
    store, fill, last = parts
    where = f"line {line_of(fill)}"
    callers = source.callers(function)
    for launch in (launch for kernel in callers for launch in source.launches_of(kernel)):
        if len(launch.block) != 1 or not multiple_of_warp(launch.block[0], source.plan):
            raise _Unsuitable(f"line {launch.place.line}: a block is not a whole number of warps")
    if value.type != array.type:
        raise _Unsuitable(f"{where}: {value.name} has another type than {array.name}")
    for use in function.uses(array):
        if not contains(store, use) and not contains(fill, use):
            raise _Unsuitable(f"line {line_of(use)}: {array.name} serves for more than this")
    if is_butterfly(function, last, value):
        return _Reduction(fill, last, array, value, value.name)
    if _returns_reduced(source, last, value):
        return _Reduction(fill, last, array, value, text_of(named(last)[0]))
    raise _Unsuitable(f"{where}: not every lane has the result of the shuffles")


def _returns_reduced(source: KernelText, statement: Node, value: Variable) -> bool:
    """Whether it is `return f(value);` with a function of the source that shuffles by xor."""
    call = next(iter(named(statement)), None) if statement.type == "return_statement" else None
    if call is None or call.type != "call_expression":
        return False
    if [text_of(a) for a in arguments_of(call)] != [value.name]:
        return False
    called = [f for f in source.functions if f.name == called_name(call)]
    return len(called) == 1 and _is_warp_reduction(called[0])


def _is_warp_reduction(function: Function) -> bool:
    """Whether a function of one value combines it with those of all lanes, and returns that."""
    statements = [s for s in statements_of(function.body) if s.type != "preproc_call"]
    if len(function.parameters) != 1 or len(statements) != 2:
        return False
    value, (loop, last) = function.parameters[0], statements
    returned = last.type == "return_statement" and [text_of(n) for n in named(last)]
    return returned == [value.name] and is_butterfly(function, loop, value)


def _rewrite(data: bytes, found: _Reduction) -> Edit:
    """What reduces stands in a condition, and every thread reads the result behind a barrier."""
    fill, last, first = found.fill, found.last, f"{found.array.name}[0]"
    is_loop = last.type != "return_statement"
    inside = data[fill.start_byte : (last if is_loop else fill).end_byte].decode()
    lines = [
        "// The first warp alone: what the others would do for themselves are more instructions.",
        f"if (threadIdx.x < {WARP}) {{",
        indented_lines([dedented(data, fill, inside), f"{first} = {found.result};"]),
        "}",
        "__syncthreads();",
        f"{found.value.name} = {first};" if is_loop else f"return {first};",
    ]
    text = indented("\n".join(lines), indentation(data, fill))
    above = fill.prev_sibling
    begin = above.start_byte if above is not None and _is_said(above) else fill.start_byte
    return Edit(begin, last.end_byte, text.lstrip())


def _is_said(node: Node) -> bool:
    """Whether a comment says what does not hold any more."""
    return node.type == "comment" and "very warp for itself" in text_of(node)
