"""Divides a thread's flat index by a product and a shift whose numbers the launch plan computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import GLOBAL_THREAD, IndexReader
from astra_tui.cuda_source.syntax import field, integer_of, line_of, of_type, operator_of
from astra_tui.model.launch import Launch
from astra_tui.model.launch.expression import Binary, Call, Expression, Integer
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.division import Divisor
from astra_tui.playbook.edits import Edit, rewritten
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText, with_parameters
from astra_tui.playbook.launching import (
    Unsuitable,
    all_of,
    first_suitable,
    plan_value,
    with_branch,
)


@dataclass(frozen=True)
class _Divided:
    """A launch, the divisions of its kernel's flat index, and the size they divide by."""

    kernel: Function
    launch: Launch
    nodes: tuple[Node, ...]
    size: Expression


class CheapDivision:
    """A division of 64 bits is a hundred instructions, one after the other, before any load."""

    name = "cheap_division"
    summary = "a product and a shift in place of a division of a thread's flat index"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: a division is one PTX instruction and many of the GPU"
    gain = (1.0, 1.05)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first launch whose kernel divides its flat index by a size."""
        found = first_suitable(source, self.name, _read)
        if isinstance(found, NotApplicable):
            return found
        return self._proposal(source, evidence, found)

    def _proposal(self, source: KernelText, evidence: Evidence, found: _Divided) -> Proposal:
        plan = Plan(
            title="Divide by a product and a shift",
            bottleneck="each thread divides its flat index by a size that is the same for all, and "
            "needs the result before it can ask memory for anything",
            evidence=evidence_of(evidence.counters, found.nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(found.nodes)}: the quotient is a product and a shift of numbers "
            "that the launch plan computes; the remainder follows from it. Launches of more than "
            "2^27 threads keep the old kernel.",
            prediction=Prediction(*self.gain, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.MEDIUM,
            places=places_of(found.nodes),
            move=self.name,
        )
        return Proposal(plan, _rewrite(source, found))


def _read(kernel: Function, launch: Launch) -> _Divided:
    nodes = tuple(_divisions(kernel))
    if not nodes:
        raise Unsuitable("no division of a thread's flat index")
    sizes = {plan_value(field(n, "right"), kernel, launch) for n in nodes}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None or isinstance(size, Integer):
        raise Unsuitable(f"line {line_of(nodes[0])}: the plan cannot say what it divides by")
    if len(launch.grid) != 1 or len(launch.block) != 1:
        raise Unsuitable(f"line {launch.place.line}: the launch is not one row of blocks")
    return _Divided(kernel, launch, nodes, size)


def _divisions(kernel: Function) -> Iterator[Node]:
    reader = IndexReader(kernel)
    for node in of_type(kernel.body, "binary_expression"):
        if operator_of(node) not in ("/", "%") or integer_of(field(node, "right")) is not None:
            continue
        if reader.read(field(node, "left")) == GLOBAL_THREAD:
            yield node


def _elements(launch: Launch) -> Expression:
    """What the blocks of a launch share out; threads past it have other numbers at will."""
    match launch.grid[0]:
        case Call(function="ceil_div", args=(elements, threads)) if threads == launch.block[0]:
            return elements
    return Binary("*", launch.grid[0], launch.block[0])


def _rewrite(source: KernelText, found: _Divided) -> str:
    taken = source.names()
    kernel, launch = found.kernel, found.launch
    name = fresh_name(f"{kernel.name}_divided", taken)
    flat, quotient = (fresh_name(n, taken) for n in ("flat", "quotient"))
    divisor = Divisor.of(found.size, "across", taken)
    new = replace(launch, kernel=name, args=(*launch.args, *divisor.args))
    conditions = divisor.conditions(_elements(launch))
    plan = with_branch(source.plan, launch, new, all_of(conditions), divisor.lets)
    lines = [
        f"const unsigned {flat} = blockIdx.x * blockDim.x + threadIdx.x;",
        f"const unsigned {quotient} = {divisor.quotient(flat)};",
    ]
    begin, end = kernel.body.start_byte + 1, kernel.outer.end_byte
    remainder = f"({flat} - {quotient} * {divisor.size.name})"
    edits = [
        *with_parameters(kernel, name, divisor.parameters),
        Edit(begin, begin, "".join(f"\n  {line}" for line in lines)),
        *(put(n, quotient if operator_of(n) == "/" else remainder) for n in found.nodes),
    ]
    text = rewritten(source.data, kernel.outer, edits)
    return source.changed([Edit(end, end, f"\n\n{text}")], plan)
