"""Keeps in registers what a second loop over the same row would load again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from astra_tui.agents.playbook.accesses import (
    Access,
    accesses_in,
    is_conditional,
    may_alias,
    offset_of,
    unknown_accesses,
)
from astra_tui.agents.playbook.api import Evidence, NotApplicable, Proposal
from astra_tui.agents.playbook.counted import evidence_of, lines_text, places_of, predicted, share
from astra_tui.agents.playbook.edits import (
    Edit,
    block,
    dedented,
    indentation,
    indented,
    insert_before,
    pragma_of,
    remove_statement,
    rewritten,
)
from astra_tui.agents.playbook.edits import replace as put
from astra_tui.agents.playbook.kernel_text import KernelText, specialised
from astra_tui.agents.playbook.launching import (
    is_fallback,
    plan_value,
    with_branch,
)
from astra_tui.agents.playbook.linear import BLOCK_THREADS, THREAD, IndexReader, Polynomial, atom
from astra_tui.agents.playbook.loops import Loop, loops_of
from astra_tui.agents.playbook.names import Function, fresh_name
from astra_tui.agents.playbook.syntax import contains, is_barrier, line_of, text_of
from astra_tui.model.launch import Launch, Let
from astra_tui.model.launch.expression import (
    Binary,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
)
from astra_tui.model.plan import Counter, Plan, Risk

_MOST_TURNS = 8
"""Turns whose loads stay in registers: 8 turns of two 16-byte packs are 64 registers."""

_ANY_TURN = "(any turn)"


class _Unsuitable(Exception):
    """Why a row is read again."""


@dataclass(frozen=True)
class _Kept:
    """One load of the first loop, and the loads of the second that repeat it."""

    first: Access
    again: tuple[Access, ...]


@dataclass(frozen=True)
class _Pair:
    """Two loops in which a thread takes the same elements."""

    function: Function
    first: Loop
    second: Loop
    kept: tuple[_Kept, ...]


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

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """A specialised kernel for rows of up to eight turns; longer ones keep the old kernel."""
        reasons: list[str] = []
        for kernel in source.kernels:
            for launch in source.launches_of(kernel):
                try:
                    if is_fallback(source.plan, launch):
                        raise _Unsuitable("it serves what a specialised kernel leaves over")
                    pair = _find(source, kernel)
                    turns = _turns(pair, launch)
                except _Unsuitable as reason:
                    reasons.append(f"{kernel.name}: {reason}")
                    continue
                return self._proposal(source, evidence, pair, launch, turns)
        return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")

    def _proposal(
        self,
        source: KernelText,
        evidence: Evidence,
        pair: _Pair,
        launch: Launch,
        turns: tuple[Expression, Expression],
    ) -> Proposal:
        nodes = [a.node for k in pair.kept for a in k.again]
        part = share(evidence.counters, Counter.SECTORS, nodes)
        plan = Plan(
            title="Keep the row in registers",
            bottleneck="a second loop loads the same elements again, by the same threads",
            evidence=evidence_of(evidence.counters, nodes, Counter.SECTORS, Counter.REQUESTS),
            change=f"{lines_text(nodes)}: the values come from registers that the loop at line "
            f"{line_of(pair.first.node)} fills. The number of turns becomes a template argument, "
            f"so that the loops unroll; rows of more than {_MOST_TURNS} turns keep the old kernel.",
            prediction=predicted(Counter.SECTORS, part, 0.0, (1.05, 1.5), 0.3),
            risk=Risk.MEDIUM,
            places=places_of([pair.first.node, pair.second.node]),
            move=self.name,
        )
        return Proposal(plan, _rewrite(source, pair, launch, turns))


def _find(source: KernelText, function: Function) -> _Pair:
    reader = IndexReader(function)
    rows = [
        loop for loop in loops_of(function)
        if loop.counts_up()
        and (loop.start_form(reader), loop.step_form(reader)) == (THREAD, BLOCK_THREADS)
    ]  # fmt: skip
    if len(rows) < 2:
        raise _Unsuitable("no two loops over a row")
    reasons = []
    for first, second in zip(rows, rows[1:], strict=False):
        try:
            return _read_pair(source, function, first, second)
        except _Unsuitable as reason:
            reasons.append(str(reason))
    raise _Unsuitable("; ".join(reasons))


def _read_pair(source: KernelText, function: Function, first: Loop, second: Loop) -> _Pair:
    reader = IndexReader(function)
    if first.node.parent != second.node.parent:
        raise _Unsuitable(f"line {line_of(second.node)}: the loops stand in different blocks")
    if reader.read(first.bound) != reader.read(second.bound):
        raise _Unsuitable(f"line {line_of(second.node)}: the loops run to different bounds")
    for loop in (first, second):
        if loop.has_jump() or any(is_barrier(s) for s in loop.body):
            raise _Unsuitable(f"line {line_of(loop.node)}: a jump or a barrier in the loop")
        if unknown_accesses(loop.node, function):
            raise _Unsuitable(f"line {line_of(loop.node)}: an access that cannot be followed")
    kept = _repeated(source, function, first, second)
    if not kept:
        raise _Unsuitable(f"line {line_of(second.node)}: the loop loads nothing a second time")
    return _Pair(function, first, second, tuple(kept))


def _repeated(
    source: KernelText, function: Function, first: Loop, second: Loop
) -> list[_Kept]:
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
    """What is loaded, as far as the turn decides; None where it is not known."""
    reader = IndexReader(function)
    pointer = function.lookup(text_of(access.pointer), access.pointer)
    offset = offset_of(pointer, function, reader) if pointer is not None else None
    if offset is None:
        return None
    index = offset + reader.read(access.index)
    if not reader.depends_on(index, loop.name):
        return None
    terms = {
        tuple(sorted(_ANY_TURN if a == loop.name else a for a in m)): c
        for m, c in index.terms.items()
    }
    renamed = Polynomial(dict(sorted(terms.items())))
    inside = [a for a in index.atoms if a != loop.name]
    if any(reader.depends_on(atom(a), loop.name) for a in inside):
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


def _turns(pair: _Pair, launch: Launch) -> tuple[Expression, Expression]:
    """How many elements a row has, and how many threads share them, in the plan's words."""
    bound = plan_value(pair.first.bound, pair.function, launch)
    if bound is None or len(launch.block) != 1:
        raise _Unsuitable(f"line {launch.place.line}: the plan cannot say how long a row is")
    return bound, launch.block[0]


def _rewrite(
    source: KernelText, pair: _Pair, launch: Launch, turns: tuple[Expression, Expression]
) -> str:
    taken = source.names()
    names = _Names(
        kernel=fresh_name(f"{pair.function.name}_kept", taken),
        count=fresh_name("TURNS", taken),
        turn=fresh_name("turn", taken),
        arrays=tuple(fresh_name(f"{text_of(k.first.pointer)}_kept", taken) for k in pair.kept),
        turns=Name(fresh_name("turns", taken)),
    )
    elements, threads = turns
    count: Expression = Integer(_MOST_TURNS)
    for size in (4, 2, 1):
        count = Conditional(_at_most(elements, threads, size), Integer(size), count)
    kept = replace(launch, kernel=names.kernel, template_args=(*launch.template_args, names.turns))
    condition = _at_most(elements, threads, _MOST_TURNS)
    plan = with_branch(source.plan, launch, kept, condition, (Let(names.turns.id, count),))
    text = specialised(source, pair.function, names.kernel, names.count, _edits(source, pair, names))
    end = pair.function.outer.end_byte
    return source.changed([Edit(end, end, f"\n\n{text}")], plan)


def _at_most(elements: Expression, threads: Expression, turns: int) -> Expression:
    most = threads if turns == 1 else Binary("*", Integer(turns), threads)
    if isinstance(threads, Integer):
        most = Integer(turns * threads.value)
    return Compare(elements, (("<=", most),))


def _edits(source: KernelText, pair: _Pair, names: _Names) -> list[Edit]:
    data = source.data
    declared = [
        f"{k.first.element} {name}[{names.count}];"
        for k, name in zip(pair.kept, names.arrays, strict=True)
    ]
    first = pair.first.declaration or pair.first.node
    edits = [insert_before(data, first, declared)] if first == pair.first.node else []
    if first != pair.first.node:
        edits.append(Edit(first.start_byte, first.start_byte, ""))
    edits += _unrolled(source, pair.first, names, pair.kept, declared, fill=True)
    edits += _unrolled(source, pair.second, names, pair.kept, [], fill=False)
    return [e for e in edits if e.text or e.end > e.start]


def _unrolled(
    source: KernelText,
    loop: Loop,
    names: _Names,
    kept: tuple[_Kept, ...],
    declared: list[str],
    fill: bool,
) -> list[Edit]:
    """The loop with a fixed number of turns, each under the condition that the row reaches it."""
    places = {
        a.node: f"{array}[{names.turn}]"
        for k, array in zip(kept, names.arrays, strict=True)
        for a in ((k.first,) if fill else k.again)
    }
    step = "1" if loop.step is None else text_of(loop.step)
    lines: list[str] = []
    for statement in loop.body:
        inside = [n for n in places if contains(statement, n)]
        if fill:
            lines += [f"{places[n]} = {text_of(n)};" for n in inside]
        edits = [put(n, places[n]) for n in inside]
        text = rewritten(source.data, statement, edits)
        lines.append(dedented(source.data, statement, text))
    first = f"{text_of(loop.start)} + {names.turn} * {step}"
    text = "\n".join(
        [
            f"for (int {names.turn} = 0; {names.turn} < {names.count}; ++{names.turn}) {{",
            f"  const {loop.variable.type} {loop.name} = {first};",
            f"  if ({loop.name} < {text_of(loop.bound)}) {{",
            block([block(lines)]),
            "  }",
            "}",
        ]
    )
    return _in_place(source.data, loop, text, declared)


def _in_place(source: bytes, loop: Loop, text: str, declared: list[str]) -> list[Edit]:
    indent = indentation(source, loop.node)
    pragma = pragma_of(loop.node)
    before = "" if pragma is not None else "#pragma unroll\n"
    edits = [put(loop.node, f"{before}{indented(text, indent)}")]
    if pragma is None:
        edits[0] = put(loop.node, f"{before}{indented(text, indent)}".lstrip(" "))
    if loop.declaration is not None:
        edits.append(remove_statement(source, loop.declaration))
        lead = indented("\n".join(declared), indent).lstrip()
        if declared:
            edits[0] = put(loop.node, f"{lead}\n{edits[0].text}")
    return edits
