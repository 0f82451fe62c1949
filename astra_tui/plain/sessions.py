"""Sessions and running engines in tables."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.plain.console import console, print_table, table, toned
from astra_tui.plain.output import note, visible
from astra_tui.present.numbers import minute
from astra_tui.present.sessions import SessionEntry, in_tree_order
from astra_tui.sessions.wire import Welcome


def print_sessions(sessions: Sequence[SessionEntry]) -> None:
    """One line a session, branches below their parent; what is damaged follows on stderr."""
    rows = table("session", "task", "team", "device", "status", "rounds", "started", "best")
    for depth, s in in_tree_order(sessions):
        cells = (_branch(depth, s), s.task, s.team, s.device, s.status, str(s.rounds))
        rows.add_row(*map(visible, cells), minute(s.started), toned(s.result or "-", s.tone))
    print_table(console(), rows)
    for s in sessions:
        if s.title:
            console().print(visible(f"{s.name}: {s.title}"), markup=False, highlight=False)
        for damage in s.damage:
            note(f"{s.name}: {damage}")


def _branch(depth: int, s: SessionEntry) -> str:
    if not s.parent:
        return s.name
    return f"{'  ' * depth}{s.name} (from {'' if depth else f'{s.parent} '}event {s.fork_seq})"


def print_engines(engines: Sequence[Welcome]) -> None:
    """One line a running engine."""
    rows = table("session", "task", "status", "process", "folder")
    for e in engines:
        rows.add_row(*map(visible, (e.session, e.task, e.status, str(e.pid), e.folder)))
    print_table(console(), rows)
