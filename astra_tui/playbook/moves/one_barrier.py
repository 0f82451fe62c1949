"""Spares a block its second barrier, where one warp reduces what all warps have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable, is_written
from astra_tui.cuda_source.indices import THREAD, Division, IndexReader, Polynomial
from astra_tui.cuda_source.polynomial import constant
from astra_tui.cuda_source.syntax import (
    arguments_of,
    bare,
    called_name,
    contains,
    field,
    identifiers_in,
    is_barrier,
    line_of,
    named,
    of_type,
    operator_of,
    statements_of,
    subscript_of,
    text_of,
)
from astra_tui.model.occupancy import WARP
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import Edit, indentation, remove_statement, replace
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import multiple_of_warp
from astra_tui.playbook.loops import halves, loops_of

_SHUFFLES = ("__shfl_xor_sync", "shfl_xor_sync")


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
    own = _Lanes(kernel)
    body = [s for s in statements_of(field(guard, "consequence")) if s.type != "preproc_call"]
    stored = own.store_of(store, own.warp)
    last = own.store_of(body[-1], own.first) if body else None
    if stored is None or last != stored:
        raise _Unsuitable(f"{where}: no value a warp that becomes one in the first place")
    array, value = stored
    if len(body) != 3 or not own.is_filled(body[0], array, value):
        raise _Unsuitable(f"{where}: the first warp does more than to reduce one value a warp")
    if not _is_butterfly(kernel, body[1], value):
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


class _Lanes:
    """Reads what a kernel says of warps and lanes."""

    def __init__(self, kernel: Function):
        self._kernel = kernel
        self._reader = IndexReader(kernel)

    def read(self, index: Node) -> Polynomial:
        """The polynomial of an index."""
        return self._reader.read(index)

    def _is(self, operator: str, index: Polynomial) -> bool:
        """Whether an index is a thread's warp ("/"), or its lane ("%")."""
        wanted = Division(operator, THREAD, constant(WARP))
        atoms = [self._reader.divisions.get(atom) for atom in index.atoms()]
        return atoms == [wanted] and len(index.terms) == 1 and set(index.terms.values()) == {1}

    def warp(self, index: Polynomial) -> bool:
        """Whether an index is a thread's warp."""
        return self._is("/", index)

    def first(self, index: Polynomial) -> bool:
        """Whether an index is that of the first place."""
        return index == constant(0)

    def store_of(
        self, statement: Node, is_place: Callable[[Polynomial], bool]
    ) -> tuple[Variable, Variable] | None:
        """The shared array and the local of `array[place] = local`, or by the first lane alone."""
        if statement.type == "if_statement" and self._is_first_lane(statement):
            inner = statements_of(field(statement, "consequence"))
            statement = inner[0] if len(inner) == 1 else statement
        change = _assignment(statement)
        target = subscript_of(field(change, "left")) if change is not None else None
        if change is None or target is None:
            return None
        if not is_place(self.read(target[1])):
            return None
        array = self._kernel.lookup(text_of(target[0]), target[0])
        right = bare(field(change, "right"))
        value = self._kernel.lookup(text_of(right), right) if right.type == "identifier" else None
        if array is None or value is None or not (array.is_array and array.is_shared):
            return None
        return (array, value) if value.is_scalar and value.type == array.type else None

    def _is_first_lane(self, guard: Node) -> bool:
        condition = bare(field(guard, "condition"))
        alone = guard.child_by_field_name("alternative") is None
        if condition.type != "binary_expression" or operator_of(condition) != "==" or not alone:
            return False
        left, right = (self.read(field(condition, side)) for side in ("left", "right"))
        return self._is("%", left) and right == constant(0)

    def is_filled(self, statement: Node, array: Variable, value: Variable) -> bool:
        """Whether it is `value = lane < warps ? array[lane] : number;`."""
        change = _assignment(statement)
        if change is None or text_of(field(change, "left")) != value.name:
            return False
        choice = bare(field(change, "right"))
        if choice.type != "conditional_expression":
            return False
        condition, taken = bare(field(choice, "condition")), bare(field(choice, "consequence"))
        parts = subscript_of(taken)
        if condition.type != "binary_expression" or operator_of(condition) != "<" or parts is None:
            return False
        lane, warps = (self.read(field(condition, side)) for side in ("left", "right"))
        of_thread = any("threadIdx" in self._reader.names_of.get(a, {a}) for a in warps.atoms())
        of_array = self._kernel.lookup(text_of(parts[0]), parts[0]) == array
        is_number = bare(field(choice, "alternative")).type == "number_literal"
        is_lane = self._is("%", lane) and self._is("%", self.read(parts[1]))
        return is_lane and of_array and is_number and not of_thread


def _assignment(statement: Node) -> Node | None:
    inner = named(statement)
    if statement.type != "expression_statement" or not inner:
        return None
    plain = inner[0].type == "assignment_expression" and operator_of(inner[0]) == "="
    return inner[0] if plain else None


def _is_of_first_warp(guard: Node, kernel: Function) -> bool:
    """Whether a statement is `if (warp == 0) {...}` or `if (threadIdx.x < 32) {...}`."""
    if guard.type != "if_statement" or guard.child_by_field_name("alternative") is not None:
        return False
    condition, own = bare(field(guard, "condition")), _Lanes(kernel)
    if condition.type != "binary_expression":
        return False
    left, right = (own.read(field(condition, side)) for side in ("left", "right"))
    if operator_of(condition) == "<":
        return left == THREAD and right == constant(WARP)
    return operator_of(condition) == "==" and own.warp(left) and right == constant(0)


def _is_butterfly(kernel: Function, statement: Node, value: Variable) -> bool:
    """Whether every lane combines a value with those of all others, as by `value += shuffle`."""
    loop = next((one for one in loops_of(kernel) if one.node == statement), None)
    if loop is None or not halves(loop) or len(loop.body) != 1:
        return False
    if loop.start_form(IndexReader(kernel)) != constant(WARP // 2):
        return False
    calls = list(of_type(loop.body[0], "call_expression"))
    changes = list(of_type(loop.body[0], "assignment_expression"))
    # A shuffle's fourth argument parts the warp.
    shuffles = [c for c in calls if called_name(c) in _SHUFFLES and len(arguments_of(c)) < 4]
    if len(shuffles) != 1 or len(changes) != 1:
        return False
    called = {name for c in calls for name in identifiers_in(field(c, "function"))}
    names = identifiers_in(loop.body[0]) - called
    return names == {value.name, loop.name} and text_of(field(changes[0], "left")) == value.name


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
