"""Takes away a loop for what is left of a row where an earlier loop has left nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import PURE_FUNCTIONS, stores_in, written_names
from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.indices import (
    BLOCK_THREADS,
    GLOBAL_THREAD,
    GRID_THREADS,
    THREAD,
    IndexReader,
)
from astra_tui.cuda_source.polynomial import Polynomial, constant, of_atom
from astra_tui.cuda_source.syntax import (
    called_name,
    cast_of,
    contains,
    descendants,
    is_barrier,
    last_line_of,
    line_of,
    of_type,
    statements_of,
    text_of,
)
from astra_tui.model.launch import Dispatch, Launch, LaunchPlan
from astra_tui.model.launch.expression import Expression, Integer, conjuncts
from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.model.traffic import WastedTraffic, WasteKind
from astra_tui.playbook.accesses import Access, accesses_in, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import remove_statement
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import divisible, plan_value
from astra_tui.playbook.loops import Loop, loops_of

_SHARED_OUT = ((THREAD, BLOCK_THREADS), (GLOBAL_THREAD, GRID_THREADS))
"""Start and step of a loop whose iterations threads share out between them."""

_MOVING = frozenset((THREAD + BLOCK_THREADS).atoms())


class _Needed(Exception):
    """Why a loop stays."""


@dataclass(frozen=True)
class _Tail:
    """A loop, and the one before it that has done its work; `waste` are what was counted."""

    kernel: Function
    loop: Loop
    first: Loop
    waste: tuple[WastedTraffic, ...]


class DropTail:
    """A loop over packs reaches the end of a row, and a loop over single elements does it again."""

    name = "drop_tail"
    summary = "no loop for the rest of a row where the loop over packs leaves no rest"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (1.03, 1.19)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """The first loop of which every store was counted to waste one of a loop before it."""
        if evidence.counters is None:
            return NotApplicable(self.name, "needs counters: they show what is stored again")
        reasons: list[str] = []
        for tail in _tails(source, evidence):
            try:
                _check(source, evidence, tail)
            except _Needed as reason:
                reasons.append(f"{tail.kernel.name}: {reason}")
                continue
            return self._proposal(source, evidence, tail)
        why = "no loop stores what an earlier loop of its kernel has stored"
        return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or why)

    def _proposal(self, source: KernelText, evidence: Evidence, tail: _Tail) -> Proposal:
        part = share(evidence.counters, Counter.SECTORS, [tail.loop.node])
        line, first = line_of(tail.loop.node), line_of(tail.first.node)
        plan = Plan(
            title="No second pass over the end of a row",
            bottleneck=f"the loop at line {line} loads and stores elements that the loop at line "
            f"{first} has done already",
            evidence=(
                *(r.describe() for r in tail.waste),
                *evidence_of(evidence.counters, [tail.loop.node], Counter.SECTORS),
            ),
            change=f"{lines_text([tail.loop.node])}: the loop goes. Rows are whole packs where "
            f"this kernel is launched, and the loop at line {first} runs to their end.",
            prediction=predicted(
                Counter.SECTORS, part, 0.0, (1.0, round(1 / (1 - min(part or 0.0, 0.5)), 2))
            ),
            risk=Risk.LOW,
            places=places_of([tail.first.node, tail.loop.node]),
            move=self.name,
        )
        edits = [remove_statement(source.data, n) for n in _useless_without(tail)]
        return Proposal(plan, source.changed(edits))


def _tails(source: KernelText, evidence: Evidence) -> Iterator[_Tail]:
    """Loops that store what a loop before them in the same block of code has stored."""
    waste = [
        r for r in evidence.wasted
        if r.waste.kind is WasteKind.STORED_AGAIN
        and r.waste.launch == r.waste.earlier_launch
        and not r.waste.other_block
    ]  # fmt: skip
    for kernel in source.kernels:
        loops = list(loops_of(kernel))
        for number_, loop in enumerate(loops):
            for first in loops[:number_]:
                found = tuple(
                    r for r in waste
                    if _holds(loop, r.waste.line) and _holds(first, r.waste.earlier_line)
                )  # fmt: skip
                if found and first.node.parent == loop.node.parent:
                    yield _Tail(kernel, loop, first, found)


def _holds(loop: Loop, line: int) -> bool:
    return line_of(loop.node) <= line <= last_line_of(loop.node)


def _check(source: KernelText, evidence: Evidence, tail: _Tail) -> None:
    """Raises _Needed unless the loop can go, on all sizes that its launches take."""
    _check_counts(evidence, tail)
    _check_effects(source, tail)
    length, width = _reach(tail)
    _check_range(tail, length)
    for launch in source.launches_of(tail.kernel):
        if not _is_whole(source.plan, evidence, tail.kernel, launch, length, width):
            raise _Needed(
                f"line {line_of(tail.loop.node)}: rows of other lengths need it: nothing makes "
                f"{length.text()} a multiple of {width.text()} at line {launch.place.line}"
            )


def _check_counts(evidence: Evidence, tail: _Tail) -> None:
    """On the workloads, all that it stores is there already."""
    assert evidence.counters is not None
    loop = tail.loop.node
    counted = evidence.counters.at(range(line_of(loop), last_line_of(loop) + 1))
    stored = counted.total("bytes", direction="store")
    again = sum(s.bytes for r in tail.waste for s in r.shares)
    if stored != again or counted.total("bytes", direction="atomic"):
        raise _Needed(
            f"line {line_of(loop)}: it stores more than the loop at line "
            f"{line_of(tail.first.node)} has stored"
        )


def _check_effects(source: KernelText, tail: _Tail) -> None:
    """It stores to global memory and does nothing else that the rest of the kernel could see."""
    loop, kernel = tail.loop, tail.kernel
    if loop.has_jump() or tail.first.has_jump():
        raise _Needed(f"line {line_of(loop.node)}: an iteration of the loops can end early")
    for statement in loop.body:
        for node in descendants(statement):
            if node.type == "call_expression" and not _is_harmless(source, node):
                raise _Needed(f"line {line_of(node)}: {called_name(node)} may do more than compute")
            if is_barrier(node) or node.type == "gnu_asm_expression":
                raise _Needed(f"line {line_of(node)}: threads meet in the loop")
        unknown = unknown_accesses(statement, kernel)
        if unknown:
            raise _Needed(f"line {line_of(unknown[0])}: it is not known which memory this is")
        for name in written_names(statement):
            variable = kernel.lookup(name, statement)
            if variable is None or not contains(loop.node, variable.declaration):
                raise _Needed(f"line {line_of(statement)}: {name} is used after the loop")


def _is_harmless(source: KernelText, call: Node) -> bool:
    """Whether a call computes and does nothing else."""
    name = called_name(call)
    if cast_of(call) is not None or name in PURE_FUNCTIONS or name == "__stcs":
        return True
    function = next((f for f in source.functions if f.name == name), None)
    if function is None or any(map(_may_write, function.parameters)):
        return False
    parts = list(descendants(function.body))
    return not stores_in(function.body) and all(
        _is_harmless(source, part) for part in parts if part.type == "call_expression"
    ) and not any(part.type == "gnu_asm_expression" for part in parts)  # fmt: skip


def _may_write(parameter: Variable) -> bool:
    """Whether a function could change what a caller passes."""
    return bool(parameter.pointers) or (parameter.is_reference and not parameter.is_const)


def _reach(tail: _Tail) -> tuple[Polynomial[str], Polynomial[str]]:
    """How long the rows are that the first loop walks over, and how many elements an iteration
    takes. It walks to the end if one is a multiple of the other.
    """
    reader, loop = IndexReader(tail.kernel), tail.first
    start, step = loop.start_form(reader), loop.step_form(reader)
    bound = reader.read(loop.bound)
    if loop.counts_up():
        division = reader.divisions.get(_only_atom(bound))
        if (start, step) in _SHARED_OUT and division is not None and division.operator == "/":
            return division.numerator, division.denominator
        for thread, threads in _SHARED_OUT:
            width = step.divided(threads)
            if width is not None and start == thread * width:
                return bound, width
    raise _Needed(
        f"line {line_of(loop.node)}: it is not known how far the loop before the tail walks"
    )


def _only_atom(form: Polynomial[str]) -> str:
    """The atom that a form consists of, "" where it is anything else."""
    name = next(iter(form.atoms()), "")
    return name if form == of_atom(name) else ""


def _check_range(tail: _Tail, length: Polynomial[str]) -> None:
    """What the loop stores lies within the row: it ends with the row and begins after its start."""
    reader, loop = IndexReader(tail.kernel), tail.loop
    start, step = loop.start_form(reader), loop.step_form(reader)
    thread = next((first for first, threads in _SHARED_OUT if threads == step), None)
    if thread is None or not loop.counts_up():
        raise _Needed(f"line {line_of(loop.node)}: it is not known which elements the loop takes")
    begin, bound = start - thread, reader.read(loop.bound)
    rows = {
        (text_of(a.pointer), reader.read(a.index).without(tail.first.name)[1])
        for a in _stores_of(tail.first, tail.kernel)
    }
    for access in _stores(tail):
        slope, offset = reader.read(access.index).without(loop.name)
        row = offset + bound - length
        same = {begins for pointer, begins in rows if pointer == text_of(access.pointer)}
        # Where remainders are left, the two ends did not meet.
        moves = {*row.atoms()} & (_MOVING | reader.divisions.keys())
        if slope != 1 or moves or (same and row not in same):
            raise _Needed(f"line {line_of(access.node)}: the loop may store outside of the row")
        if not _is_rest(begin + offset - row, length, reader):
            raise _Needed(f"line {line_of(access.node)}: the loop may begin before the row")


def _is_rest(begin: Polynomial[str], length: Polynomial[str], reader: IndexReader) -> bool:
    """Whether a place is within a row for certain: its start, or its length without a rest."""
    if begin == constant(0):
        return True
    for each in begin.atoms():
        division = reader.divisions.get(each)
        if division is None or division.numerator != length:
            continue
        if division.operator == "%" and begin == length - of_atom(each):
            return True
        if division.operator == "/" and begin == of_atom(each) * division.denominator:
            return True
    return False


def _stores(tail: _Tail) -> list[Access]:
    found = _stores_of(tail.loop, tail.kernel)
    if not found:
        raise _Needed(f"line {line_of(tail.loop.node)}: its stores are in functions")
    shared = next((a for a in found if a.root.is_array), None)
    if shared is not None:
        raise _Needed(f"line {line_of(shared.node)}: it stores to an array of the kernel")
    return found


def _stores_of(loop: Loop, kernel: Function) -> list[Access]:
    return [a for s in loop.body for a in accesses_in(s, kernel) if a.is_store]


def _is_whole(
    plan: LaunchPlan,
    evidence: Evidence,
    kernel: Function,
    launch: Launch,
    length: Polynomial[str],
    width: Polynomial[str],
) -> bool:
    """Whether a launch is for rows of whole packs alone."""
    size, pack = (_plan_form(form, kernel, launch) for form in (length, width))
    if pack == Integer(1):
        return True
    if size is None or pack is None:
        return False
    return divisible(size, pack) in (*evidence.task.accepts, *_asked_for(plan, launch))


def _plan_form(form: Polynomial[str], kernel: Function, launch: Launch) -> Expression | None:
    """A number or a single name of a kernel in the plan's words."""
    number = form.number
    if number is not None:
        return Integer(number)
    name = _only_atom(form)
    for node in of_type(kernel.body, "identifier"):
        if node.text is not None and node.text.decode() == name:
            return plan_value(node, kernel, launch)
    return None


def _asked_for(plan: LaunchPlan, launch: Launch) -> Iterator[Expression]:
    """What holds wherever a launch runs, by the condition of its branch."""
    for step in plan.steps:
        for branch in step.branches if isinstance(step, Dispatch) else ():
            if branch.condition is not None and any(item is launch for item in branch.body):
                yield from conjuncts(branch.condition)


def _useless_without(tail: _Tail) -> list[Node]:
    """The loop, and the declarations before it that nothing else reads."""
    gone = [tail.loop.node]
    if tail.loop.declaration is not None:
        gone.append(tail.loop.declaration)
    candidates = [
        s for s in statements_of(tail.kernel.body)
        if s.type == "declaration" and s.end_byte <= tail.loop.node.start_byte
    ]  # fmt: skip
    for declaration in reversed(candidates):
        mine = [v for v in tail.kernel.locals if v.declaration == declaration]
        used = [u for v in mine for u in tail.kernel.uses(v)]
        if used and all(any(contains(g, u) for g in gone) for u in used):
            gone.append(declaration)
    return gone
