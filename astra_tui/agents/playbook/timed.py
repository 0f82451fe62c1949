"""Which moves come first where times decide, and what they gained on a GPU."""

from __future__ import annotations

from msgspec.structs import replace

from astra_tui.agents.playbook.api import Proposal

SEEN_ON_H100: dict[str, tuple[float, float]] = {
    "row_grid": (1.2, 5.0),
    "wide_accesses": (1.2, 2.5),
    "full_grid": (1.0, 2.3),
    "pack_rows": (1.1, 2.2),
    "shuffle_reduction": (1.0, 1.05),
    "reciprocal": (1.0, 1.1),
    "fit_block": (1.0, 1.4),
    "keep_row": (1.0, 1.1),
    "fast_math": (1.0, 1.2),
    "store_early": (1.0, 1.2),
    "hoist_invariants": (1.0, 1.01),
    "tune_block": (1.0, 1.01),
    "cache_hints": (0.98, 1.01),
    "row_per_block": (0.3, 1.0),
}
"""Speedups of single moves on the bundled tasks on an H100 (benchmarks/results), best first.

The order is that of use: a move comes after those that it builds on. Blocks grow after the tree
reduction is gone, which needs a power of two, and after divisions, whose registers would keep
a second block off the multiprocessor; a row is kept once a thread has few turns of it.
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
