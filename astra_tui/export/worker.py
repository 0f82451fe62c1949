"""The process in which a front end's exports are made: `python -m astra_tui.export.worker`.

An export compiles, checks and may run on a GPU, which is nothing for a process that draws a screen.
Started with READ_FD WRITE_FD; it answers one request (`Export`) and ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec

from astra_tui.model.export import ExportReport, Format
from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import read_frame, write_frame
from astra_tui.rpc import Request, ServerUnfit, serve


class Export(Request[ExportReport], frozen=True):
    """Exports the best candidate of a session's folder, which ran on the task, into a new folder.

    It is checked on the device, also with cases drawn from `fresh_seed`.
    """

    silence: ClassVar[float] = 3600.0

    session: str
    task: str
    to: Format
    out: str
    device: str
    fresh_seed: int


def main() -> None:
    """Answers the request."""
    read_fd, write_fd = int(sys.argv[1]), int(sys.argv[2])
    exit_with_parent(read_fd)
    request = msgspec.convert(read_frame(read_fd), Export)
    serve(_exported(request), lambda message: write_frame(write_fd, message))


def _exported(request: Export) -> Iterator[ExportReport]:
    # The one that asks knows `Export` alone, and loads none of this.
    from astra_tui.export import find_winner
    from astra_tui.export.exporting import open_exporter
    from astra_tui.lab.compiler import Compiler, CompilerUnavailable
    from astra_tui.lab.upstream import task_headers
    from astra_tui.model.task import load_task
    from astra_tui.sessions.integrity import read_session

    winner = find_winner(read_session(Path(request.session)))
    task = load_task(Path(request.task))
    try:
        with (
            Compiler(upstream=task_headers(task)) as compiler,
            open_exporter(
                task, request.device, compiler, fresh_seed=request.fresh_seed
            ) as exporter,
        ):
            yield exporter.export(winner, request.to, Path(request.out))
    except CompilerUnavailable as error:
        raise ServerUnfit(f"the compiler does not work here: {error}") from None


if __name__ == "__main__":
    main()
