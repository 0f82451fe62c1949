"""stdin, stdout and stderr as every command can use them, however the shell opened them."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Output(io.FileIO):
    """A file that remembers why it could not be written; a reader that went away is not meant."""

    lost: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes, and remembers what went wrong."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.lost = error
            raise


class _Remarks(io.FileIO):
    """A file for what need not be heard: where it is full, a command continues without."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes, if that is possible."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError:
            return memoryview(data).nbytes


def mend_streams() -> None:
    """Opens streams that the shell has closed, and lets the others take any text.

    What the locale's encoding lacks is written as escapes.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        if (sys.stdin, sys.stdout, sys.stderr)[number] is None:
            _open_nothing(number, flags)  # stdout for reading: what is written there is missed.
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Output(1, "wb", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Remarks(2, "wb", closefd=False), sys.stderr)
        sys.stderr.reconfigure(line_buffering=True)


def stdout_error() -> OSError | None:
    """Why stdout could not be written, if it could not."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.lost if isinstance(raw, _Output) else None


def _open_nothing(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def _text(raw: io.FileIO, like: TextIO | None) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=raw.isatty(),
    )
