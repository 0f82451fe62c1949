"""The source pane: lines, columns next to them, messages, search, going to a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.model.visible import is_harmless
from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark, MarkKind
from astra_tui.tui.widgets.source.sass import SourceView
from astra_tui.tui.widgets.source.source_pane import SourcePane
from tests.tui.diff.screen import NARROW, WIDE, opened, run, screen_lines, until
from tests.tui.diff.test_diff_pane import HOSTILE

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "kernels/silu_and_mul/tuned.cu").read_text()
COLUMNS = (
    LineColumn("requests", {33: "1024", 2: "7"}),
    LineColumn("SASS", {33: "LDG.E.128.CONSTANT R4"}, max_width=16, align_right=False),
)
MARKS = (
    LineMark(40, MarkKind.ERROR, 'identifier "up" is undefined'),
    LineMark(0, MarkKind.WARNING, "of no line"),
)
VIEW = SourceView(TEXT, "round 3", MARKS, COLUMNS)


def shown(view: SourceView | None = VIEW) -> SourcePane:
    pane = SourcePane(id="source")
    pane.show(view)
    return pane


@pytest.mark.parametrize("size", [NARROW, WIDE])
def test_lines_and_columns_stand_beside_each_other(size: tuple[int, int]) -> None:
    async def test() -> None:
        async with opened(shown(), size) as pilot:
            lines = screen_lines(pilot)
            assert lines[0].startswith("round 3 · 50 lines · 1 error, 1 warning")
            assert lines[1].startswith("      requests SASS")
            assert lines[2].startswith(">W  1 " + " " * 26 + "// silu_and_mul")
            assert "└ warning: of no line" in lines[3]
            assert lines[4].startswith("    2        7" + " " * 18 + "// kernel")
            await pilot.press("c")
            assert screen_lines(pilot)[1].startswith(">W  1 // silu_and_mul")

    run(test())


def test_a_value_that_is_too_wide_is_cut_with_a_mark() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            pane.go_to_line(33)
            await pilot.pause()
            line = next(line for line in screen_lines(pilot) if line.startswith(">"))
            assert "  33     1024 LDG.E.128.CONST…     const P g = gate[i];" in line

    run(test())


def test_going_to_a_line_by_number() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            await pilot.press("colon", "4", "8", "enter")
            assert pane.lines.line == 48
            assert pane.lines.has_focus
            assert any(
                line.startswith(">   48 ") or line[:5] == ">  48" for line in screen_lines(pilot)
            )
            for keys in (["colon", "x", "enter"], ["colon", "escape"]):
                await pilot.press(*keys)
                assert pane.lines.line == 48
            await pilot.press("colon", *"9999", "enter")
            assert pane.lines.line == 50

    run(test())


def test_errors_and_matches_are_reached_by_keys() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            await pilot.press("m", "m")
            assert pane.lines.line == 40
            await pilot.press("slash", *"silu(", "enter")
            assert "match 3 of 3" in screen_lines(pilot)[0]
            assert pane.lines.line == 48
            await pilot.press("semicolon")
            assert pane.lines.line == 18

    run(test())


def test_other_columns_keep_the_place_and_another_text_does_not() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            pane.go_to_line(30)
            pane.show(replace(VIEW, columns=(), marks=()))
            assert pane.lines.line == 30
            pane.show(replace(VIEW, text="int a;\n"))
            assert pane.lines.line == 1
            pane.show(None)
            await pilot.pause()
            assert screen_lines(pilot)[0].startswith("No source")

    run(test())


def test_hostile_text_is_shown_harmlessly() -> None:
    marks = (LineMark(1, MarkKind.ERROR, HOSTILE),)
    columns = (LineColumn(HOSTILE, {1: HOSTILE, 2: "[/b]"}, max_width=40),)
    view = SourceView(f"{HOSTILE}\n" + "x" * 10_000 + f"\n{HOSTILE}\n", HOSTILE, marks, columns)

    async def test() -> None:
        pane = shown(view)
        async with opened(pane, WIDE) as pilot:
            seen = screen_lines(pilot)
            assert all(is_harmless(c) for line in seen for c in line)
            assert sum("«ESC»[2J«ESC»]0;title«BEL» [b]bold[/b]" in line for line in seen) >= 3
            assert sum("↪" in line for line in seen) == 9

    run(test())


def test_an_empty_source_has_no_rows() -> None:
    async def test() -> None:
        pane = shown(SourceView("", "empty"))
        async with opened(pane) as pilot:
            await pilot.press("down", "m", "slash", "a", "enter", "colon", "3", "enter", "y")
            assert pane.lines.row_count == 0
            await until(pilot, lambda: "not found" in screen_lines(pilot)[0])

    run(test())
