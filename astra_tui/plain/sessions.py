"""Sessions and running engines in tables."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.plain.output import console, note, print_table, table, visible
from astra_tui.session.store import SessionSummary
from astra_tui.session.wire import Welcome

_HASH_LENGTH = 12


def print_sessions(sessions: Sequence[SessionSummary]) -> None:
    """One line a session; what is damaged follows on stderr."""
    rows = table("session", "task", "team", "device", "status", "rounds", "best", "started")
    for s in sessions:
        started = s.started[:16].replace("T", " ")
        cells = (s.name, s.task, s.team, s.device, s.status, str(s.rounds))
        rows.add_row(*map(visible, cells), s.best[:_HASH_LENGTH], started)
    print_table(console(), rows)
    for s in sessions:
        for damage in s.damage:
            note(f"{s.name}: {damage}")


def print_engines(engines: Sequence[Welcome]) -> None:
    """One line a running engine."""
    rows = table("session", "task", "status", "process", "folder")
    for e in engines:
        rows.add_row(*map(visible, (e.session, e.task, e.status, str(e.pid), e.folder)))
    print_table(console(), rows)
