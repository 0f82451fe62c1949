"""Lines from a terminal, without a thread that would keep the process alive."""

from __future__ import annotations

import asyncio
import os
import termios

_LONGEST_LINE = 4096
"""Bytes; a terminal that edits lines hands over no longer ones."""


class HungUp(Exception):
    """No one is at the terminal any more."""


class EndOfInput(Exception):
    """Someone at the terminal has ended the input (Ctrl-D)."""


class TerminalLine:
    """Reads one line at a time; a wait can be given up."""

    def __init__(self, fd: int):
        self._fd = fd
        self._reading: asyncio.Future[bytes] | None = None

    def drop_typed(self) -> None:
        """Forgets what was typed and not read. Raises HungUp."""
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error:
            raise HungUp from None

    async def read(self) -> str | None:
        """The next line without its end; None if the wait for it was given up.

        Raises EndOfInput and HungUp.
        """
        self._reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait([self._reading])
            if self._reading.cancelled():
                return None
            return self._reading.result().decode(errors="replace").rstrip("\r\n")
        finally:
            self._reading.cancel()
            self._reading = None

    def give_up(self) -> None:
        """Ends the wait for a line, if there is one."""
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
        try:
            line = os.read(self._fd, _LONGEST_LINE)
            if not line:
                termios.tcgetattr(self._fd)
        except (OSError, termios.error):
            raise HungUp from None
        if not line:
            raise EndOfInput
        return line
