"""A list of sessions: each with its result in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from astra_tui.present.tones import Tone
from astra_tui.present.words import NOTHING_BETTER, best_of
from astra_tui.sessions.store import ALTERED, SessionSummary, summary_and_state


class SessionEntry(SessionSummary, frozen=True):
    """A session with how good its best candidate is; figures that were altered are no results.

    `tone` is "good" only where nothing speaks against `result`, which is empty where nothing is
    better than the baseline.
    """

    result: str = ""
    tone: Tone = Tone.DIM


def session_entry(folder: Path) -> SessionEntry:
    """The entry of one session; a damaged one is listed as such."""
    summary, state = summary_and_state(folder)
    is_told = state is not None and summary.status != ALTERED
    result = best_of(state) if state is not None and is_told else NOTHING_BETTER
    return SessionEntry(**msgspec.structs.asdict(summary), result=result.words, tone=result.tone)


def in_tree_order(sessions: Sequence[SessionEntry]) -> Iterator[tuple[int, SessionEntry]]:
    """Each session with how many parents it has in the list, after its parent."""
    names = {s.name for s in sessions}
    children: dict[str, list[SessionEntry]] = {}
    for s in sessions:
        children.setdefault(s.parent if s.parent in names else "", []).append(s)
    stack = [(0, s) for s in reversed(children.pop("", []))]
    while stack:
        depth, s = stack.pop()
        yield depth, s
        stack += [(depth + 1, child) for child in reversed(children.pop(s.name, []))]
    for circle in children.values():  # Names that go round: no engine wrote these.
        yield from ((0, s) for s in circle)
