"""The lines of a journal that is being written, in step with the engine that writes it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from astra_tui.sessions.journal_lines import JOURNAL_NAME, encode_record
from astra_tui.sessions.journal_reader import parse_journal
from astra_tui.sessions.safe_open import reading


class Tail:
    """Reads a journal line by line from where it ends at the start.

    What came before `next_line`'s next line is the past, what it returns is the present: a front
    end that gets the one and then the other misses nothing and sees nothing twice.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._open = ExitStack()
        self._handle = self._open.enter_context(reading(folder, JOURNAL_NAME))
        self._handle.seek(0, os.SEEK_END)

    def next_line(self) -> bytes:
        """The next line. The engine has written it, whole, before it told of the event."""
        return self._handle.readline()

    @property
    def end(self) -> int:
        """Bytes of the past."""
        return self._handle.tell()

    def past(self, end: int) -> list[bytes]:
        """The records in the first bytes of the journal, a line each; damaged lines are left out.

        It opens the file again, so that a thread may do it.
        """
        with reading(self._folder, JOURNAL_NAME) as handle:
            content = handle.read(end)
        found = parse_journal(content, self._folder / JOURNAL_NAME)
        return [encode_record(record) for record in found.records]

    def close(self) -> None:
        """Closes the file."""
        self._open.close()
