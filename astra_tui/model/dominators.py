"""Dominators of control flow graphs whose nodes are numbers: of PTX and of SASS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Edges = Mapping[int, Iterable[int]] | Sequence[Iterable[int]]
"""The nodes to which edges lead from each, or from which they come."""


def reverse_postorder(root: int, edges: Edges) -> list[int]:
    """The nodes that are reached from a root, each before those that only it leads to."""
    finished: list[int] = []
    seen = {root}
    stack = [(root, iter(edges[root]))]
    while stack:
        node, successors = stack[-1]
        fresh = next((s for s in successors if s not in seen), None)
        if fresh is None:
            finished.append(node)
            stack.pop()
        else:
            seen.add(fresh)
            stack.append((fresh, iter(edges[fresh])))
    return finished[::-1]


def immediate_dominators(order: Sequence[int], before: Edges) -> dict[int, int]:
    """The immediate dominator of each node of a reverse postorder; of its root, the root.

    Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001), figure 3.
    """
    rank = {node: i for i, node in enumerate(order)}
    found = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            nearest, *others = (p for p in before[node] if p in found)
            for other in others:
                nearest = _meet(nearest, other, found, rank)
            if found.get(node) != nearest:
                found[node] = nearest
                changed = True
    return found


def _meet(a: int, b: int, found: Mapping[int, int], rank: Mapping[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = found[a]
        while rank[b] > rank[a]:
            b = found[b]
    return a
