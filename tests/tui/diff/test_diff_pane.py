"""The diff pane under keys and mouse: hunks, folds, notes, search, hostile text, long diffs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input

from astra_tui.model.hunks import apply_hunks, shown_lines, split_lines, unified_diff
from astra_tui.model.matching import MAX_PASSES, count_passes
from astra_tui.model.visible import is_harmless
from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark, MarkKind
from astra_tui.tui.widgets.diff.alignment import is_quick
from astra_tui.tui.widgets.diff.diff_pane import DiffPane
from astra_tui.tui.widgets.diff.rows import CodeRow, DiffView, FoldRow, HeaderRow
from tests.tui.diff.screen import NARROW, WIDE, opened, run, screen_lines, until

ROOT = Path(__file__).resolve().parents[3]
NEW = (ROOT / "kernels/silu_and_mul/tuned.cu").read_text()
OLD = (
    NEW.replace("block=256", "block=128")
    .replace("const P g = gate[i];", "const P g = __ldg(&gate[i]);")
    .replace("tuned by hand", "as it was")
    .replace("out[token * d + i] =", "out[i + token * d] =")
)
MARKS = (
    LineMark(44, MarkKind.FINDING, "global_out_of_bounds: an access outside every buffer"),
    LineMark(20, MarkKind.ERROR, 'identifier "up" is undefined'),
)
COLUMNS = (LineColumn("sectors", {33: "32768", 48: "12"}),)
VIEW = DiffView(OLD, NEW, "baseline", "round 3", MARKS, COLUMNS, COLUMNS, choosable=True)


def shown(view: DiffView | None = VIEW) -> DiffPane:
    pane = DiffPane(id="diff")
    pane.show(view)
    return pane


@pytest.mark.parametrize("size", [NARROW, WIDE])
def test_the_diff_is_on_the_screen_and_the_cursor_on_its_first_hunk(size: tuple[int, int]) -> None:
    async def test() -> None:
        async with opened(shown(), size) as pilot:
            lines = screen_lines(pilot)
            assert "baseline → round 3 · 3 hunks · +3 −3 · 1 error, 1 finding" in lines[0]
            assert "sectors" in lines[1]
            assert lines[2].startswith(">[x] Hunk 1 of 3, line 1 → 1, +1 −1")
            assert " 1    " in lines[3]
            assert "- // silu_and_mul as it was" in lines[3]
            assert any("+ // silu_and_mul tuned" in line for line in lines[4:6])

    run(test())


def test_keys_go_from_hunk_to_hunk_and_around() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            seen = []
            for key in ("J", "ctrl+down", "J", "K"):
                await pilot.press(key)
                seen.append(pane.lines.rows[pane.lines.cursor])
            assert seen == [HeaderRow(1), HeaderRow(2), HeaderRow(0), HeaderRow(2)]
            assert any(line.startswith(">[x] Hunk 3 of 3") for line in screen_lines(pilot))

    run(test())


def test_space_refuses_a_hunk_in_words_and_tells_what_the_model_understands() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            assert pane.accepted_hunks is None
            await pilot.press("J", "space")
            await until(pilot, lambda: bool(pilot.app.told))
            (message,) = pilot.app.told
            assert (message.hunks, message.accepted) == ((1,), {0, 2})
            assert pane.accepted_hunks == (0, 2)
            lines = screen_lines(pilot)
            assert any(
                line.startswith(">[ ] Hunk 2 of 3, line 33 → 33, +1 −1, refused") for line in lines
            )
            assert "2 of 3 hunks accepted" in lines[0]
            made = apply_hunks(OLD, NEW, pane.accepted_hunks)
            assert "tuned by hand" in made
            assert "__ldg" in made
            await pilot.press("asterisk")
            assert pane.accepted_hunks is None
            await pilot.press("asterisk")
            assert pane.accepted_hunks == ()

    run(test())


def test_lines_are_chosen_one_by_one_and_hunks_with_what_they_need() -> None:
    old = "/* @launch\n  k<T> grid=n\n*/\n" + "".join(f"// {n}\n" for n in range(9)) + "a\nb\nc\n"
    new = old.replace("k<T>", "wide<T>").replace("a\nb\nc\n", "void wide();\nb2\nc\nd\n")

    async def test() -> None:
        pane = shown(DiffView(old, new, choosable=True))
        async with opened(pane) as pilot:
            needs = [line.strip() for line in screen_lines(pilot) if "needs" in line]
            assert needs == ["needs hunk 2: wide"]
            await pilot.press("J", "space")
            assert pane.accepted_hunks == (), "a launch goes with its kernel"
            await pilot.press("K", "j", "space")  # Below the header, as on it.
            assert pane.accepted_hunks is None
            await pilot.press("J", "j", "j", "space")  # The second line that is removed.
            assert (pane.accepted_hunks, pane.left_out) == (None, (2,))
            made = apply_hunks(old, new, {0, 1}, pane.left_out)
            assert made == new.replace("b2\n", "b\n")
            assert "without 1 line" in screen_lines(pilot)[0]
            assert (
                shown_lines(old, new, {0, 1}, pane.left_out)
                == tuple(range(len(new.split())))[: len(made.splitlines())]
            )
            pane.show(replace(pane.view, marks=()))  # type: ignore[type-var]
            await pilot.press("space")
            assert pane.left_out == ()

    run(test())


def test_nothing_is_chosen_where_nothing_is_to_be_decided() -> None:
    async def test() -> None:
        pane = shown(replace(VIEW, choosable=False))
        async with opened(pane) as pilot:
            await pilot.press("space", "asterisk")
            assert pane.accepted_hunks is None
            assert not pilot.app.told
            assert not any("[x]" in line for line in screen_lines(pilot))

    run(test())


def test_a_decided_diff_shows_which_hunks_were_accepted() -> None:
    async def test() -> None:
        pane = shown(replace(VIEW, choosable=False, accepted=frozenset({1})))
        async with opened(pane) as pilot:
            assert screen_lines(pilot)[2].startswith(">[ ] Hunk 1 of 3")

    run(test())


def test_folds_open_and_close() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            folds = [i for i, row in enumerate(pane.lines.rows) if isinstance(row, FoldRow)]
            pane.lines.cursor = folds[0]
            await pilot.press("enter")
            assert len([r for r in pane.lines.rows if isinstance(r, FoldRow)]) == len(folds) - 1
            row = pane.lines.rows[pane.lines.cursor]
            assert isinstance(row, CodeRow)
            assert (row.new, row.hunk) == (4, -1)
            await pilot.press("minus")
            assert len([r for r in pane.lines.rows if isinstance(r, FoldRow)]) == len(folds)
            pane.lines.cursor = folds[0]
            before = pane.lines.rows[folds[0]].hidden
            await pilot.press("plus")
            fold = pane.lines.rows[pane.lines.cursor]
            assert isinstance(fold, FoldRow)
            assert fold.hidden < before

    run(test())


def test_side_by_side_and_back_keeps_the_place() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane, WIDE) as pilot:
            await pilot.press("J", "s")
            assert pane.lines.rows[pane.lines.cursor] == HeaderRow(1)
            below = screen_lines(pilot)[screen_row(pane) + 1]
            left, right = below.split("│")
            assert "- " in left
            assert "__ldg(&gate[i]);" in left
            assert "+ " in right
            assert "const P g = gate[i];" in right
            await pilot.press("s")
            assert pane.lines.rows[pane.lines.cursor] == HeaderRow(1)

    run(test())


def screen_row(pane: DiffPane) -> int:
    """Where the cursor is on the screen."""
    return pane.lines.region.y + pane.lines.cursor - pane.lines.scroll_offset.y


def test_keys_go_to_messages_inside_folds_and_enter_asks_for_the_line() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            await pilot.press("m")
            lines = screen_lines(pilot)
            assert lines[screen_row(pane)].startswith(">")
            assert '└ error: identifier "up" is undefined' in lines[screen_row(pane)]
            assert lines[screen_row(pane) - 1][1] == "E"
            await pilot.press("m")
            assert "finding: global_out_of_bounds" in screen_lines(pilot)[screen_row(pane)]
            await pilot.press("enter")
            await until(pilot, lambda: bool(pilot.app.told))
            assert pilot.app.told[0].line == 44

    run(test())


def test_search_finds_folded_lines_and_goes_around() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            await pilot.press("slash", *"include", "enter")
            assert pane.lines.has_focus
            assert "match 1 of 3" in screen_lines(pilot)[0]
            assert "#include <cuda_bf16.h>" in screen_lines(pilot)[screen_row(pane)]
            await pilot.press("apostrophe")
            assert "match 3 of 3" in screen_lines(pilot)[0]
            await pilot.press("semicolon", "f3")
            assert "match 2 of 3" in screen_lines(pilot)[0]
            await pilot.press("slash", "enter")
            assert "match" not in screen_lines(pilot)[0]

    run(test())


def test_words_typed_into_the_search_are_no_keys_of_the_pane() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            await pilot.press("slash", *"s c", "asterisk", "space")
            assert pane.accepted_hunks is None
            assert not pane.lines.side_by_side
            assert pane.query_one(Input).value == "s c* "
            await pilot.press("escape")
            assert pane.lines.has_focus

    run(test())


def test_the_same_diff_with_other_marks_keeps_place_and_choice() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            await pilot.press("J", "space")
            pane.show(replace(VIEW, marks=()))
            await pilot.pause()
            assert pane.accepted_hunks == (0, 2)
            assert pane.lines.rows[pane.lines.cursor] == HeaderRow(1)
            pane.show(replace(VIEW, new=NEW + "// more\n"))
            await pilot.pause()
            assert pane.accepted_hunks is None
            assert pane.lines.rows[pane.lines.cursor] == HeaderRow(0)
            pane.show(None)
            await pilot.pause()
            assert screen_lines(pilot)[0].startswith("No diff")

    run(test())


def test_the_last_choice_of_hunks_stays_while_something_else_is_looked_at() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            await pilot.press("space", "space", "J", "space")
            for other in (None, replace(VIEW, new=NEW + "// more\n")):
                pane.show(other)
                await pilot.pause()
                assert pane.accepted_hunks is None
                pane.show(replace(VIEW, marks=()))
                await pilot.pause()
                assert pane.accepted_hunks == (0, 2)

    run(test())


def test_columns_can_be_hidden_and_long_lines_continue_below() -> None:
    long = "k<T> grid=min(ceil_div(tokens * d, 128), 256) block=128 args=(out, input, tokens, d)"

    async def test() -> None:
        pane = shown(replace(VIEW, new=NEW + f"// {long}\n"))
        async with opened(pane, (60, 30)) as pilot:
            await pilot.press("c")
            assert any("32768" in line for line in screen_lines(pilot))
            await pilot.press("c")
            assert not any("32768" in line for line in screen_lines(pilot))
            await pilot.press("G", "slash", *"tokens, d)", "enter")
            rows = [line for line in screen_lines(pilot) if " + " in line or "↪" in line]
            pieces = [re.split(r" \+ ", row, maxsplit=1)[-1] for row in rows[-2:]]
            drawn = "".join(piece.rstrip("▁▂▃▄▅▆▇█ ") for piece in pieces)
            assert long.replace(" ", "") in drawn.replace(" ", ""), rows

    run(test())


def test_the_mouse_does_the_same() -> None:
    async def test() -> None:
        pane = shown()
        async with opened(pane) as pilot:
            header = pane.lines.rows.index(HeaderRow(1))
            assert await pilot.click(pane.lines, offset=(2, header - pane.lines.scroll_offset.y))
            assert pane.accepted_hunks == (0, 2)
            assert pane.lines.cursor == header
            fold = next(i for i, r in enumerate(pane.lines.rows) if isinstance(r, FoldRow))
            count = len(pane.lines.rows)
            assert await pilot.click(pane.lines, offset=(9, fold - pane.lines.scroll_offset.y))
            assert len(pane.lines.rows) > count

    run(test())


@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_match_far_to_the_right_is_brought_into_view(side_by_side: bool) -> None:
    old = f"int a;{' ' * 300}// here\n{'x' * 2500}needle\n"

    async def test() -> None:
        pane = shown(DiffView(old, old.replace("int", "long"), "one", "two"))
        async with opened(pane) as pilot:
            if side_by_side:
                await pilot.press("s")
            for word in ("here", "needle"):
                await pilot.press("slash", *word, "enter")
                assert any(word in line for line in screen_lines(pilot)[1:])

    run(test())


HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 [b]bold[/b] [/nothing] \u202eabc\u2066 a\u200bb \x00 \ud800 \t \r "
    "\x9b31m \U0001f1e9\U0001f1ea e\u0301\u0301 \u2028"
)


@pytest.mark.parametrize("key", ["down", "s"])
def test_hostile_text_is_shown_harmlessly(key: str) -> None:
    old = f"{HOSTILE}\n" + "x" * 10_000 + "\n"
    new = f"// {HOSTILE}\n" + "y" * 10_000 + f"\n{HOSTILE}\nend"
    marks = (LineMark(1, MarkKind.ERROR, HOSTILE), LineMark(99, MarkKind.FINDING, HOSTILE * 50))
    columns = (LineColumn(HOSTILE, {1: HOSTILE, 2: "[/b]"}),)
    view = DiffView(old, new, HOSTILE, HOSTILE, marks, columns, columns, choosable=True)

    async def test() -> None:
        pane = shown(view)
        async with opened(pane, WIDE) as pilot:
            await pilot.press(key)
            seen = list(screen_lines(pilot))
            for _ in range(len(pane.lines.rows)):
                await pilot.press("pagedown")
                seen += screen_lines(pilot)
                if pane.lines.cursor == len(pane.lines.rows) - 1:
                    break
            assert all(is_harmless(c) for line in seen for c in line)
            assert any("«ESC»[2J«ESC»]0;title«BEL»" in line for line in seen)
            assert any("end»" in line for line in seen)
            parts = [row.part for row in pane.lines.rows if isinstance(row, CodeRow)]
            assert max(parts) == -(-10_000 // pane.lines.wrap_room) - 1
            assert pane.text == unified_diff(old, new, HOSTILE, HOSTILE)

    run(test())


WIDE_TEXT = st.text(st.sampled_from([*"ab中文。\t\x1b🙂é ", "\u202e"]), max_size=120)


@settings(max_examples=10, deadline=None)
@given(st.lists(WIDE_TEXT, min_size=1, max_size=12), st.integers(0, 9), st.booleans())
def test_every_line_fills_its_cells_and_no_more(
    lines: list[str], scrolled: int, side_by_side: bool
) -> None:
    old = "".join(f"{line}\n" for line in lines)
    new = "".join(f"{line[3:]}文\n" for line in lines)
    marks = (LineMark(1, MarkKind.ERROR, lines[0]),)
    columns = (LineColumn("列", {1: "中文中文中文中文"}),)

    async def test() -> None:
        pane = shown(DiffView(old, new, "中文" * 50, "two", marks, columns, columns))
        async with opened(pane) as pilot:
            if side_by_side:
                await pilot.press("s")
            pane.lines.scroll_to(x=scrolled, animate=False, immediate=True)
            for y in range(pane.lines.view_height):
                strip = pane.lines.render_line(y)
                assert sum(cell_len(s.text) for s in strip) == pane.lines.view_width

    run(test())


def test_a_long_comparison_is_made_elsewhere_and_arrives() -> None:
    old = "".join(f"line {n}\n" for n in range(2600))
    new = old.replace("line", "row")
    assert not is_quick(old, new)

    async def test() -> None:
        pane = shown(DiffView(old, new, "one", "two"))
        async with opened(pane) as pilot:
            await until(pilot, lambda: pane.is_ready)
            await pilot.pause()
            assert any("Hunk 1 of" in line for line in screen_lines(pilot))

    run(test())


def test_a_comparison_that_fails_says_so_and_the_next_one_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        pane = DiffPane(id="diff")
        async with opened(pane) as pilot:
            with monkeypatch.context() as patched:
                patched.setattr(sys, "executable", "/bin/false")
                pane.show(DiffView("}\na\n" * 700, "}\nb\n" * 700, "one", "two"))
                await until(pilot, lambda: "cannot be compared" in screen_lines(pilot)[0])
            assert not pane.is_ready
            pane.show(VIEW)
            await pilot.pause()
            assert pane.is_ready
            assert "3 hunks" in screen_lines(pilot)[0]

    run(test())


def test_a_long_comparison_gives_way_to_the_next_diff() -> None:
    async def test() -> None:
        old, new = "}\na\n" * 2500, "}\nb\n" * 2500
        assert count_passes(split_lines(old), split_lines(new)) > MAX_PASSES
        pane = shown(DiffView(old, new, "one", "two"))
        async with opened(pane) as pilot:
            assert not pane.is_ready
            assert "comparing" in screen_lines(pilot)[0]
            pane.show(VIEW)
            await pilot.pause()
            assert pane.is_ready
            await until(pilot, lambda: not [w for w in pilot.app.workers if w.group == "compare"])
            assert "baseline → round 3" in screen_lines(pilot)[0]

    run(test())


def test_colours_of_a_long_diff_arrive_after_its_text() -> None:
    text = "".join(f"const float value_{n} = {n}.0f; // {n}\n" for n in range(4000))

    async def test() -> None:
        pane = shown(DiffView(text, text.replace("value_3999", "last"), "one", "two"))
        async with opened(pane) as pilot:
            await until(pilot, lambda: any("last = 3999" in line for line in screen_lines(pilot)))
            await until(pilot, lambda: has_keyword(pane, "const"))

    run(test())


def has_keyword(pane: DiffPane, word: str) -> bool:
    """Whether a word is drawn as a keyword."""
    colour = pane.lines.style_of("code--keyword").color
    strips = (pane.lines.render_line(y) for y in range(pane.lines.size.height))
    return any(
        s.text == word and s.style is not None and s.style.color == colour
        for strip in strips
        for s in strip
    )


def test_it_is_resized_and_hidden_without_losing_its_place() -> None:
    def is_at_the_third(pilot: Pilot[None]) -> bool:
        return any(line.startswith(">[ ] Hunk 3 of 3") for line in screen_lines(pilot))

    async def test() -> None:
        pane = shown()
        async with opened(pane, WIDE) as pilot:
            await pilot.press("J", "J", "space")
            await pilot.resize_terminal(*NARROW)
            await until(pilot, lambda: pilot.app.screen._compositor.size == NARROW)
            assert pane.lines.rows[pane.lines.cursor] == HeaderRow(2)
            await until(pilot, lambda: is_at_the_third(pilot))
            pane.display = False
            pane.show(replace(VIEW, marks=()))
            await pilot.pause()
            pane.display = True
            await until(pilot, lambda: is_at_the_third(pilot))

    run(test())
