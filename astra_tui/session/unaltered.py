"""What of a session can go on: all of it, or a branch from before the first altered line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from astra_tui.model.errors import Place, UserError
from astra_tui.model.events import RoundClosed
from astra_tui.session.integrity import Flaw, first_altered_line
from astra_tui.session.reading import JournalContents, journal_bytes, journal_path, parse_journal
from astra_tui.session.records import Record


def read_unaltered(folder: Path) -> JournalContents:
    """A journal of which no line was altered; the last one may end in the middle.

    Raises UserError, which names the first line that was.
    """
    path, content = journal_path(folder), journal_bytes(folder)
    found = parse_journal(content, path)
    flaw = first_altered_line(content, found.damage, path)
    if flaw is not None:
        raise cannot_go_on(flaw, folder, found.records)
    return found


def cannot_go_on(flaw: Flaw, folder: Path, records: Sequence[Record]) -> UserError:
    """What a user reads who wants to go on behind a place that was altered, the first one."""
    hint = f"what was altered does not go on; see all of it: astra-tui verify {folder}"
    kept = [r.event for r in records[: max(flaw.line - 1, 0)]]
    closed = [event.round for event in kept if isinstance(event, RoundClosed)]
    if closed:
        hint += f"; begin again before it: astra-tui fork {folder} --at r{closed[-1]}"
    return UserError(flaw.message, file=flaw.file, place=Place(flaw.line), hint=hint)
