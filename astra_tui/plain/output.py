"""Output to a terminal or a pipe: remarks that cannot act on the terminal, JSON, progress."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, TextIO

from rich.cells import cell_len

from astra_tui.model.visible import harmless

_LIVE_SECONDS = 0.1
_PROGRESS_SECONDS = 2.0
_STEP_SECONDS = 5.0
_MEGABYTE = 1_000_000


def is_live() -> bool:
    """Whether stderr is a terminal on which lines can be rewritten."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def note(text: str, file: TextIO | None = None) -> None:
    """One remark, on stderr unless told otherwise; a terminal gets it wrapped between words."""
    file = file or sys.stderr
    lines = harmless(text).split("\n")
    columns = terminal_size(file).columns if file.isatty() else 0
    if columns and max(map(cell_len, lines)) > columns:
        from astra_tui.present.layout import Span, line_text, wrapped_line

        laid_out = (wrapped_line((Span(line),), columns, 2, keeps_words=True) for line in lines)
        lines = [line_text(piece) for pieces in laid_out for piece in pieces]
    print("\n".join(lines), file=file)


def terminal_size(file: TextIO) -> os.terminal_size:
    """That of the terminal that a file is, unless COLUMNS says otherwise."""
    with suppress(OSError):
        found = os.get_terminal_size(file.fileno())
        if found.columns and not os.environ.get("COLUMNS"):
            return found
    return shutil.get_terminal_size()


def print_json(data: Any) -> None:
    """One JSON object on stdout, in the layout that docs/json.md describes."""
    from astra_tui.present.document import as_json

    sys.stdout.write(as_json(data))


class LiveLine:
    """A line on stderr that is rewritten where the terminal can, else a line every few seconds."""

    def __init__(self, pause: float) -> None:
        self._live = is_live()
        self._pause = _LIVE_SECONDS if self._live else pause
        self._last = 0.0 if self._live else time.monotonic()  # A live line shows at once.

    def show(self, live: str, otherwise: str = "", *, now: bool = False) -> None:
        """Shows a text, unless another was shown just before; in a pipe, where given, the other."""
        if time.monotonic() - self._last <= self._pause and not (now and self._live):
            return
        self._last = time.monotonic()
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._write(harmless(live)[:width])
        else:
            note(otherwise or live)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Removes the live line."""
        if self._live:
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Progress on stderr; what it gives is called for each case."""
    started, done = time.monotonic(), 0

    def advance() -> None:
        nonlocal done
        done += 1
        cases = f"{done}/{max(done, total)} cases"
        line.show(f"{cases}  {what}", f"{what}: {cases}, {time.monotonic() - started:.0f} s")

    with LiveLine(_PROGRESS_SECONDS) as line:
        yield advance


class Steps(LiveLine):
    """The steps of a command on stderr: what is being done, and how many bytes of it arrived."""

    def __init__(self) -> None:
        super().__init__(_STEP_SECONDS)
        self._name = ""

    def begin(self, name: str) -> Steps:
        """Shows the next step, which takes the place of the one before."""
        self._name = name
        self.show(name, now=True)
        return self

    def __call__(self, size: int) -> None:
        """Shows the step with the bytes that have come."""
        self.show(f"{self._name}: {size / _MEGABYTE:.0f} MB")
