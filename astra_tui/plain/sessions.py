"""Sessions and running engines in tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_tui.plain.console import console, print_table, table
from astra_tui.plain.output import note, visible
from astra_tui.present.numbers import minute, short
from astra_tui.sessions.store import SessionSummary
from astra_tui.sessions.wire import Welcome


def print_sessions(sessions: Sequence[SessionSummary]) -> None:
    """One line a session, branches below their parent; what is damaged follows on stderr."""
    rows = table("session", "task", "team", "device", "status", "rounds", "best", "started")
    for depth, s in in_tree_order(sessions):
        cells = (_branch(depth, s), s.task, s.team, s.device, s.status, str(s.rounds))
        rows.add_row(*map(visible, cells), short(s.best), minute(s.started))
    print_table(console(), rows)
    for s in sessions:
        if s.title:
            console().print(visible(f"{s.name}: {s.title}"), markup=False, highlight=False)
        for damage in s.damage:
            note(f"{s.name}: {damage}")


def in_tree_order(sessions: Sequence[SessionSummary]) -> Iterator[tuple[int, SessionSummary]]:
    """Each session with how many parents it has in the list, after its parent."""
    names = {s.name for s in sessions}
    children: dict[str, list[SessionSummary]] = {}
    for s in sessions:
        children.setdefault(s.parent if s.parent in names else "", []).append(s)
    stack = [(0, s) for s in reversed(children.pop("", []))]
    while stack:
        depth, s = stack.pop()
        yield depth, s
        stack += [(depth + 1, child) for child in reversed(children.pop(s.name, []))]
    for circle in children.values():  # Names that go round: no engine wrote these.
        yield from ((0, s) for s in circle)


def _branch(depth: int, s: SessionSummary) -> str:
    if not s.parent:
        return s.name
    return f"{'  ' * depth}{s.name} (from {'' if depth else f'{s.parent} '}event {s.fork_seq})"


def print_engines(engines: Sequence[Welcome]) -> None:
    """One line a running engine."""
    rows = table("session", "task", "status", "process", "folder")
    for e in engines:
        rows.add_row(*map(visible, (e.session, e.task, e.status, str(e.pid), e.folder)))
    print_table(console(), rows)
