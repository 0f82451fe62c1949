"""What is still needed of a thread's registers, step by step."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.emulator.control_flow import needed_slots, steps_after
from astra_tui.emulator.step import Flow, Step

SLOTS = st.frozensets(st.integers(0, 4), max_size=2)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Step, ...]:
    """Steps that read and write registers, with branches anywhere; the last one ends."""
    count = draw(st.integers(0, 6))
    steps = []
    for _ in range(count):
        step = Step(draw(st.sampled_from((Flow.NEXT, Flow.BRANCH, Flow.EXIT, Flow.BARRIER))))
        step.reads, step.writes = draw(SLOTS), draw(SLOTS)
        step.predicate = draw(st.integers(-1, 4))
        step.target = draw(st.integers(0, count))
        steps.append(step)
    return (*steps, Step(Flow.EXIT))


def is_read(steps: tuple[Step, ...], start: int, slot: int) -> bool:
    """Whether any way from a step on reads a slot before it writes it: followed one by one."""
    seen: set[int] = set()
    pending = [start]
    while pending:
        index = pending.pop()
        if index in seen or index >= len(steps):
            continue
        seen.add(index)
        step = steps[index]
        if slot in step.reads or slot == step.predicate:
            return True
        if slot not in step.writes or step.predicate >= 0:
            pending += steps_after(index, step, len(steps))
    return False


@given(programs())
def test_a_slot_is_needed_where_some_way_reads_it(steps: tuple[Step, ...]) -> None:
    needed = needed_slots(steps)
    for (index, step), slot in itertools.product(enumerate(steps), range(5)):
        after = (is_read(steps, way, slot) for way in steps_after(index, step, len(steps)))
        expected = is_read(steps, index, slot) or any(after)
        assert bool(needed[index] >> slot & 1) == expected
