"""Spares a block its second barrier, where one warp reduces what all warps have left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable, is_written
from astra_tui.cuda_source.indices import THREAD
from astra_tui.cuda_source.polynomial import constant
from astra_tui.cuda_source.syntax import (
    bare,
    contains,
    field,
    is_barrier,
    line_of,
    operator_of,
    statements_of,
    subscript_of,
)
from astra_tui.model.occupancy import WARP
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, indentation, remove_statement, replace
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import multiple_of_warp
from astra_tui.playbook.reductions import Lanes, is_butterfly


class _Unsuitable(Exception):
    """Why a block meets twice."""


@dataclass(frozen=True)
class _Second:
    """`array[warp] = value`, a barrier, and what the first warp does for the block."""

    guard: Node
    """It reads a value a warp, reduces by shuffles, and stores the result in the first place."""
    last: Node
    """That store."""
    barrier: Node
    value: Variable
    reads: tuple[Node, ...]
    """Where the result is read."""


class OneBarrier:
    """Every warp reduces for itself, so that none waits for the first one's result."""

    name = "one_barrier"
    summary = "every warp reduces the warps' values, and the block meets once"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show how long a block waits"
    gain = (0.99, 1.04)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every such reduction at the outermost level of a kernel."""
        found: list[_Second] = []
        reasons: list[str] = []
        for kernel in source.kernels:
            try:
                found += _seconds(source, kernel)
            except _Unsuitable as reason:
                reasons.append(f"{kernel.name}: {reason}")
        if not found:
            why = "; ".join(reasons) or "no block meets again for what its first warp reduces"
            return NotApplicable(self.name, why)
        nodes = [second.guard for second in found]
        plan = Plan(
            title="Meet once",
            bottleneck="a block waits while its first warp reduces what the warps have left, and "
            "reads the result from shared memory",
            evidence=evidence_of(
                evidence.counters, nodes, Counter.BARRIERS, Counter.SHARED_REQUESTS
            ),
            change=f"{lines_text(nodes)}: every warp does it for itself and has the result in "
            f"registers, the same to the last bit. {lines_text([s.barrier for s in found])}: no "
            "barrier. Each warp takes a few instructions more.",
            prediction=Prediction(*self.gain, Counter.BARRIERS, 0.5),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
        )
        edits = [e for second in found for e in _rewrite(source.data, second)]
        return Proposal(plan, source.changed(edits))


def _seconds(source: KernelText, kernel: Function) -> Iterator[_Second]:
    statements = [s for s in statements_of(kernel.body) if s.type != "preproc_call"]
    for store, first, guard, second in zip(
        statements, statements[1:], statements[2:], statements[3:], strict=False
    ):
        if is_barrier(first) and is_barrier(second) and _is_of_first_warp(guard, kernel):
            yield _read(source, kernel, store, guard, second)


def _read(source: KernelText, kernel: Function, store: Node, guard: Node, barrier: Node) -> _Second:
    where = f"line {line_of(guard)}"
    for launch in source.launches_of(kernel):
        if len(launch.block) != 1 or not multiple_of_warp(launch.block[0], source.plan):
            raise _Unsuitable(f"line {launch.place.line}: a block is not a whole number of warps")
    own = Lanes(kernel)
    body = [s for s in statements_of(field(guard, "consequence")) if s.type != "preproc_call"]
    stored = own.store_of(store, own.warp)
    last = own.store_of(body[-1], own.first) if body else None
    if stored is None or last != stored:
        raise _Unsuitable(f"{where}: no value a warp that becomes one in the first place")
    array, value = stored
    if len(body) != 3 or not own.is_filled(body[0], array, value):
        raise _Unsuitable(f"{where}: the first warp does more than to reduce one value a warp")
    if not is_butterfly(kernel, body[1], value):
        raise _Unsuitable(f"{where}: not every lane has the result of the shuffles")
    reads = []
    for use in kernel.uses(array):
        if contains(store, use) or contains(guard, use):
            continue
        read = use.parent
        parts = subscript_of(read) if read is not None else None
        late = use.start_byte > barrier.end_byte
        if read is None or parts is None or not late or not own.first(own.read(parts[1])):
            raise _Unsuitable(f"line {line_of(use)}: {array.name} serves for more than this")
        if is_written(read) or kernel.lookup(value.name, use) != value:
            raise _Unsuitable(f"line {line_of(use)}: the result is needed in its place")
        reads.append(read)
    if any(use.start_byte > barrier.end_byte for use in kernel.uses(value)):
        raise _Unsuitable(f"{where}: a warp's own {value.name} is used later")
    return _Second(guard, body[-1], barrier, value, tuple(reads))


def _is_of_first_warp(guard: Node, kernel: Function) -> bool:
    """Whether a statement is `if (warp == 0) {...}` or `if (threadIdx.x < 32) {...}`."""
    if guard.type != "if_statement" or guard.child_by_field_name("alternative") is not None:
        return False
    condition, own = bare(field(guard, "condition")), Lanes(kernel)
    if condition.type != "binary_expression":
        return False
    left, right = (own.read(field(condition, side)) for side in ("left", "right"))
    if operator_of(condition) == "<":
        return left == THREAD and right == constant(WARP)
    return operator_of(condition) == "==" and own.warp(left) and right == constant(0)


def _rewrite(data: bytes, second: _Second) -> list[Edit]:
    """The body of the guard without the guard and its last store, and no barrier behind it."""
    guard, indent = second.guard, indentation(data, second.guard)
    inside = field(guard, "consequence")
    start = inside.start_byte + 1
    kept = data[start : second.last.start_byte].decode().strip("\n").rstrip()
    lines = [line[2:] if line.startswith(indent + "  ") else line for line in kept.split("\n")]
    said = "// Every warp for itself, so that the block need not meet again."
    text = "\n".join([said, *lines]).lstrip()
    above = guard.prev_sibling
    begin = above.start_byte if above is not None and above.type == "comment" else guard.start_byte
    return [
        Edit(begin, guard.end_byte, text),
        remove_statement(data, second.barrier),
        *(replace(read, second.value.name) for read in second.reads),
    ]
