"""Hostile text, shown harmlessly and visibly wherever it can come from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from astra_tui.model.approval import ApprovalGate, ApprovalStatus, AutoMode, Decision, Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import (
    Case,
    CaseOutcome,
    CaseResult,
    CheckVerdict,
    ConditionResult,
    FullSizeResult,
)
from astra_tui.model.compilation import Diagnostic, Severity
from astra_tui.model.counters import Counters
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    AnalysisGiven,
    ApprovalAsked,
    AutoApprovalSet,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeWritten,
    CompileFinished,
    DecisionTaken,
    EngineStarted,
    ErrorOccurred,
    Event,
    ExchangeMade,
    NoteAdded,
    PlanningFinished,
    PlanProposed,
    ProfileTaken,
    RoundOpened,
    SessionOpened,
    VerdictReached,
)
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.plan import (
    Citation,
    CodePlace,
    Counter,
    Observation,
    Plan,
    Prediction,
    Risk,
)
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.task import Acceptance
from astra_tui.model.traffic import ArgumentTraffic, Waste, WasteKind
from astra_tui.model.verdict import (
    KernelUse,
    Outcome,
    Profile,
    RoundVerdict,
    Waves,
    WorkloadProfile,
)
from astra_tui.model.visible import is_harmless
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.tui.screens.compare import CompareScreen
from astra_tui.tui.source import open_saved
from astra_tui.tui.widgets.pane_layout import PANES
from tests.tui.harness import NARROW, WIDE, Desk, on_a_loop, seated

EVIL = (
    "[red]x[/] [/nope] \x1b[2J\x1b]0;title\x07 \u202e rtl \u200b \x00 \x9b31m \r over "
    + "w" * 10_000
)
EVIL_AUTHOR = Author(AuthorKind.MODEL, "m\x1b[31m")

CITING = Observation(
    EVIL,
    (
        Citation(EVIL, math.inf, EVIL, (CodePlace(-1, 10**400), CodePlace(7, -7))),
        Citation("blocks", math.nan),
        Citation("waves", -math.inf, EVIL),
        Citation("sectors", 1e308, lines=(CodePlace(-(10**400), 10**400),)),
    ),
)


def events_of(journal: Journal) -> list[Event]:
    baseline = journal.put_source("// base\n")
    evil = journal.put_source(f"// {EVIL}\n#define X \u202e\n")
    plan = Plan(
        f"T {EVIL}", EVIL, (EVIL, CITING), EVIL, Prediction(1, 2, Counter.SECTORS, 0.5), Risk.LOW
    )
    again = Waste(WasteKind.LOADED_AGAIN, 0, 0, 10**400, header=EVIL, earlier_header=EVIL)
    counted = WorkloadProfile(
        EVIL,
        {"d": -1},
        DType.FLOAT16,
        (EVIL,),
        Counters(),
        10**400,
        -1,
        0,
        Waves(math.inf, math.nan),
        traffic=(ArgumentTraffic(EVIL, 4, loaded=8, distinct_loaded=4, waste=(again,)),),
    )
    profile = Profile(EVIL[:30], (counted,), (KernelUse(EVIL, -1, 0, 0, math.nan, 0),))
    case = Case(f"n{EVIL}", EVIL, DType.FLOAT16, {f"d{EVIL[:20]}": 3})
    finding = Finding(FindingKind.TRAP, EVIL, line=1)
    wrong = CaseResult(case, CaseOutcome.FAULT, EVIL, findings=(finding,))
    settings = RunSettings(f"t{EVIL[:40]}", TeamKind.LLM, model=EVIL[:40])
    question = Question("1.0.plan", ApprovalGate.PLAN, 1, 0, plan.hash)
    decision = Decision(
        "1.0.plan",
        ApprovalGate.PLAN,
        plan.hash,
        ApprovalStatus.ACCEPTED,
        EVIL_AUTHOR,
        plan.hash,
        EVIL,
    )
    verdict = RoundVerdict(Outcome.WRONG, (EVIL,), evil, baseline)
    prompt = journal.put(EVIL)
    return [
        SessionOpened(1, "s", "t", baseline, settings, {EVIL[:30]: EVIL[:60]}),
        EngineStarted(EVIL[:40], 1, 5),
        RoundOpened(0, 0, baseline),
        ProfileTaken(baseline, profile, f"../../{EVIL}"),
        AutoApprovalSet(AutoMode.ASK, EVIL_AUTHOR, -(10**400)),
        AutoApprovalSet(AutoMode.ALL, EVIL_AUTHOR, 10**400),
        RoundOpened(1, 0, baseline),
        PlanProposed(1, 0, plan, EVIL_AUTHOR),
        PlanningFinished(1, EVIL, (EVIL,)),
        ApprovalAsked(question),
        DecisionTaken(decision),
        ExchangeMade(EVIL[:60], EVIL[:60], prompt, prompt, 1, 2, 0.1),
        CodeWritten(1, 0, 0, evil, baseline, EVIL_AUTHOR, EVIL),
        CompileFinished(evil, True, (Diagnostic(Severity.WARNING, EVIL, 1),), EVIL[:30], 0.1),
        CheckStarted(evil, 1),
        CaseChecked(evil, wrong),
        CheckFinished(
            evil,
            CheckVerdict.FAILED,
            EVIL,
            (),
            (),
            0.1,
            (Acceptance(EVIL, condition=EVIL, source=EVIL, text=EVIL),),
            (FullSizeResult(EVIL, CaseOutcome.FAULT, EVIL, findings=(finding,), reduced=EVIL),),
            (ConditionResult(EVIL, -1, 0, EVIL, True, EVIL, why=EVIL),),
        ),
        AnalysisGiven(evil, EVIL[:30], EVIL, EVIL_AUTHOR),
        VerdictReached(1, 0, verdict),
        NoteAdded(EVIL, EVIL_AUTHOR),
        ErrorOccurred(EVIL[:30], EVIL),
    ]


@pytest.fixture
def evil_session(tmp_path: Path) -> Path:
    folder = tmp_path / "s"
    with Journal.create(folder, Redactor()) as journal:
        for event in events_of(journal):
            journal.append(event)
    return folder


def harmful(text: str) -> set[str]:
    return {c for c in text if not is_harmless(c)}


def screen_text(desk: Desk) -> str:
    """Every character that is sent to the terminal for the whole screen, but for styles."""
    strips = desk.app.screen._compositor.render_strips()
    return "".join(segment.text for strip in strips for segment in strip)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "140x40"])
def test_every_pane_shows_hostile_text_harmlessly(
    evil_session: Path, size: tuple[int, int]
) -> None:
    @on_a_loop
    async def test() -> None:
        async def opened() -> object:
            return await open_saved(evil_session)

        async with seated(opened, size) as desk:  # type: ignore[arg-type]
            await desk.until(lambda: desk.session.view, "the session")
            for number, pane in enumerate(PANES, 1):
                await desk.press(str(number))
                await desk.until(lambda p=pane: p in desk.session.shown)
                await desk.pilot.pause()
                assert not harmful(screen_text(desk)), pane
                if pane in ("rounds", "plan", "tests", "log"):
                    assert "«" in desk.text(f"#{pane}") or "[red]x[/]" in desk.text(f"#{pane}")

    test()


@on_a_loop
async def test_prompts_and_notices_are_harmless(evil_session: Path) -> None:
    async with seated(lambda: open_saved(evil_session), NARROW) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        view = desk.session.view
        assert view is not None
        exchange = next(e.exchange for e in view.log if e.exchange)
        desk.session.show_exchange(exchange)
        await desk.until(lambda: desk.app.screen.is_modal, "the prompt")
        await desk.pilot.pause()
        assert "«ESC»" in screen_text(desk)
        assert not harmful(screen_text(desk))
        await desk.press("escape")
        desk.app.report(UserError(EVIL, file=EVIL[:40], hint=EVIL))
        desk.app.say(EVIL[:200])
        await desk.pilot.pause()
        assert not harmful(screen_text(desk))
        await desk.press("ctrl+o")
        await desk.until(lambda: desk.app.screen.is_modal, "the details")
        await desk.pilot.pause()
        assert not harmful(screen_text(desk))


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "140x40"])
def test_a_comparison_shows_hostile_text_harmlessly(
    evil_session: Path, size: tuple[int, int]
) -> None:
    @on_a_loop
    async def test() -> None:
        async with seated(lambda: open_saved(evil_session), size) as desk:
            await desk.until(lambda: desk.session.view, "the session")
            await desk.press("w")
            await desk.until(lambda: desk.app.screen.is_modal, "the list")
            await desk.pilot.pause()
            assert not harmful(screen_text(desk))
            await desk.press("enter")
            await desk.until(lambda: isinstance(desk.app.screen, CompareScreen), "the comparison")
            for key in ("1", "2", "3", "4"):
                await desk.press(key)
                await desk.pilot.pause()
                assert not harmful(screen_text(desk)), key
                if key == "1":
                    assert "[red]x[/]" in screen_text(desk)

    test()
