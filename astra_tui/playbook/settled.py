"""What a plan would change, so that a plan which gained nothing can be known again."""

from __future__ import annotations

from astra_tui.model.launch import plan_of, print_plan
from astra_tui.model.plan import Plan

GEOMETRY = frozenset(
    {
        "fit_block",
        "full_grid",
        "keep_row",
        "pack_rows",
        "row_grid",
        "row_per_block",
        "single_turn",
        "tune_block",
    }
)
"""Moves whose effect depends on how a kernel is launched, beside the code that they change."""


def region(plan: Plan, source: str) -> str:
    """The code that a plan for a source names as its places, however it is indented.

    With the launch plan where the effect depends on it. Equal regions promise equal effects: a
    move looks at these lines, and what it writes follows from them.
    """
    lines = source.splitlines()
    named = [line.strip() for p in plan.places for line in lines[p.first - 1 : p.last]]
    if plan.move not in GEOMETRY:
        return "\n".join(named)
    return "\n".join([print_plan(plan_of(source)), *named])
