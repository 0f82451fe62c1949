"""Keeps in registers what threads put into shared memory for themselves alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.syntax import (
    bare,
    cast_of,
    contains,
    field,
    identifiers_in,
    line_of,
    operator_of,
    subscript_of,
    text_of,
)
from astra_tui.model.launch import Launch, Let
from astra_tui.model.launch.expression import Call, Expression, Integer, Name
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit, remove_statement
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.grids import over_row
from astra_tui.playbook.kernel_text import KernelText, specialised
from astra_tui.playbook.launching import (
    Unsuitable,
    first_suitable,
    multiple_of_warp,
    plan_value,
    whole_warps,
    with_branch,
)
from astra_tui.playbook.loops import Loop, loops_of
from astra_tui.playbook.moves.batch_loads import with_batched_loads
from astra_tui.playbook.moves.fit_block import bounded, is_bounded
from astra_tui.playbook.turns import in_place_of, turns_of, unrolled, within

_MOST = 4
"""A pack of 16 bytes is up to eight floats: four turns of them are 32 registers."""


@dataclass(frozen=True)
class _Place:
    """An access of the row: `array[turn * count + within]`."""

    node: Node
    element: str
    count: str
    """Elements of a turn; "" for one."""
    within: str


@dataclass(frozen=True)
class _Row:
    """A shared array in which each thread finds again what it put there, and nothing else."""

    kernel: Function
    launch: Launch
    array: Variable
    loops: tuple[Loop, ...]
    places: tuple[_Place, ...]


class RowInRegisters:
    """Registers are nearer than shared memory, and leave it to more blocks."""

    name = "row_in_registers"
    summary = "a row that threads keep for themselves in registers in place of shared memory"
    kind = MoveKind.GEOMETRY
    needs_gpu = "needs a GPU: counters do not show what shared memory keeps out"
    gain = (0.98, 1.2)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """A specialised kernel for rows of up to four turns; longer ones keep the old one."""
        found = first_suitable(source, self.name, _read_bounded)
        if isinstance(found, NotApplicable):
            return found
        row, bound = found
        most = evidence.one("iterations", "most turns that registers hold", (4, 2, 1))
        nodes = [p.node for p in row.places]
        plan = Plan(
            title="Keep the row in registers",
            bottleneck="each thread puts its part of the row into shared memory, and only "
            "itself takes it out again",
            evidence=evidence_of(evidence.counters, nodes, Counter.WARP_INSTRUCTIONS),
            change=f"{lines_text(nodes)}: registers. The number of turns becomes a "
            f"template argument, so that the loops unroll; rows of more than {most.value} "
            "turns keep the old kernel. All turns load before the first of them computes, and "
            "where the plan computes the block, it has the threads that equal turns need.",
            prediction=Prediction(*self.gain, Counter.WARP_INSTRUCTIONS, 1.0),
            risk=Risk.MEDIUM,
            places=places_of([loop.node for loop in row.loops]),
            move=self.name,
            parameters=settable(most),
        )
        text = _rewrite(source, row, bound, int(most.chosen[0]))
        return Proposal(plan, with_batched_loads(text, source))


def _read_bounded(kernel: Function, launch: Launch) -> tuple[_Row, Expression]:
    """The row, and how many elements it has in the plan's words."""
    row = _read(kernel, launch)
    bound = plan_value(row.loops[0].bound, kernel, launch)
    if bound is None or len(launch.block) != 1:
        raise Unsuitable("the plan cannot say how long a row is")
    return row, bound


def _read(kernel: Function, launch: Launch) -> _Row:
    arrays = [v for v in kernel.locals if v.is_shared and v.is_array]
    dynamic = [v for v in arrays if "extern" in text_of(v.declaration)]
    if len(dynamic) != 1 or launch.shared_bytes is None:
        raise Unsuitable("no row in shared memory whose size the plan says")
    (array,) = dynamic
    loops = tuple(_row_loops(kernel, array, launch))
    places: list[_Place] = []
    for use in kernel.uses(array):
        loop = next((x for x in loops if contains(x.node, use)), None)
        if loop is None:
            raise Unsuitable(f"line {line_of(use)}: the array is used outside of loops over a row")
        places.append(_place(array, use, loop))
    if len({(p.element, p.count) for p in places}) > 1 or not places:
        raise Unsuitable(f"line {line_of(array.declaration)}: its accesses differ in width")
    heads = {(text_of(x.bound), x.variable.type) for x in loops}
    if len(heads) > 1 or len(loops) < 2:
        raise Unsuitable("no two loops over the same part of the row")
    _check_own(kernel, places, loops)
    return _Row(kernel, launch, array, loops, tuple(places))


def _row_loops(kernel: Function, array: Variable, launch: Launch) -> Iterator[Loop]:
    for loop in loops_of(kernel):
        if not over_row(loop, kernel, [launch]) or loop.has_jump():
            continue
        if any(contains(loop.node, use) for use in kernel.uses(array)):
            yield loop


def _place(array: Variable, use: Node, loop: Loop) -> _Place:
    """The access that a mention of the array belongs to. Raises Unsuitable."""
    node, element = use, array.type
    while node.parent is not None and node.parent.type != "subscript_expression":
        node = node.parent
        if not contains(loop.node, node) or node.type.endswith("statement"):
            raise Unsuitable(f"line {line_of(use)}: more than an element of the array")
    whole = node.parent
    parts = subscript_of(whole) if whole is not None else None
    if whole is None or parts is None or not contains(parts[0], use):
        raise Unsuitable(f"line {line_of(use)}: more than an element of the array")
    pointer = bare(parts[0])
    if pointer.type != "identifier":
        cast = cast_of(pointer)
        if cast is None or text_of(bare(cast[1])) != array.name:
            raise Unsuitable(f"line {line_of(use)}: more than an element of the array")
        element = " ".join(cast[0].replace("const", "").replace("*", "").split())
    return _Place(whole, element, *_index(bare(parts[1]), loop, use))


def _index(index: Node, loop: Loop, use: Node) -> tuple[str, str]:
    """`i * count + within` of a loop over i. Raises Unsuitable."""
    if text_of(index) == loop.name:
        return "", ""
    if index.type == "binary_expression" and operator_of(index) == "+":
        product, rest = bare(field(index, "left")), field(index, "right")
        if product.type == "binary_expression" and operator_of(product) == "*":
            left, count = bare(field(product, "left")), field(product, "right")
            inside = identifiers_in(rest) | identifiers_in(count)
            if text_of(left) == loop.name and loop.name not in inside:
                return text_of(count), text_of(rest)
    raise Unsuitable(f"line {line_of(use)}: an element that other threads may have")


def _check_own(kernel: Function, places: list[_Place], loops: tuple[Loop, ...]) -> None:
    """What is within a turn has to stay within it: a counted loop from 0 to the turn's elements."""
    constants = {p.name for p in kernel.template}
    for place in places:
        if not place.count:
            continue
        if not identifiers_in(_parsed(place)) <= constants:
            raise Unsuitable(f"line {line_of(place.node)}: no constant says how much a turn has")
        inner = [
            x for x in loops_of(kernel)
            if contains(x.node, place.node) and x not in loops and x.name == place.within
        ]  # fmt: skip
        plain = [x for x in inner if x.counts_up() and x.step is None and text_of(x.start) == "0"]
        if not plain or bare(plain[0].bound).text != bare(_parsed(place)).text:
            raise Unsuitable(f"line {line_of(place.node)}: it may leave its turn's elements")


def _parsed(place: _Place) -> Node:
    """The node of a turn's number of elements."""
    parts = subscript_of(place.node)
    assert parts is not None
    return field(bare(field(bare(parts[1]), "left")), "right")


def _even_block(
    source: KernelText, row: _Row, bound: Expression, turns: Let, taken: set[str]
) -> tuple[tuple[Let, ...], tuple[Expression, ...]]:
    """A block that has as many threads at work in the last of the turns as in the others, with
    what declares it; a number stays as it is.
    """
    (threads,) = row.launch.block
    if isinstance(threads, Integer) or not multiple_of_warp(threads, source.plan):
        return (), row.launch.block
    even = whole_warps(Call("ceil_div", (bound, Name(turns.name))))
    let = Let(fresh_name("threads", taken), even)
    return (let,), (Name(let.name),)


def _rewrite(source: KernelText, row: _Row, bound: Expression, most: int) -> str:
    taken = source.names()
    count, turn = fresh_name("TURNS", taken), fresh_name("turn", taken)
    name = fresh_name(f"{row.kernel.name}_kept", taken)
    held = fresh_name(f"{row.array.name}_kept", taken)
    threads = row.launch.block[0]
    turns = Let(fresh_name("turns", taken), turns_of(bound, threads, most))
    lets, block = _even_block(source, row, bound, turns, taken)
    launch = replace(
        row.launch,
        kernel=name,
        template_args=(*row.launch.template_args, Name(turns.name)),
        block=block,
        shared_bytes=None,
    )
    plan = with_branch(
        source.plan, row.launch, launch, within(bound, threads, most), (turns, *lets)
    )
    first = row.places[0]
    size = f"[{first.count}]" if first.count else ""
    declared = f"{first.element} {held}[{count}]{size};"
    edits: list[Edit] = [remove_statement(source.data, row.array.declaration)]
    for loop in row.loops:
        places = {
            p.node: f"{held}[{turn}]" + (f"[{p.within}]" if p.count else "")
            for p in row.places if contains(loop.node, p.node)
        }  # fmt: skip
        lines = unrolled(source, loop, (turn, count), places)
        before = [declared] if loop == row.loops[0] else []
        edits += in_place_of(source.data, loop, [*before, *lines])
    if not is_bounded(row.kernel):
        edits.append(bounded(row.kernel))
    text = specialised(source, row.kernel, name, count, edits)
    end = row.kernel.outer.end_byte
    return source.changed([Edit(end, end, f"\n\n{text}")], plan)
