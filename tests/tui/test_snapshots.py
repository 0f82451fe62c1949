"""What the session screen looks like, as SVG: narrow and wide.

    ASTRA_TUI_NEW_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py

draws them again. They follow the pinned version of Textual; look at them before committing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import (
    Case,
    CaseOutcome,
    CaseResult,
    CheckVerdict,
    FakeResult,
    OutputError,
    PropertyResult,
)
from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType
from astra_tui.model.events import (
    BestChanged,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeWritten,
    CompileFinished,
    EngineStarted,
    Event,
    PlanningFinished,
    PlanProposed,
    RoundOpened,
    SessionClosed,
    SessionOpened,
    StopReason,
    VerdictReached,
)
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.verdict import Comparison, Outcome, RoundVerdict
from astra_tui.sessions.folder import write_blob
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.timeline import Timeline
from astra_tui.tui.source import SavedSource
from tests.tui.harness import NARROW, WIDE, on_a_loop, seated

FOLDER = Path(__file__).parent / "snapshots"
OLD = "/* @launch\n   scale<T> grid=n block=1 args=(out, n)\n*/\n__global__ void scale();\n"
NEW = OLD.replace("grid=n block=1", "grid=ceil_div(n, 256) block=256")
MODEL = Author(AuthorKind.MODEL, "qwen3")


def events() -> Iterable[Event]:
    old, new = content_hash(OLD), content_hash(NEW)
    settings = RunSettings("scale", TeamKind.LLM, "emulator", model="qwen3")
    plan = Plan(
        "Use whole warps",
        "a block of one thread leaves 31 lanes of its warp idle",
        ("requests: 4,096, one a thread", "line 2: block=1"),
        "256 threads a block, one element each",
        Prediction(2.0, 8.0, Counter.REQUESTS, 0.03125),
        Risk.LOW,
    )
    error = OutputError("out", 0.31)
    good = CaseResult(Case("typical", "", DType.FLOAT16, {"n": 4096}), CaseOutcome.PASSED)
    near = CaseResult(
        Case("n=1", "", DType.FLOAT16, {"n": 1}), CaseOutcome.PASSED, outputs=(error,)
    )
    comparison = Comparison("counters", (512, 4096, 900), (512, 128, 300), {"requests": 0.03125})
    yield SessionOpened(1, "scale", "t", old, settings, {"astra-tui": "0"})
    yield EngineStarted("host", 1, 1)
    yield RoundOpened(0, 0, old)
    yield RoundOpened(1, 0, old)
    yield PlanProposed(1, 0, plan, MODEL)
    yield PlanningFinished(1)
    yield CodeWritten(1, 0, 0, new, old, MODEL, "256 threads a block")
    yield CompileFinished(new, True, (), "NVRTC", 0.05)
    yield CheckStarted(new, 2)
    yield CaseChecked(new, good)
    yield CaseChecked(new, near)
    yield CheckFinished(
        new, CheckVerdict.PASSED, "2 cases passed",
        (PropertyResult("rows permuted", DType.FLOAT16, True, True),),
        (FakeResult("zeros", 2, 2),), 0.4,
    )  # fmt: skip
    verdict = RoundVerdict(
        Outcome.BETTER, ("requests 4,096 to 128 (-96.9 %)",), new, old, comparison
    )
    yield VerdictReached(1, 0, verdict)
    yield BestChanged(1, new)
    yield SessionClosed(StopReason.ROUNDS, "1 of 1 rounds is done", "digest")


@pytest.mark.parametrize(
    ("name", "size", "keys"),
    [
        ("plan_narrow", NARROW, []),
        ("rounds_narrow", NARROW, ["1"]),
        ("diff_wide", WIDE, ["3"]),
        ("log_wide", WIDE, ["8"]),
    ],
)
def test_the_screen_looks_as_it_did(
    tmp_path: Path, name: str, size: tuple[int, int], keys: list[str]
) -> None:
    for text in (OLD, NEW):
        write_blob(tmp_path, text)
    records = tuple(
        Record(number, "2026-01-01T12:00:00.000Z", float(number), event)  # type: ignore[arg-type]
        for number, event in enumerate(events())
    )

    @on_a_loop
    async def test() -> None:
        async def opened() -> SavedSource:
            return SavedSource(tmp_path, Timeline(records))

        async with seated(opened, size) as desk:
            await desk.until(lambda: desk.session.view, "the session")
            await desk.press(*keys)
            pane = desk.session.board.front_pane
            await desk.until(
                lambda: desk.app.focused in pane.query("*").results() or pane.has_focus
            )
            lines = desk.session.diff.lines
            await desk.until(lambda: all(d.highlighter.done for d in lines.documents))
            await desk.pilot.pause()
            drawn = desk.app.export_screenshot(title=name)
        stored = FOLDER / f"{name}.svg"
        if os.environ.get("ASTRA_TUI_NEW_SNAPSHOTS"):
            FOLDER.mkdir(exist_ok=True)
            stored.write_text(drawn)
        assert drawn == stored.read_text()

    test()
