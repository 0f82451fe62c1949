"""Forms and the editor for code: nothing that was typed is lost without a word."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from astra_tui.model.check import Case
from astra_tui.model.errors import UserError
from astra_tui.model.fold import fold
from astra_tui.tui.forms import case_note
from astra_tui.tui.screens.form import NOT_TAKEN, CodeEditor, Field, FormScreen
from astra_tui.tui.view import Choice, View
from astra_tui.tui.widgets.bars import BarLine, KeyLine
from astra_tui.tui.widgets.prompt_line import PromptLine
from tests.sessions.samples import whole_session
from tests.tui.harness import WIDE, Desk, on_a_loop, seated
from tests.tui.test_typing import Asker

FIELDS = (Field("title", "title", "a"), Field("why", "why", "b"))


class Strict(Asker):
    """An engine whose task has other sizes than those of a first try."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.cases: list[Case] = []
        self.notes: list[str] = []

    async def case(self, case: Case) -> None:
        if "q" in case.dims:
            raise UserError("q is no dimension of the task: it needs a size for each of tokens, d")
        self.cases.append(case)

    async def note(self, text: str) -> None:
        self.notes.append(text)


@asynccontextmanager
async def asked(engine: Asker, size: tuple[int, int] = WIDE) -> AsyncIterator[Desk]:
    """A session screen on an engine that asks about a plan."""

    async def opened() -> Asker:
        return engine

    async with seated(opened, size) as desk:  # type: ignore[arg-type]
        engine.ask()
        await desk.asked("plan")
        yield desk


def problem(desk: Desk) -> str:
    return str(desk.app.screen.query_one("#problem").text)  # type: ignore[attr-defined]


@on_a_loop
async def test_a_changed_form_is_dropped_by_the_second_esc(tmp_path: Path) -> None:
    results: list[Mapping[str, str] | None] = []
    async with asked(Asker(tmp_path)) as desk:
        await desk.app.push_screen(FormScreen("Edit", FIELDS, lambda _: None), results.append)
        await desk.press("x", "escape")
        assert problem(desk) == NOT_TAKEN
        await desk.press("y", "escape")
        assert not results, "it was changed since that was said"
        await desk.press("z", "ctrl+q")
        assert not results, "leaving asks as well"
        await desk.press("escape")
        assert results == [None]
        await desk.app.push_screen(FormScreen("Edit", FIELDS, lambda _: None), results.append)
        await desk.press("f1")
        await desk.until(lambda: desk.app.screen.query("HelpScreen LinesView"), "help on the form")
        await desk.press("escape", "escape")
        assert results == [None, None], "nothing was changed"


@on_a_loop
async def test_changed_code_is_dropped_by_the_second_esc(tmp_path: Path) -> None:
    results: list[str | None] = []
    async with asked(Asker(tmp_path)) as desk:
        await desk.app.push_screen(CodeEditor("k.cu", "old"), results.append)
        head = desk.app.screen.query_one("#head", BarLine)
        await desk.press("x", "escape")
        await desk.until(lambda: NOT_TAKEN in head.text, "the warning")
        await desk.press("y")
        await desk.until(lambda: NOT_TAKEN not in head.text, "the warning is over")
        await desk.press("escape")
        await desk.until(lambda: NOT_TAKEN in head.text, "the warning")
        await desk.press("ctrl+s")
        assert results == ["xyold"]
        await desk.app.push_screen(CodeEditor("k.cu", "old"), results.append)
        await desk.press("x", "escape", "escape")
        assert results[1:] == [None]
        await desk.app.push_screen(CodeEditor("k.cu", "old"), results.append)
        await desk.press("escape")
        assert results[2:] == [None], "nothing was changed"


@pytest.mark.parametrize("pasted", ["one\ntwo  three", "\n one\r\n\n\ttwo  three\n"])
def test_all_lines_of_what_is_pasted_into_a_note_are_sent(pasted: str, tmp_path: Path) -> None:
    @on_a_loop
    async def test() -> None:
        engine = Strict(tmp_path)
        async with asked(engine) as desk:
            await desk.press("n", *"so ")
            field = desk.session.query_one(PromptLine).query_one(Input)
            field.post_message(events.Paste(pasted))
            await desk.until(lambda: "three" in field.value, "what was pasted")
            await desk.press("!", "enter")
            await desk.until(lambda: engine.notes, "the note")
            assert engine.notes == ["so one two  three!"]

    test()


@on_a_loop
async def test_a_case_that_the_engine_refuses_stays_in_its_form(tmp_path: Path) -> None:
    engine = Strict(tmp_path)
    async with asked(engine) as desk:
        await desk.press("t")
        await desk.until(lambda: desk.app.screen.query("#dims"), "the form")
        form = desk.app.screen
        assert "sizes, for example: tokens = 16, d = 513" in form.query_one("#note").text  # type: ignore[attr-defined]
        for field, text in (("case_name", "mine"), ("dims", "tokens = 3, q = 4")):
            form.query_one(f"#{field}", Input).value = text
        await desk.press("ctrl+s")
        await desk.until(lambda: "q is no dimension of the task" in problem(desk), "the refusal")
        assert form.query_one("#case_name", Input).value == "mine"
        form.query_one("#dims", Input).value = "tokens = 3, d = 4"
        await desk.press("ctrl+s")
        await desk.told("case 'mine': all candidates from now on are checked with it")
        assert [case.dims for case in engine.cases] == [{"tokens": 3, "d": 4}]


@on_a_loop
async def test_a_form_keeps_its_keys_where_there_is_little_room(tmp_path: Path) -> None:
    async with asked(Asker(tmp_path), (40, 10)) as desk:
        fields = tuple(Field(f"f{n}", f"f{n}", str(n)) for n in range(12))
        await desk.app.push_screen(FormScreen("Edit", fields, lambda _: None, note="note " * 12))
        keys = desk.app.screen.query_one(KeyLine)
        await desk.until(lambda: 0 < keys.region.bottom < 10, "the keys")
        assert "Done" in keys.text
        await desk.press("x", "escape")
        assert problem(desk) == NOT_TAKEN
        await desk.until(lambda: 0 < keys.region.bottom < 10, "the keys")


def test_the_note_of_a_case_names_the_sizes_of_the_task() -> None:
    state = fold(whole_session())
    view = View(state, Choice(0), following=True)
    dims = next(c.results[0].case.dims for c in state.candidates.values() if c.results)
    for name in dims:
        assert f"{name} = " in case_note(view)
    assert "for example" not in case_note(view)
