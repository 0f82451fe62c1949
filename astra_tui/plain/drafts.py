"""What `astra-tui new` wrote and what it leaves open, in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from astra_tui.plain.console import console
from astra_tui.plain.output import visible


def print_draft(
    folder: Path, files: Sequence[str], open_points: Sequence[str], problems: Sequence[str]
) -> None:
    """The files, the open points as a numbered list, and the next command."""
    out = console()
    out.print(f"wrote {', '.join(files)} in {folder}")
    out.print("\nfor you to confirm or decide:")
    for number, point in enumerate(open_points, 1):
        out.print(f"  {number:2}. {visible(point)}")
    if problems:
        out.print("\nthe draft does not work yet:")
        for problem in problems:
            out.print(f"  - {visible(problem)}")
    else:
        out.print("\nthe draft loads, and its baseline compiles")
    out.print(f"\nwrite or confirm reference.py, then: astra-tui check {folder}")
