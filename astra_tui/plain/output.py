"""Output to a terminal or a pipe: remarks that cannot act on the terminal, JSON, progress."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TextIO

import msgspec

from astra_tui.model.visible import can_act, harmless

if TYPE_CHECKING:
    from astra_tui.present.document import Block

_LIVE_SECONDS = 0.1
_PROGRESS_SECONDS = 2.0
_STEP_SECONDS = 5.0
_MEGABYTE = 1_000_000


def is_live() -> bool:
    """Whether stderr is a terminal on which lines can be rewritten."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def note(text: str, file: TextIO | None = None) -> None:
    """One remark, on stderr unless told otherwise."""
    print(harmless(text), file=file or sys.stderr)


def print_json(data: Any) -> None:
    """One JSON object on stdout, in the layout that docs/json.md describes.

    Characters that could act on a terminal are escaped: a reader of JSON gets them back.
    """
    encoded = msgspec.json.encode(data, enc_hook=str)
    text = msgspec.json.format(encoded, indent=2).decode()
    if not text.isascii():
        text = "".join(json.dumps(c)[1:-1] if can_act(c) else c for c in text)
    sys.stdout.write(text + "\n")


def print_answer(answer: Any, as_json: bool, blocks: Callable[[], Sequence[Block]]) -> None:
    """The answer of a command on stdout: as one JSON object, or in lines as its document."""
    if as_json:
        print_json(answer)
    else:
        print_blocks(blocks())


def print_blocks(blocks: Sequence[Block]) -> None:
    """A document in lines, on stdout."""
    from astra_tui.plain.console import print_blocks

    print_blocks(blocks)


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
