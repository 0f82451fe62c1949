"""Draws the pictures of the screen in README.md and screen.md, in the app itself.

python docs/picture.py

What an engine recorded is shown as if it came in now, up to a question or to the end, in three
sizes of terminals.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

from textual.pilot import Pilot

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.model.approval import ApprovalGate
from astra_tui.model.events import AnswerAwaited, ApprovalAsked, Event, SessionClosed
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.sessions.engines import RunRequest
from astra_tui.sessions.integrity import read_session
from astra_tui.tui.app import AstraApp
from astra_tui.tui.app_io import ExitState, Preferences
from astra_tui.tui.source import Item

ROOT = Path(__file__).resolve().parent.parent
SMALL, MEDIUM, LARGE = (80, 24), (120, 36), (160, 48)
FRAMES = 10
"""So many alike, one after the other, are the picture."""

When = Callable[[Event], bool]


class Picture(NamedTuple):
    """A file, the session, the event that it waits at, the keys that are pressed, the size."""

    file: str
    session: str
    when: When
    keys: str
    size: tuple[int, int]


def _asks(gate: ApprovalGate, round_: int) -> When:
    """The question of a gate in a round."""
    return lambda event: (
        isinstance(event, ApprovalAsked)
        and (event.question.gate, event.question.round) == (gate, round_)
    )


def _end(event: Event) -> bool:
    return isinstance(event, SessionClosed)


SILU, MERGE = "h200-playbook-silu", "h200-playbook-merge"
PICTURES = (
    Picture("plan-120x36.svg", SILU, _asks(ApprovalGate.PLAN, 2), "2", MEDIUM),
    Picture("diff-80x24.svg", SILU, _asks(ApprovalGate.DIFF, 2), "3", SMALL),
    Picture("diff-160x48.svg", SILU, _asks(ApprovalGate.DIFF, 2), "3", LARGE),
    Picture("ending-120x36.svg", MERGE, _end, "6 z", MEDIUM),
)


class Recorded:
    """What an engine told, up to a place, as a source that is live; nothing can be sent to it."""

    player = None

    def __init__(self, folder: Path, when: When):
        self.folder = folder
        records = read_session(folder).timeline.records
        place = next(n for n, r in enumerate(records, 1) if when(r.event))
        self._items: list[Item] = list(records[:place])
        if isinstance(asked := records[place - 1].event, ApprovalAsked):
            self._items.append(AnswerAwaited(asked.question))

    @property
    def engine(self) -> Recorded:
        """Itself."""
        return self

    async def items(self) -> AsyncIterator[Item]:
        """All of it at once, then nothing."""
        for item in self._items:
            yield item
        await asyncio.Event().wait()

    async def close(self) -> None:
        """There is nothing to close."""


def _request(task: str) -> RunRequest:
    return RunRequest(task, RunSettings(task, TeamKind.PLAYBOOK))


async def draw(picture: Picture) -> str:
    """The SVG of a session at its place, with a pane in front."""
    source = Recorded(ROOT / "sessions" / picture.session, picture.when)

    async def opened() -> Recorded:
        return source

    app = AstraApp(opened, preferences=Preferences(request_for=_request), tick=0.0)  # type: ignore[arg-type]
    async with app.run_test(size=picture.size) as pilot:
        while getattr(app.screen, "view", None) is None:
            await pilot.pause()
        await pilot.press(*picture.keys.split())
        screen = app.screen
        bars = ("#approval", "#ending")
        while not any(screen.query_one(bar).display for bar in bars):
            await pilot.pause(0.1)  # It waits until no key was pressed for a while.
        return await _settled(app, pilot)


async def _settled(app: AstraApp, pilot: Pilot[ExitState]) -> str:
    """The picture once it stays the same: highlighting continues between frames."""
    drawn, same = "", 0
    while same < FRAMES:
        await pilot.pause(0.05)
        before, drawn = drawn, app.export_screenshot(title="astra-tui")
        same = same + 1 if drawn == before else 0
    return drawn


def main() -> None:
    """Writes the pictures next to the pages."""
    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    for picture in PICTURES:
        (folder / picture.file).write_text(asyncio.run(draw(picture)), encoding="utf-8")


if __name__ == "__main__":
    main()
