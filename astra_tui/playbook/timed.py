"""Which moves come first where times decide, and what they gained on a GPU."""

from __future__ import annotations

from msgspec.structs import replace

from astra_tui.playbook.api import Proposal

SEEN_ON_H100: dict[str, tuple[float, float]] = {
    "row_grid": (1.2, 3.8),
    "full_grid": (1.0, 2.3),
    "reciprocal": (0.9, 1.2),
    "fast_math": (1.0, 1.2),
    "wide_accesses": (1.1, 3.0),
    "pack_rows": (1.1, 2.3),
    "shuffle_reduction": (1.0, 1.05),
    "fit_block": (0.95, 1.35),
    "keep_row": (1.0, 1.07),
    "single_turn": (1.0, 1.1),
    "store_early": (1.0, 1.2),
    "hoist_invariants": (1.0, 1.01),
    "tune_block": (1.0, 1.01),
    "cache_hints": (0.98, 1.01),
    "row_per_block": (0.3, 1.0),
}
"""Speedups of single moves on the bundled tasks on an H100, in the order in which they help.

A grid that fills the GPU comes first. Arithmetic becomes cheap before accesses become wide: a
thread computes the elements of a pack one after the other, so that accurate functions would make
small sizes slower; and where rows are long, registers that divisions need keep blocks out. Blocks
grow once no tree reduction needs a power of two of them, and a row is kept once a thread has few
turns of it.
"""


def seen_on_gpu(proposals: list[Proposal]) -> list[Proposal]:
    """Proposals in the order of use, each with the gain that the move had on a GPU."""
    order = list(SEEN_ON_H100)
    ranked = sorted(proposals, key=lambda p: order.index(p.plan.move))
    return [_with_gain(p) for p in ranked]


def _with_gain(proposal: Proposal) -> Proposal:
    low, high = SEEN_ON_H100[proposal.plan.move]
    prediction = replace(proposal.plan.prediction, speedup_low=low, speedup_high=high)
    return replace(proposal, plan=replace(proposal.plan, prediction=prediction))
