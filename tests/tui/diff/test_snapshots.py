"""What the diff looks like, as SVG: one unified, one side by side.

    ASTRA_TUI_NEW_SNAPSHOTS=1 pytest tests/tui/diff/test_snapshots.py

draws them again. They follow the pinned versions of Textual and Pygments; look at them before
committing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tui.diff.screen import NARROW, WIDE, opened, run, until
from tests.tui.diff.test_diff_pane import shown

FOLDER = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize(
    ("name", "size", "keys"),
    [("unified", NARROW, ["J", "space"]), ("side_by_side", WIDE, ["s", "m"])],
)
def test_the_pane_looks_as_it_did(name: str, size: tuple[int, int], keys: list[str]) -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane, size) as pilot:
            await pilot.press(*keys)
            await until(pilot, lambda: all(d.highlighter.done for d in pane.lines.documents))
            pane.lines.repaint()
            await pilot.pause()
            drawn = pilot.app.export_screenshot(title=name)
        stored = FOLDER / f"{name}.svg"
        if os.environ.get("ASTRA_TUI_NEW_SNAPSHOTS"):
            stored.write_text(drawn)
        assert drawn == stored.read_text()

    run(test())
