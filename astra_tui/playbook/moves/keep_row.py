"""Keeps in registers what a second loop over the same row would load again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import IndexReader, Polynomial
from astra_tui.cuda_source.polynomial import of_atom
from astra_tui.cuda_source.syntax import (
    LOOPS,
    ancestors,
    contains,
    is_barrier,
    line_of,
    text_of,
)
from astra_tui.model.launch import Launch, Let
from astra_tui.model.launch.expression import (
    Expression,
    Integer,
    Name,
)
from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.playbook.accesses import (
    Access,
    accesses_in,
    is_conditional,
    may_alias,
    offset_of,
    unknown_accesses,
)
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import (
    Edit,
    insert_before,
)
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.grids import over_row
from astra_tui.playbook.kernel_text import KernelText, specialised
from astra_tui.playbook.launching import (
    Unsuitable,
    all_of,
    first_suitable,
    for_workloads,
    only_for,
    plan_value,
    with_branch,
)
from astra_tui.playbook.loops import Loop, loops_of
from astra_tui.playbook.moves.batch_loads import with_batched_loads
from astra_tui.playbook.moves.fit_block import bounded, is_bounded
from astra_tui.playbook.moves.keep_values import with_kept_values
from astra_tui.playbook.moves.store_early import StoreEarly
from astra_tui.playbook.turns import TURNS, in_place_of, turns_of, unrolled, within

_ANY_ITERATION = "(any turn)"


@dataclass(frozen=True)
class _Kept:
    """One load of the first loop, and the loads of the second that repeat it."""

    first: Access
    again: tuple[Access, ...]


@dataclass(frozen=True)
class _Rows:
    """A loop over a row, and later ones in which a thread takes the same elements."""

    function: Function
    first: Loop
    later: tuple[Loop, ...]
    kept: tuple[_Kept, ...]

    def anchor(self) -> Node:
        """The first loop, or the plain block around it that a later loop does not share."""
        anchors = [_anchor(self.first, loop) for loop in self.later]
        return max(anchors, key=lambda n: n.end_byte - n.start_byte)


@dataclass(frozen=True)
class _Names:
    kernel: str
    count: str
    turn: str
    arrays: tuple[str, ...]
    turns: Name


class KeepRow:
    """Registers instead of a second pass through memory, for rows that are short enough."""

    name = "keep_row"
    summary = "what the first loop loaded stays in registers for the second"
    kind = MoveKind.GEOMETRY
    needs_gpu = ""
    gain = (1.0, 1.07)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """A specialised kernel for rows of up to eight iterations; longer ones keep the old one."""
        found = first_suitable(source, self.name, partial(_read, source))
        if isinstance(found, NotApplicable):
            return found
        return self._proposal(source, evidence, *found)

    def _proposal(
        self,
        source: KernelText,
        evidence: Evidence,
        rows: _Rows,
        launch: Launch,
        turns: tuple[Expression, Expression],
    ) -> Proposal:
        nodes = [a.node for k in rows.kept for a in k.again]
        most = evidence.one("iterations", "most iterations whose loads stay in registers", TURNS)
        workloads = evidence.workloads()
        limits = only_for(evidence.task, workloads)
        text = _rewrite(source, rows, launch, turns, int(most.chosen[0]), limits)
        text, early = _for_times(text, source, evidence) if evidence.timed else (text, "")
        part = share(evidence.counters, Counter.SECTORS, nodes)
        plan = Plan(
            title="Keep the row in registers",
            bottleneck="a second loop loads the same elements again, by the same threads",
            evidence=evidence_of(evidence.counters, nodes, Counter.SECTORS, Counter.REQUESTS),
            change=f"{lines_text(nodes)}: the values come from registers that the loop at line "
            f"{line_of(rows.first.node)} fills. The number of iterations becomes a template "
            f"argument, so that the loops unroll; rows of more than {most.value} iterations "
            "keep the old kernel"
            f"{for_workloads(workloads)}.{early}",
            prediction=predicted(Counter.SECTORS, part, 0.0, (1.05, 1.5), 0.3),
            risk=Risk.MEDIUM,
            places=places_of([rows.first.node, *(n.node for n in rows.later)]),
            move=self.name,
            parameters=settable(most, workloads),
        )
        return Proposal(plan, text)


def _for_times(text: str, before: KernelText, evidence: Evidence) -> tuple[str, str]:
    """The source in which results leave as soon as they are known, all loads before, and values are
    kept that are known then, with what to say about it.

    What is kept costs registers, and with them the second block of a multiprocessor: the move
    alone made long rows 13 % slower on an H100, and 1 % faster with this.
    """
    stored = 0
    while True:
        further = StoreEarly().propose(KernelText.read(text), evidence)
        if not isinstance(further, Proposal):
            break
        text, stored = further.source, stored + 1
    plural = "a result" if stored == 1 else f"{stored} results"
    said = f" The first loop stores {plural} that it can know already." if stored else ""
    batched = with_batched_loads(text, before)
    said += " All of its loads leave first." if batched != text else ""
    kept = with_kept_values(batched, before)
    said += " What several inputs make is kept in their place." if kept != batched else ""
    return kept, said


def _read(
    source: KernelText, kernel: Function, launch: Launch
) -> tuple[_Rows, Launch, tuple[Expression, Expression]]:
    rows = _find(source, kernel)
    return rows, launch, _turns(rows, launch)


def _find(source: KernelText, function: Function) -> _Rows:
    launches = list(source.launches_of(function))
    rows = [loop for loop in loops_of(function) if over_row(loop, function, launches)]
    if len(rows) < 2:
        raise Unsuitable("no two loops over a row")
    reasons: list[str] = []
    for number, first in enumerate(rows):
        repeats: dict[Loop, list[_Kept]] = {}
        for later in rows[number + 1 :]:
            try:
                repeats[later] = _read_pair(source, function, first, later)
            except Unsuitable as reason:
                reasons.append(str(reason))
        if repeats:
            return _Rows(function, first, tuple(repeats), _merged(list(repeats.values())))
    raise Unsuitable("; ".join(dict.fromkeys(reasons)))


def _merged(repeats: list[list[_Kept]]) -> tuple[_Kept, ...]:
    """Each load of the first loop once, with what repeats it in any later loop."""
    again: dict[Access, list[Access]] = {}
    for kept in (k for found in repeats for k in found):
        again.setdefault(kept.first, []).extend(kept.again)
    first_to_last = sorted(again, key=lambda a: a.node.start_byte)
    return tuple(_Kept(load, tuple(again[load])) for load in first_to_last)


def _read_pair(source: KernelText, function: Function, first: Loop, second: Loop) -> list[_Kept]:
    reader = IndexReader(function)
    if not _reaches(_anchor(first, second), second):
        raise Unsuitable(f"line {line_of(second.node)}: the loops stand in different blocks")
    if reader.read(first.bound) != reader.read(second.bound):
        raise Unsuitable(f"line {line_of(second.node)}: the loops run to different bounds")
    for loop in (first, second):
        if loop.has_jump() or any(is_barrier(s) for s in loop.body):
            raise Unsuitable(f"line {line_of(loop.node)}: a jump or a barrier in the loop")
        if unknown_accesses(loop.node, function):
            raise Unsuitable(f"line {line_of(loop.node)}: an access that cannot be followed")
    kept = _repeated(source, function, first, second)
    if not kept:
        raise Unsuitable(f"line {line_of(second.node)}: the loop loads nothing a second time")
    return kept


def _anchor(first: Loop, second: Loop) -> Node:
    """The first loop, or the plain block around it that the second loop does not share."""
    anchor = first.node
    while anchor.parent is not None and not contains(anchor.parent, second.node):
        anchor = anchor.parent
    return anchor


def _reaches(anchor: Node, second: Loop) -> bool:
    """Whether the second loop comes once after each time that the anchor ran."""
    if anchor.type not in ("compound_statement", *LOOPS) or anchor.parent is None:
        return False
    between = [
        a for a, _ in ancestors(second.node) if contains(anchor.parent, a) and a != anchor.parent
    ]
    return not any(a.type in LOOPS for a in between)


def _repeated(source: KernelText, function: Function, first: Loop, second: Loop) -> list[_Kept]:
    loads = {
        _key(a, function, first): a for s in reversed(first.body)
        for a in reversed(list(accesses_in(s, function)))
        if _is_plain_load(a) and not (a.node != s and is_conditional(a.node, s))
    }  # fmt: skip
    between = _stores(function, first.node.start_byte, second.node.start_byte)
    kept = []
    for key, load in loads.items():
        if key is None or any(may_alias(source, function, load.root, s.root) for s in between):
            continue
        again = [
            a for s in second.body for a in accesses_in(s, function)
            if _is_plain_load(a) and _key(a, function, second) == key
        ]  # fmt: skip
        if again and _survives(source, function, second, key, again):
            kept.append(_Kept(load, tuple(again)))
    return sorted(kept, key=lambda k: k.first.node.start_byte)


def _is_plain_load(access: Access) -> bool:
    return access.is_load and not access.is_store and not access.root.is_array


def _key(access: Access, function: Function, loop: Loop) -> tuple[str, str, Polynomial] | None:
    """What is loaded, as far as the iteration decides; None where it is not known."""
    reader = IndexReader(function)
    pointer = function.lookup(text_of(access.pointer), access.pointer)
    offset = offset_of(pointer, function, reader) if pointer is not None else None
    if offset is None:
        return None
    index = offset + reader.read(access.index)
    if not reader.depends_on(index, loop.name):
        return None
    terms = {
        tuple(sorted(_ANY_ITERATION if a == loop.name else a for a in m)): c
        for m, c in index.terms.items()
    }
    renamed = Polynomial(dict(sorted(terms.items())))
    inside = [a for a in index.atoms() if a != loop.name]
    if any(reader.depends_on(of_atom(a), loop.name) for a in inside):
        return None
    return access.element, access.root.name, renamed


def _stores(function: Function, start: int, end: int) -> list[Access]:
    return [
        a for a in accesses_in(function.body, function)
        if a.is_store and start <= a.node.start_byte < end
    ]  # fmt: skip


def _survives(
    source: KernelText,
    function: Function,
    second: Loop,
    key: tuple[str, str, Polynomial] | None,
    again: list[Access],
) -> bool:
    """Whether memory still holds what was loaded whenever the second loop loads it."""
    for store in (a for s in second.body for a in accesses_in(s, function) if a.is_store):
        if not may_alias(source, function, store.root, again[0].root):
            continue
        later = all(a.node.start_byte < store.node.start_byte for a in again)
        if _key(store, function, second) != key or not later:
            return False
    return True


def _turns(rows: _Rows, launch: Launch) -> tuple[Expression, Expression]:
    """How many elements a row has, and how many threads share them, in the plan's words."""
    bound = plan_value(rows.first.bound, rows.function, launch)
    if bound is None or len(launch.block) != 1:
        raise Unsuitable(f"line {launch.place.line}: the plan cannot say how long a row is")
    return bound, launch.block[0]


def _rewrite(
    source: KernelText,
    rows: _Rows,
    launch: Launch,
    turns: tuple[Expression, Expression],
    most: int,
    limits: list[Expression],
) -> str:
    taken = source.names()
    names = _Names(
        kernel=fresh_name(f"{rows.function.name}_kept", taken),
        count=fresh_name("TURNS", taken),
        turn=fresh_name("turn", taken),
        arrays=tuple(fresh_name(f"{text_of(k.first.pointer)}_kept", taken) for k in rows.kept),
        turns=Name(fresh_name("turns", taken)),
    )
    elements, threads = turns
    count = turns_of(elements, threads, most)
    kept = replace(launch, kernel=names.kernel, template_args=(*launch.template_args, names.turns))
    condition = all_of([within(elements, threads, most), *limits])
    plan = with_branch(source.plan, launch, kept, condition, (Let(names.turns.id, count),))
    edits = _edits(source, rows, names)
    if not isinstance(threads, Integer) and not is_bounded(rows.function):
        edits.append(bounded(rows.function))
    text = specialised(source, rows.function, names.kernel, names.count, edits)
    end = rows.function.outer.end_byte
    return source.changed([Edit(end, end, f"\n\n{text}")], plan)


def _edits(source: KernelText, rows: _Rows, names: _Names) -> list[Edit]:
    arrays = [
        f"{k.first.element} {name}[{names.count}];"
        for k, name in zip(rows.kept, names.arrays, strict=True)
    ]
    filling = _unrolled(source, rows, rows.first, names)
    anchor = rows.anchor()
    outside = [insert_before(source.data, anchor, arrays)] if anchor != rows.first.node else []
    edits = in_place_of(source.data, rows.first, filling if outside else [*arrays, *filling])
    for loop in rows.later:
        edits += in_place_of(source.data, loop, _unrolled(source, rows, loop, names))
    return [*outside, *edits]


def _unrolled(source: KernelText, rows: _Rows, loop: Loop, names: _Names) -> list[str]:
    """A loop with a fixed number of turns: the first fills the registers, the others read them."""
    fill = loop == rows.first
    places = {
        a.node: f"{array}[{names.turn}]"
        for k, array in zip(rows.kept, names.arrays, strict=True)
        for a in ((k.first,) if fill else k.again)
    }
    return unrolled(source, loop, (names.turn, names.count), places, fill=fill)
