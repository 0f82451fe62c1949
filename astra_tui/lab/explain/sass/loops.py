"""Loop depth of machine instructions: natural loops of the control flow graph.

A loop is an edge back to a block that dominates its origin, with all blocks that reach the edge
without passing that head (Aho, Lam, Sethi, Ullman: Compilers, 9.6). Loops with more than one entry
are not seen; compilers do not make them from structured code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from astra_tui.lab.explain.sass.listing import RawFunction, RawInstruction
from astra_tui.model.dominators import immediate_dominators, reverse_postorder

_JUMPS = {"BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU"}
_ENDS = {"EXIT", "RET", "KILL", "RTT", "BPT"}
_CALL, _OPEN_REGION, _CLOSE_REGION = "CALL", "BSSY", "BSYNC"
_ALWAYS = {"", "@PT", "@UPT"}

Graph = Mapping[int, tuple[int, ...]]
"""Successors of each instruction, both as indices."""


@dataclass(frozen=True)
class _Routine:
    """The instructions that are reached from one root without calls, with their own depths."""

    depths: Mapping[int, int]
    calls: tuple[tuple[int, int], ...]
    """Index of each call with the index that it calls."""


def loop_depths(function: RawFunction) -> tuple[int, ...]:
    """The number of loops around each instruction; 0 for what nothing reaches.

    A subroutine's instructions add the deepest call of it.
    """
    code = function.instructions
    places = {instruction.address: i for i, instruction in enumerate(code)}
    targets = [_places(instruction, function.labels, places) for instruction in code]
    graph = _graph(code, targets)
    roots = [0] + [t for i, at in enumerate(targets) if base(code[i]) == _CALL for t in at]
    routines = {root: _routine(root, code, targets, graph) for root in dict.fromkeys(roots)}
    deepest = _call_depths(routines)
    depths = [0] * len(code)
    for root, routine in routines.items():
        for index, depth in routine.depths.items():
            depths[index] = max(depths[index], depth + deepest[root])
    return tuple(depths)


def base(instruction: RawInstruction) -> str:
    """The opcode without modifiers."""
    return instruction.opcode.partition(".")[0]


def loops_forever(instruction: RawInstruction, labels: Mapping[str, int]) -> bool:
    """Whether it branches to itself, as the instruction does that ends a function."""
    own = tuple(labels.get(label) for label in instruction.labels) == (instruction.address,)
    return own and base(instruction) in _JUMPS and not _may_fall_through(instruction)


def _places(
    instruction: RawInstruction, labels: Mapping[str, int], places: Mapping[int, int]
) -> tuple[int, ...]:
    addresses = (labels.get(label, -1) for label in instruction.labels)
    return tuple(places[a] for a in addresses if a in places)


def _graph(code: Sequence[RawInstruction], targets: Sequence[tuple[int, ...]]) -> Graph:
    opened: dict[str, tuple[int, ...]] = {}
    graph: dict[int, tuple[int, ...]] = {}
    for i, instruction in enumerate(code):
        kind = base(instruction)
        following: tuple[int, ...] = (
            (i + 1,) if i + 1 < len(code) and _may_fall_through(instruction) else ()
        )
        if kind == _OPEN_REGION and instruction.operands:
            opened[instruction.operands[0]] = targets[i]
        elif kind in _JUMPS:
            following += targets[i]
        elif kind == _CLOSE_REGION and instruction.operands:
            # Threads that meet here continue where the region was marked to end.
            ahead = tuple(t for t in opened.get(instruction.operands[0], ()) if t > i)
            following += ahead
        graph[i] = tuple(dict.fromkeys(following))
    return graph


def _may_fall_through(instruction: RawInstruction) -> bool:
    """Whether the next instruction can follow."""
    if instruction.predicate not in _ALWAYS:
        return True
    kind = base(instruction)
    if kind in _ENDS:
        return False
    if kind not in _JUMPS:
        return True
    # `BRA P0, label` and `BRA.DIV UR4, label` carry their condition among the operands.
    return kind == "BRA" and len(instruction.operands) > 1


def _routine(
    root: int, code: Sequence[RawInstruction], targets: Sequence[tuple[int, ...]], graph: Graph
) -> _Routine:
    order = reverse_postorder(root, graph)
    before: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for successor in graph[node]:
            before[successor].append(node)
    dominators = immediate_dominators(order, before)
    depths = dict.fromkeys(order, 0)
    for members in _loops(order, graph, before, dominators):
        for member in members:
            depths[member] += 1
    calls = tuple((i, t) for i in order if base(code[i]) == _CALL for t in targets[i])
    return _Routine(depths, calls)


def _loops(
    order: Sequence[int],
    graph: Graph,
    before: Mapping[int, Iterable[int]],
    dominators: Mapping[int, int],
) -> list[set[int]]:
    """The members of each loop; edges back to one head make one loop."""
    loops: dict[int, set[int]] = {}
    for node in order:
        for head in graph[node]:
            if _dominates(head, node, dominators):
                members = loops.setdefault(head, {head})
                _add_reaching(members, node, before)
    return list(loops.values())


def _dominates(head: int, node: int, dominators: Mapping[int, int]) -> bool:
    while node != head and dominators[node] != node:
        node = dominators[node]
    return node == head


def _add_reaching(members: set[int], node: int, before: Mapping[int, Iterable[int]]) -> None:
    waiting = [node]
    while waiting:
        reached = waiting.pop()
        if reached not in members:
            members.add(reached)
            waiting.extend(before[reached])


def _call_depths(routines: Mapping[int, _Routine]) -> Mapping[int, int]:
    """For each root, the depth of the deepest call of it; a recursive call adds nothing."""
    called = {root: tuple(t for _, t in r.calls) for root, r in routines.items()}
    order = reverse_postorder(0, called)
    rank = {root: i for i, root in enumerate(order)}
    deepest = dict.fromkeys(routines, 0)
    for root in order:
        for place, target in routines[root].calls:
            if rank[target] > rank[root]:
                outer = deepest[root] + routines[root].depths[place]
                deepest[target] = max(deepest[target], outer)
    return deepest
