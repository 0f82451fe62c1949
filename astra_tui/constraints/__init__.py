"""What an engineer says of a kernel in words, read as rules that a source keeps or breaks."""

from __future__ import annotations

from astra_tui.constraints.checking import check_constraints
from astra_tui.constraints.version import Version

__all__ = ["Version", "check_constraints"]
