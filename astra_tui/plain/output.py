"""Output to a terminal or a pipe: text that cannot act on the terminal, tables, JSON, progress."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from astra_tui.model.visible import can_act, harmless

visible = harmless
"""What lines are made of, however foreign their words."""

_LIVE_SECONDS = 0.1
_PROGRESS_SECONDS = 2.0
_PIPE_WIDTH = 240


class _Console(Console):
    """A console on which no text can act, whatever it is part of.

    It lets the caller know when the reader of its output is gone.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """The parts of a line, of which the console's own control codes stay as they are."""
        for segment in super().render(renderable, options):
            is_harmless = segment.control or not any(map(can_act, segment.text))
            yield segment if is_harmless else segment._replace(text=visible(segment.text))

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError from None


def console(file: TextIO | None = None) -> Console:
    """A console that obeys NO_COLOR and reads no markup; a pipe gets lines of any length."""
    file = file or sys.stdout
    columns, lines = shutil.get_terminal_size()
    # Without a height, rich takes every dumb terminal to be 80 columns wide.
    return _Console(
        file=file,
        width=columns if file.isatty() else _PIPE_WIDTH,
        height=lines,
        soft_wrap=True,
        highlight=False,
        markup=False,
        emoji=False,
    )


def is_live() -> bool:
    """Whether stderr is a terminal on which lines can be rewritten."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def live_console() -> Console:
    """A console on stderr for what is rewritten in place."""
    return _Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


def note(text: str, file: TextIO | None = None) -> None:
    """One remark, on stderr unless told otherwise."""
    print(visible(text), file=file or sys.stderr)


def indented(out: Console, text: str, indent: int) -> None:
    """A paragraph with an indent, wrapped between words on a terminal and left whole in a pipe."""
    margin = " " * indent
    width = out.width if out.file.isatty() else 1 << 20
    words = textwrap.TextWrapper(
        max(width, indent + 20),
        initial_indent=margin,
        subsequent_indent=margin + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    out.print(words.fill(visible(text)))


def print_json(data: Any) -> None:
    """One JSON object on stdout, in the layout that docs/json.md describes.

    Characters that could act on a terminal are escaped: a reader of JSON gets them back.
    """
    encoded = msgspec.json.encode(data, enc_hook=str)
    text = msgspec.json.format(encoded, indent=2).decode()
    if not text.isascii():
        text = "".join(json.dumps(c)[1:-1] if can_act(c) else c for c in text)
    sys.stdout.write(text + "\n")


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


def print_pairs(rows: Mapping[str, str]) -> None:
    """Names and values, one a line."""
    width = max(map(len, rows), default=0)
    for name, value in rows.items():
        print(f"{name:<{width}}  {visible(value)}")


def table(*columns: str) -> Table:
    """A table whose last column may wrap; the others keep their words whole."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns[:-1]:
        made.add_column(column, no_wrap=True)
    made.add_column(columns[-1], overflow="fold")
    return made


def print_table(out: Console, made: Table) -> None:
    """Prints a table within the width of the terminal, with nothing after the last column."""
    with out.capture() as captured:
        out.print(made, soft_wrap=False)
    for line in captured.get().splitlines():
        out.file.write(line.rstrip() + "\n")
