"""The moves, one a file."""

from astra_tui.agents.playbook.api import Move
from astra_tui.agents.playbook.moves.hoist_invariants import HoistInvariants
from astra_tui.agents.playbook.moves.row_per_block import RowPerBlock
from astra_tui.agents.playbook.moves.shuffle_reduction import ShuffleReduction
from astra_tui.agents.playbook.moves.wide_accesses import WideAccesses


def all_moves() -> tuple[Move, ...]:
    """Every move of the playbook, in a fixed order."""
    return (HoistInvariants(), WideAccesses(), ShuffleReduction(), RowPerBlock())
