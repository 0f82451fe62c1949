"""The linear front end: tables and text for pipes, dumb terminals and screen readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from astra_tui.plain.output import note, print_json, progress

if TYPE_CHECKING:
    from astra_tui.present.document import Block

__all__ = ["note", "print_answer", "print_blocks", "print_json", "progress"]


def print_answer(answer: Any, as_json: bool, blocks: Callable[[], Sequence[Block]]) -> None:
    """The answer of a command on stdout: as one JSON object, or in lines as its document."""
    if as_json:
        print_json(answer)
    else:
        print_blocks(blocks())


def print_blocks(blocks: Sequence[Block], file: TextIO | None = None) -> None:
    """A document in lines, on stdout unless told otherwise."""
    # Rich is loaded where something is printed, so that help is quick.
    from astra_tui.plain.console import console, lines_in_colour

    out = console(file)
    for line in lines_in_colour(blocks, out.width if out.file.isatty() else None):
        out.print(line)
