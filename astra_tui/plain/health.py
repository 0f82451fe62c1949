"""The doctor's probes in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from astra_tui.model.health import Health, Probe
from astra_tui.plain.console import console, toned
from astra_tui.plain.output import visible
from astra_tui.present.tones import tone_of

_NAME_WIDTH = 17
_TEXT_AT = 8 + _NAME_WIDTH


def print_probe(probe: Probe) -> None:
    """One probe: its outcome, and for what is missing what it would add and how to get it."""
    out = console()
    mark = toned(f"{probe.health.value:<8}", tone_of(probe.health))
    out.print(Text.assemble(mark, f"{probe.name:<{_NAME_WIDTH}} {visible(probe.detail)}"))
    if probe.health is not Health.OK:
        _remark(out, "for", probe.gives)
        if probe.remedy:
            _remark(out, "needs", probe.remedy)


def _remark(out: Console, what: str, text: str) -> None:
    out.print(f"{'':{_TEXT_AT}} {what}: {visible(text)}")


def print_prognosis(lacking: Sequence[str]) -> None:
    """What the probes amount to: whether kernels can be checked here, and what to do next."""
    out = console()
    if lacking:
        out.print(f"\nkernels cannot be checked here before this works: {', '.join(lacking)}")
    else:
        out.print("\nkernels can be checked here; try: astra-tui check silu_and_mul")
