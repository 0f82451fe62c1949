"""The team with no model: moves that find a known inefficiency in a source and rewrite it.

Moves know no task and no kernel by name. Each reads the syntax tree, the launch plan and what was
counted, rewrites the code that it finds, and says why. See docs/playbook.md.
"""

from astra_tui.playbook.api import (
    Evidence,
    Move,
    NotApplicable,
    Proposal,
)
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.moves import all_moves
from astra_tui.playbook.propose import propose, propose_all

__all__ = [
    "Evidence",
    "KernelText",
    "Move",
    "NotApplicable",
    "Proposal",
    "all_moves",
    "propose",
    "propose_all",
]
