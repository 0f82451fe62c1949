"""The doctor's probes in words."""

from __future__ import annotations

from rich.text import Text

from astra_tui.model.health import Health, Probe
from astra_tui.plain.output import console, visible

_STYLES = {Health.OK: "green", Health.MISSING: "yellow", Health.BROKEN: "bold red"}


def print_probe(probe: Probe) -> None:
    """One probe: its outcome, and for what is missing what it would add and how to get it."""
    out = console()
    mark = Text(f"{probe.health.value:<8}", style=_STYLES[probe.health])
    out.print(Text.assemble(mark, f"{probe.name:<17} {visible(probe.detail)}"))
    if probe.health is not Health.OK:
        out.print(f"{'':8}{'':17}  gives: {probe.gives}")
        if probe.remedy:
            out.print(f"{'':8}{'':17}  get it: {visible(probe.remedy)}")
