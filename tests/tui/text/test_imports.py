"""What the panes load, and what the process that compares loads."""

from __future__ import annotations

import pytest

from tests.test_imports import modules_after

HEAVY = {"textual", "torch", "cuda", "openai", "numpy", "pygments", "rich", "asyncio"}


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("astra_tui.tui.widgets.diff.alignment", set()),
        ("astra_tui.tui.text.document", {"rich"}),
        ("astra_tui.tui.widgets.diff.diff_pane", {"textual", "rich", "asyncio"}),
        ("astra_tui.tui.widgets.source.source_pane", {"textual", "rich", "asyncio"}),
    ],
)
def test_only_what_is_needed_is_loaded(module: str, allowed: set[str]) -> None:
    loaded = {name.partition(".")[0] for name in modules_after(f"import {module}")}
    assert loaded & HEAVY <= allowed
