"""Where control can go in a program, and where the sides of its branches meet again."""

from __future__ import annotations

from collections.abc import Iterable

from astra_tui.emulator.step import NO_SLOTS, Flow, Step
from astra_tui.model.dominators import immediate_dominators, reverse_postorder

CONTROL = frozenset({Flow.BRANCH, Flow.TABLE, Flow.EXIT})
"""The flows of steps that may send threads elsewhere."""
_LONGEST_ASIDE = 64


class ControlFlow:
    """Where control can go, and for each branch where its sides meet again."""

    def __init__(self, steps: tuple[Step, ...]):
        self.end = len(steps)
        self.following = [tuple(steps_after(i, step, self.end)) for i, step in enumerate(steps)]
        self.meets = self._post_dominators()

    def region(self, index: int) -> tuple[frozenset[int], int]:
        """The instructions between a branch and where its sides meet; `end` where they never do."""
        meets = self.meets.get(index, self.end)
        found = {i for way in self.following[index] for i in self._reached(way, meets)}
        return frozenset(found), meets

    def sides(self, index: int, meets: int) -> tuple[int, ...]:
        """The steps that a branch may lead to, without those that only lead back to it."""
        ways = dict.fromkeys(self.following[index])
        onward = tuple(w for w in ways if index not in self._reached(w, meets))
        return onward or tuple(ways)[-1:]

    def _reached(self, start: int, meets: int) -> set[int]:
        found: set[int] = set()
        pending = [start]
        while pending:
            at = pending.pop()
            if at != meets and at < self.end and at not in found:
                found.add(at)
                pending += self.following[at]
        return found

    def _post_dominators(self) -> dict[int, int]:
        """The immediate post-dominator of each instruction that can reach the end."""
        before: list[list[int]] = [[] for _ in range(self.end + 1)]
        for index, following in enumerate(self.following):
            for after in following:
                before[after].append(index)
        return immediate_dominators(reverse_postorder(self.end, before), self.following)


def steps_after(index: int, step: Step, end: int) -> Iterable[int]:
    """The steps that may come right after a step; `end` is that of the kernel."""
    if step.flow is Flow.BRANCH:
        yield step.target
    elif step.flow is Flow.TABLE:
        yield from step.targets
    elif step.flow is Flow.EXIT:
        yield end
    if step.flow not in CONTROL or step.predicate >= 0:
        yield index + 1


def needed_slots(steps: tuple[Step, ...]) -> list[int]:
    """The register slots that may still be read from each step on, this one's own reads and those
    after it alike, as bits of a number; what else registers hold there does not matter.
    """
    end = len(steps)
    following = [tuple(steps_after(i, step, end)) for i, step in enumerate(steps)]
    reads = [_bits(step.reads | predicate_of(step)) for step in steps]
    kept = [-1 if step.predicate >= 0 else ~_bits(step.writes) for step in steps]
    before, after = [0] * (end + 1), [0] * end
    changed = True
    while changed:
        changed = False
        for index in range(end - 1, -1, -1):
            out = 0
            for way in following[index]:
                out |= before[way]
            into = reads[index] | (out & kept[index])
            if into != before[index]:
                before[index], changed = into, True
            after[index] = out
    return [into | out for into, out in zip(before, after, strict=False)]


def _bits(slots: Iterable[int]) -> int:
    return sum(1 << slot for slot in slots)


def predicate_of(step: Step) -> frozenset[int]:
    """The slot of a step's predicate, if it has one."""
    return frozenset((step.predicate,)) if step.predicate >= 0 else NO_SLOTS


def aside_ends(steps: tuple[Step, ...]) -> list[int]:
    """For each branch that skips steps which only compute, where it leads; 0 for any other step."""
    return [_aside_end(steps, index) for index in range(len(steps))]


def _aside_end(steps: tuple[Step, ...], index: int) -> int:
    branch = steps[index]
    if branch.flow is not Flow.BRANCH or branch.predicate < 0:
        return 0
    if not index + 1 < branch.target <= index + _LONGEST_ASIDE:
        return 0
    skipped = range(index + 1, branch.target)
    return branch.target if all(_stays(steps[i], i, branch.target) for i in skipped) else 0


def _stays(step: Step, index: int, end: int) -> bool:
    if step.flow is Flow.BRANCH:
        return index < step.target <= end
    return step.flow is Flow.NEXT and step.computes
