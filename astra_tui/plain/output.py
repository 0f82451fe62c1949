"""Output to a terminal or a pipe: remarks that cannot act on the terminal, JSON, progress."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from astra_tui.model.visible import can_act, harmless

if TYPE_CHECKING:
    from astra_tui.present.document import Block

visible = harmless
"""What lines are made of, however foreign their words."""

_LIVE_SECONDS = 0.1
_PROGRESS_SECONDS = 2.0
_STEP_SECONDS = 5.0
_MEGABYTE = 1_000_000


def is_live() -> bool:
    """Whether stderr is a terminal on which lines can be rewritten."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def note(text: str, file: TextIO | None = None) -> None:
    """One remark, on stderr unless told otherwise."""
    print(visible(text), file=file or sys.stderr)


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


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Progress on stderr: a live line where the terminal can, else a line every few seconds."""
    live = is_live()
    started = time.monotonic()
    shown = 0.0 if live else started  # A live line shows at once.
    done = 0
    width = shutil.get_terminal_size().columns - 1

    def advance() -> None:
        nonlocal done, shown
        done += 1
        now = time.monotonic()
        if live and now - shown > _LIVE_SECONDS:
            shown = now
            line = f"{done}/{max(done, total)} cases  {what}"
            sys.stderr.write(f"\r\x1b[K{line[:width]}")
            sys.stderr.flush()
        elif not live and now - shown > _PROGRESS_SECONDS:
            shown = now
            note(f"{what}: {done}/{max(done, total)} cases, {now - started:.0f} s")

    try:
        yield advance
    finally:
        if live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def steps() -> Iterator[Steps]:
    """The steps of a command on stderr: a live line where the terminal can, else now and then."""
    shown = Steps()
    try:
        yield shown
    finally:
        shown.clear()


class Steps:
    """Told what is being done, and how many bytes of it have arrived."""

    def __init__(self) -> None:
        self._name = ""
        self._live = is_live()
        self._last = time.monotonic()

    def begin(self, name: str) -> Steps:
        """Shows the next step, which takes the place of the one before."""
        self._name = name
        self._show(name)
        return self

    def __call__(self, size: int) -> None:
        """Shows the step with the bytes that have come."""
        self._show(f"{self._name}: {size / _MEGABYTE:.0f} MB")

    def _show(self, text: str) -> None:
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{visible(text)[:width]}")
            sys.stderr.flush()
        elif time.monotonic() - self._last > _STEP_SECONDS:
            self._last = time.monotonic()
            note(text)

    def clear(self) -> None:
        """Removes the live line."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
