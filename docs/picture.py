"""Draws the picture of the screen in README.md: a recorded session, in the app itself.

python docs/picture.py
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.model.events import BestChanged
from astra_tui.tui.app import AstraApp
from astra_tui.tui.source import SavedSource

ROOT = Path(__file__).resolve().parent.parent
SESSION = ROOT / "sessions" / "h100-playbook-silu"
PICTURES = {"screen.svg": "6", "diff.svg": "3"}
"""File, and the key of the pane that is in front."""
SIZE = (140, 40)


async def draw(key: str) -> str:
    """An SVG of the session with a pane in front, when the last best candidate was found."""
    source = SavedSource.read(SESSION)
    records = source.player.timeline.records
    found = [n for n, r in enumerate(records, 1) if isinstance(r.event, BestChanged)]

    async def opened() -> SavedSource:
        source.player.seek(found[-1])
        return source

    app = AstraApp(opened, tick=0.0)
    async with app.run_test(size=SIZE) as pilot:
        while getattr(app.screen, "view", None) is None:
            await pilot.pause()
        await pilot.press(key)
        for _ in range(50):  # Highlighting continues between frames.
            await pilot.pause()
        return app.export_screenshot(title="astra-tui")


def main() -> None:
    """Writes the pictures next to the pages."""
    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    for name, key in PICTURES.items():
        (folder / name).write_text(asyncio.run(draw(key)), encoding="utf-8")


if __name__ == "__main__":
    main()
