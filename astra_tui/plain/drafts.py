"""What `astra-tui new` wrote and what it leaves open, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from astra_tui.model.open_point import OpenPoint
from astra_tui.plain.console import console
from astra_tui.plain.output import visible


def print_draft(
    folder: Path,
    files: Sequence[str],
    origin: Sequence[str],
    open_points: Sequence[str],
    problems: Sequence[str],
) -> None:
    """The files, where they come from, the open points as a numbered list, the next command."""
    out = console()
    upstream = sum(file.startswith("upstream/") for file in files)
    own = ", ".join(file for file in files if not file.startswith("upstream/"))
    out.print(f"wrote {own}{f' and {upstream} files in upstream/' if upstream else ''} in {folder}")
    for line in origin:
        out.print(visible(line))
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


def draft_question(point: OpenPoint, source: Sequence[str]) -> Iterator[str]:
    """An open point with its line of the source and the choices, in lines."""
    yield f"\n{visible(point.text)}"
    if 0 < point.line <= len(source):
        yield f"{point.line:5} | {visible(source[point.line - 1].strip())}"
    for guess in point.guesses:
        if guess.choices:
            yield f"{guess.key}: one of {visible(', '.join(guess.choices))}"


def print_kernels(by_file: Mapping[str, Sequence[tuple[int, str]]]) -> None:
    """Lines and names of kernels, file by file."""
    out = console()
    for file, kernels in by_file.items():
        out.print(visible(file))
        for line, name in kernels:
            out.print(f"  {line:6}  {visible(name)}")
