"""A plan's numbers are compared with what was measured, and can be followed there and back."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from astra_tui.model.fold import fold
from astra_tui.model.plan import Citation, CodePlace, Observation
from astra_tui.model.task import KernelTask
from astra_tui.present.layout import line_text
from astra_tui.present.plans import CITED, plan_entry, shown_citations
from astra_tui.tui.text_layout import Page
from astra_tui.tui.widgets.plan import PlanPane
from tests.engine.scripted import ASK, ScriptedTeam, Step, settings_of, sources_of
from tests.sessions.samples import PLAN, whole_session
from tests.tui.harness import NARROW, on_a_loop, seated, working

WRONG = Citation("requests", 1.0)
LOAD = "const float gate"


@on_a_loop
async def test_cited_numbers_are_looked_up_and_left_again(tmp_path: Path, task: KernelTask) -> None:
    baseline = task.baseline_file.read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(baseline, start=1) if LOAD in text)
    at_line = Citation("sectors", 2.0, lines=(CodePlace(line, line),))
    evidence = (Observation("many requests", (WRONG, at_line)), "and narrow ones")
    team = ScriptedTeam([Step("wide loads", (sources_of(task).better,), evidence=evidence)])
    async with (
        working(tmp_path / "s", task, team, settings_of(ASK, rounds=1)) as source,
        seated(source, NARROW) as desk,
    ):
        await desk.asked("plan")
        view = desk.session.view
        assert view is not None
        assert view.base is not None
        assert view.base.profile is not None
        known = view.base.profile.total("requests")
        assert f"cites       requests: says 1; the profile has {known:,}" in desk.text("#plan")

        await desk.press("c", "enter")
        await desk.until(lambda: desk.session.shown == {"profile"}, "the profile")
        profile = desk.text("#profile")
        assert f"cited       requests: says 1; the profile has {known:,}" in profile
        (marked,) = (text for text in profile.splitlines() if "< cited" in text)
        assert marked.split()[:2] == ["requests", f"{known:,}"]
        assert "Back to plan" in desk.text("#keys")

        await desk.press("backspace")
        assert desk.session.shown == {"plan"}
        assert desk.session.view is not None
        assert desk.session.view.following
        assert "wide loads" in desk.text("#plan")

        pane = desk.session.query_one(PlanPane)
        row = next(
            n for n, text in enumerate(pane.text.splitlines()) if "cites       sectors at" in text
        )
        await desk.pilot.click(PlanPane, offset=(20, row - pane.scroll_offset.y + pane.gutter.top))
        await desk.until(lambda: desk.session.shown == {"source"}, "the source")
        await desk.until(lambda: desk.session.source_pane.lines.line == line, "the line")
        assert desk.session.view.choice == (0, 0)


def test_of_a_stranger_s_plan_no_more_is_drawn_than_can_be_read() -> None:
    many = (Observation("many requests", (WRONG,) * 50_000),) * 1_000
    state = fold(whole_session())
    round_ = state.rounds[-1]
    proposal = replace(round_.proposals[0], plan=replace(PLAN, evidence=many))
    state = replace(state, rounds=(*state.rounds[:-1], replace(round_, proposals=(proposal,))))
    page = Page(100)
    page.blocks([plan_entry(state, round_, proposal)])
    names = [name for name, _ in page.places]
    assert names.count(CITED) == len(shown_citations(many)) == 200
    assert len(page.lines) < 200 + 200 + 20
    more = "... and 800 sentences and 49,999,800 numbers more"
    assert any(more in line_text(line) for line in page.lines)
