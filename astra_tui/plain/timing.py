"""On what and how a bench measured, in lines above its tables."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.plain.console import console, indented

_PAIRED = "paired graph replay, every launch with its data outside the L2 cache (docs/timing.md)"
_PAPER = "the Astra paper's protocol: 100 launches from the host, arithmetic mean"
_PROTOCOLS = {
    "paired": f"measured by {_PAIRED}",
    "paper": f"measured by {_PAPER}",
    "both": f'measured by {_PAIRED}; "paper" is {_PAPER}',
}


def print_environment(where: str, checks: Sequence[str], protocol: str) -> None:
    """On what and how it was measured, and what was checked before; the lines above the tables."""
    out = console()
    indented(out, where, 0)
    indented(out, f"checked on the GPU: {'; '.join(checks)}", 0)
    indented(out, _PROTOCOLS[protocol], 0)
    out.print("")
