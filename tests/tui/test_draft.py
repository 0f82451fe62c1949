"""A draft on the screen: each point with its line and guess, answers kept, nothing lost."""

from __future__ import annotations

import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from astra_tui.cli import main
from astra_tui.cli.drafting import Drafting
from astra_tui.cli.screen import begin_draft
from astra_tui.drafting.answers import Answers, read_answers
from astra_tui.model.errors import UserError
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.task import load_task
from astra_tui.sessions.engines import RunRequest
from astra_tui.tui.app import AstraApp
from astra_tui.tui.app_io import DraftContext, HomeContext
from astra_tui.tui.approval import TYPING_PAUSE
from astra_tui.tui.screens.draft import DraftScreen
from astra_tui.tui.screens.form import FormScreen
from astra_tui.tui.screens.home import HomeScreen
from tests.drafting.test_answers import SOURCE
from tests.tui.harness import NARROW, WIDE, Clock, Desk, on_a_loop, settle


@contextlib.asynccontextmanager
async def shown(
    begin: DraftContext | HomeContext, size: tuple[int, int] = WIDE
) -> AsyncIterator[Desk]:
    clock = Clock()
    app = AstraApp(begin, clock=clock, tick=0.0)
    async with app.run_test(size=size) as pilot:
        desk = Desk(app, pilot, clock)
        await desk.until(lambda: isinstance(app.screen, DraftScreen | HomeScreen), "a screen")
        yield desk


def text(desk: Desk, selector: str) -> str:
    return str(desk.app.screen.query_one(selector).text)  # type: ignore[attr-defined]


async def choose(desk: Desk, words: str) -> None:
    """Moves to the row that says something."""

    def is_there() -> bool:
        return bool(desk.app.screen.query("#points")) and words in text(desk, "#points")

    await desk.until(is_there, words)
    await desk.press("home")
    rows = text(desk, "#points").splitlines()
    for _ in range(next(n for n, row in enumerate(rows) if words in row)):
        await desk.press("down")


async def submitted(desk: Desk) -> None:
    await desk.press("ctrl+s")
    await desk.until(lambda: isinstance(desk.app.screen, DraftScreen), "the draft")
    await settle()
    desk.clock.advance(2 * TYPING_PAUSE)


@on_a_loop
async def test_points_are_answered_with_their_line_and_leaving_loses_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "scale.cu").write_text(SOURCE)
    folder = tmp_path / "task"
    drafting = Drafting(folder, Answers(source=str(tmp_path / "scale.cu")))
    async with shown(DraftContext(drafting)) as desk:
        await choose(desk, "block: 'opaque[d]'")
        assert "plan.block" in text(desk, "#question")
        line = next(row for row in text(desk, "#source").splitlines() if "opaque" in row)
        assert line.split()[0] == "12"
        await desk.press("enter")
        await desk.press("ctrl+u", *'["no ("]', "ctrl+s")
        form = desk.app.screen
        await desk.until(lambda: "no expression" in text(desk, "#problem"), "what is wrong")
        assert isinstance(form, FormScreen)
        await desk.press("ctrl+u", *'["min(d, 64)"]')
        await submitted(desk)
        assert "block=min(d, 64)" in (folder / "baseline.cu").read_text()

        # A point about a tensor has a field for each thing that it holds; a takes all as drafted.
        await choose(desk, "x: role in")
        assert "one of in, out, inout" in text(desk, "#question")
        await desk.press("a")
        await desk.until(lambda: "args.x.role = in" in text(desk, "#points"), "the answer")
        await choose(desk, "args.x.role = in")
        await desk.press("enter", "space", "space", "escape")
        await desk.until(lambda: "esc again" in text(desk, "#problem"), "a warning")
        await desk.press("escape")
        assert "args.x.role = in" in text(desk, "#points"), "a form that is left changes nothing"

        await choose(desk, "plan.block =")
        await desk.press("enter", "ctrl+u")
        await submitted(desk)
        assert "block: 'opaque[d]'" in text(desk, "#points"), "taken back, it is open again"
        await desk.press("escape")
    kept = read_answers((folder / "answers.toml").read_text(), "answers.toml")
    assert kept.args["x"].shape == ("x_rows", "d")
    assert not kept.has("plan.block")

    # The draft continues where it was left, as long as no file of it was edited.
    assert Drafting(folder).answered == drafting.answered
    (folder / "task.toml").write_text("edited")
    with pytest.raises(UserError, match="edited since it was drafted"):
        Drafting(folder).keep()
    with pytest.raises(UserError, match="exists already"):
        Drafting(folder, Answers(source="scale.cu"))


@on_a_loop
async def test_home_drafts_a_kernel_and_compiles_it(tmp_path: Path) -> None:
    def request_for(task: str) -> RunRequest:
        return RunRequest(task, RunSettings(task, TeamKind.PLAYBOOK), sessions=str(tmp_path))

    (tmp_path / "scale.cu").write_text(SOURCE)
    home = HomeContext(tmp_path / "sessions", request_for, begin_draft)
    async with shown(home, NARROW) as desk:
        await desk.press("n")
        await desk.press(*str(tmp_path / "none.cu"), "tab", "tab", "ctrl+u", *str(tmp_path / "t"))
        await desk.press("ctrl+s")
        await desk.until(lambda: "no such file" in text(desk, "#problem"), "a refusal")
        await desk.press("shift+tab", "shift+tab", "ctrl+u", *str(tmp_path / "scale.cu"))
        await submitted(desk)
        await choose(desk, "kWidth")
        await desk.press("enter", "ctrl+u", "4")
        await submitted(desk)
        await desk.press("w")
        head = lambda: text(desk, "#head")  # noqa: E731
        await desk.until(lambda: "loads and compiles" in head() or "problem" in head(), "a result")
        assert "it loads and compiles" in head()
        await desk.press("escape")
        await desk.until(lambda: isinstance(desk.app.screen, HomeScreen), "home")
    assert '"Op::kHalve", 4,' in (tmp_path / "t" / "baseline.cu").read_text()
    load_task(tmp_path / "t")


def test_a_draft_continues_by_its_folder_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scale.cu").write_text(SOURCE)
    folder = tmp_path / "task"
    assert main(["new", str(folder), "--from", str(tmp_path / "scale.cu")]) == 0
    answers = folder / "answers.toml"
    answers.write_text(answers.read_text() + '[plan]\nblock = ["96"]\n')
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["new", str(folder)]) == 0
    assert "block=96" in (folder / "baseline.cu").read_text()
    capsys.readouterr()
    (folder / "reference.py").write_text("def reference(): ...\n")
    assert main(["new", str(folder)]) != 0
    assert "reference.py" in capsys.readouterr().err
