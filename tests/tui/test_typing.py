"""Typing while questions appear: what was typed for something else decides nothing."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from astra_tui.model.approval import Answer, ApprovalGate, Question, decide
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case
from astra_tui.model.events import (
    AnswerAwaited,
    ApprovalAsked,
    DecisionTaken,
    EngineStarted,
    Event,
    PlanProposed,
    RoundOpened,
    SessionOpened,
)
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.state import SessionState
from astra_tui.sessions.journal_lines import Record
from astra_tui.tui.approval import ANSWER_DELAY, FASTEST_TYPING, TYPING_PAUSE, KeyGuard
from astra_tui.tui.player import ReplayState
from astra_tui.tui.source import Item
from astra_tui.tui.widgets.code.code_pane import AskField
from astra_tui.tui.widgets.prompt_line import PromptLine
from tests.tui.harness import NARROW, Clock, Desk, on_a_loop, seated

QUESTIONS = int(os.environ.get("ASTRA_TUI_QUESTIONS", "50"))
"""In every run of the tests; 500 were asked once: ASTRA_TUI_QUESTIONS=500."""
BATCH = 20
AUTHOR = Author(AuthorKind.PLAYBOOK, "move")
PLAN = Plan("a plan", "b", ("e",), "c", Prediction(1, 2, Counter.SECTORS, 0.5), Risk.LOW)


class Asker:
    """A source that asks when a test says so, and takes answers as the engine does."""

    player = None
    baseline = "b" * 64
    _ids = itertools.count(1)

    def __init__(self, folder: Path):
        self.folder = folder
        self.answers: list[Answer] = []
        self.orders: list[object] = []
        self.open: Question | None = None
        self._asked = 0
        self._seq = 0
        self._items: asyncio.Queue[Item] = asyncio.Queue()

    @property
    def engine(self) -> Asker:
        return self

    async def items(self) -> AsyncIterator[Item]:
        while True:
            yield await self._items.get()

    async def close(self) -> None:
        pass

    def ask(self) -> Question:
        index = self._asked % BATCH
        if index == 0:
            self._begin()
        self._asked += 1
        question = Question(f"1.{index}.plan", ApprovalGate.PLAN, 1, index, PLAN.hash)
        self.tell(PlanProposed(1, index, PLAN, AUTHOR))
        self.tell(ApprovalAsked(question))
        self._items.put_nowait(AnswerAwaited(question))
        self.open = question
        return question

    async def answer(self, answer: Answer) -> None:
        assert self.open is not None
        self.answers.append(answer)
        self.tell(DecisionTaken(decide(self.open, answer)))
        self.open = None

    async def note(self, text: str) -> None:
        pass

    async def case(self, case: Case) -> None:
        self.orders.append(case)

    async def auto(self, *mode: object) -> None:
        self.orders.append(mode)

    async def choose_parent(self, candidate: str) -> None:
        self.orders.append(candidate)

    async def take_back(self, question: str) -> None:
        self.orders.append(question)

    async def _order(self, request: object) -> None:
        """What `EngineClient` sends for a pause and the like."""
        self.orders.append(request)

    def _begin(self) -> None:
        self._items.put_nowait(ReplayState(SessionState(), (), 0))
        settings = RunSettings("silu_and_mul", TeamKind.PLAYBOOK)
        self.tell(SessionOpened(1, "s", "t", self.baseline, settings, {}))
        self.tell(EngineStarted("host", 1, 5))
        self.tell(RoundOpened(1, 0, self.baseline))

    def pass_on(self, event: Event) -> None:
        """An event that no journal keeps."""
        self._items.put_nowait(event)

    def tell(self, event: Event) -> None:
        self._seq += 1
        self._items.put_nowait(Record(self._seq, "2026-01-01T00:00:00.000Z", 0.0, event))  # type: ignore[arg-type]


class Typist:
    """Someone who writes notes, letter by letter, and types on for a while after sending one."""

    def __init__(self, desk: Desk, random_: random.Random):
        self._desk = desk
        self._random = random_
        self._field = desk.session.query_one("#prompt", PromptLine)

    async def types(self) -> None:
        """Writes a bit, sends it or drops it, types on."""
        await self._key("n", after=self._random.uniform(TYPING_PAUSE + 0.01, 3))
        for _ in range(self._random.randint(1, 6)):
            await self._key(self._random.choice("aeryn1q "), after=self._random.uniform(0.02, 3))
        await self._key(self._random.choice(["enter", "escape"]), after=0.1)
        await self._desk.until(lambda: not self._field.is_open, "the end of the note")
        for _ in range(self._random.randint(0, 3)):
            await self._key(self._random.choice("aerqx"), after=self._random.uniform(0.02, 0.49))

    async def _key(self, key: str, after: float) -> None:
        self._desk.clock.advance(after)
        await self._desk.type({" ": "space"}.get(key, key))


@on_a_loop
async def test_random_typing_through_questions_decides_nothing(tmp_path: Path) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    async with seated(opened, (80, 24)) as desk:  # type: ignore[arg-type]
        typist = Typist(desk, random.Random(5))
        for number in range(QUESTIONS):
            question = asker.ask()
            await typist.types()
            assert asker.open == question, "typing decided a question"
            assert len(desk.app.screen_stack) == 2, "typing opened a dialog"
            await desk.asked("plan")
            await desk.press("a")
            await desk.until(lambda: asker.open is None, "the deliberate answer")
            assert len(asker.answers) == number + 1


@on_a_loop
async def test_keys_for_a_pane_do_not_answer_a_question_that_appears_under_them(
    tmp_path: Path,
) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    async with seated(opened) as desk:  # type: ignore[arg-type]
        asker.ask()
        for key in "jkaaeera":
            desk.clock.advance(0.3)
            await desk.press(key)
            assert desk.text("#approval") == ""
        desk.clock.advance(TYPING_PAUSE)
        await desk.until(lambda: desk.text("#approval"), "the bar")
        desk.clock.advance(ANSWER_DELAY / 2)
        await desk.press("a")
        assert not asker.answers, "the bar has only just been drawn"
        desk.clock.advance(ANSWER_DELAY)
        await desk.press("escape")
        assert not asker.answers, "Esc approves nothing"
        await desk.press("a")
        await desk.until(lambda: asker.answers, "the answer")


@on_a_loop
async def test_what_is_not_on_the_screen_is_brought_up_before_it_is_accepted(
    tmp_path: Path,
) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    async with seated(opened, (80, 24)) as desk:  # type: ignore[arg-type]
        asker.ask()
        await desk.asked("plan")
        await desk.press("8")
        desk.clock.advance(2)
        await desk.press("a")
        assert not asker.answers
        assert desk.session.shown == {"plan"}
        await desk.pilot.pause()
        desk.clock.advance(1)
        await desk.press("a")
        await desk.until(lambda: asker.answers, "the answer")


@on_a_loop
async def test_a_search_goes_on_while_a_question_appears(tmp_path: Path) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    async with seated(opened, NARROW) as desk:  # type: ignore[arg-type]
        await desk.until(lambda: desk.session.shown, "the panes")
        await desk.press("4", "slash", "a", "e")
        field = desk.app.focused
        assert isinstance(field, AskField)
        asker.ask()
        await desk.until(lambda: desk.session.view and desk.session.view.awaiting, "the question")
        await desk.pilot.pause()
        await desk.press("r")
        assert desk.app.focused is field
        assert field.value == "aer"
        await desk.press("escape")
        await desk.asked("plan")
        await desk.press("a")
        assert not asker.answers, "the first key brings up what is asked about"


@on_a_loop
async def test_a_question_that_came_under_another_screen_is_not_answered_as_that_closes(
    tmp_path: Path,
) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    async with seated(opened) as desk:  # type: ignore[arg-type]
        await desk.press("question_mark")
        asker.ask()
        await desk.asked("plan")
        await desk.press("escape", "a")
        await desk.pilot.pause()
        assert not asker.answers, "nobody has seen the question yet"
        desk.clock.advance(ANSWER_DELAY)
        await desk.press("a")
        await desk.until(lambda: asker.answers, "the answer")


@pytest.mark.parametrize("key", ["escape", "enter"])
def test_a_question_that_came_while_a_field_was_open_gets_its_keys_back(
    key: str, tmp_path: Path
) -> None:
    @on_a_loop
    async def test() -> None:
        asker = Asker(tmp_path)

        async def opened() -> Asker:
            return asker

        async with seated(opened) as desk:  # type: ignore[arg-type]
            asker.ask()
            await desk.asked("plan")
            await desk.press("a")
            await desk.until(lambda: asker.open is None, "the answer")
            desk.clock.advance(TYPING_PAUSE)
            await desk.press("n")
            asker.ask()
            await desk.asked("plan")
            assert "a accept" not in desk.text("#approval"), "letters go into the field"
            await desk.press(key)
            for words in ("a accept", "e edit", "r reject"):
                assert words in desk.text("#approval")

    test()


@on_a_loop
async def test_one_pane_alone_becomes_the_one_that_is_asked_about(tmp_path: Path) -> None:
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    async with seated(opened) as desk:  # type: ignore[arg-type]
        await desk.until(lambda: desk.session.shown, "the panes")
        await desk.press("3", "z")
        assert desk.session.shown == {"diff"}
        asker.ask()
        await desk.asked("plan")
        assert desk.session.shown == {"plan"}
        await desk.press("a")
        await desk.until(lambda: asker.answers, "the answer")
        await desk.press("z")
        assert len(desk.session.shown) > 1


@given(st.lists(st.tuples(st.sampled_from(["text", "key", "drawn"]), st.floats(0, 2)), max_size=30))
def test_the_guard_keeps_its_promises(steps: list[tuple[str, float]]) -> None:
    clock = Clock()
    guard = KeyGuard(clock)
    last = {"text": float("-inf"), "key": float("-inf"), "drawn": float("inf")}
    for what, after in steps:
        clock.advance(after)
        now = clock()
        assert guard.may_draw == (now - max(last["text"], last["key"]) >= TYPING_PAUSE)
        is_quiet = now - last["text"] >= TYPING_PAUSE
        assert guard.may_answer == (now - last["drawn"] >= ANSWER_DELAY and is_quiet)
        if what == "drawn":
            guard.drawn()
        else:
            guard.key_pressed(into_text=what == "text")
        last[what] = now


@on_a_loop
async def test_a_key_that_is_taken_late_counts_from_when_it_was_pressed(tmp_path: Path) -> None:
    """The app was busy for a while between a note's last key and a letter typed right after it."""
    asker = Asker(tmp_path)

    async def opened() -> Asker:
        return asker

    async with seated(opened, clock=time.monotonic) as desk:  # type: ignore[arg-type]
        deciding, guard = desk.session._answering.deciding, desk.app.guard
        asker.ask()
        await desk.until(lambda: deciding.may_answer, "the question")
        for key in ("n", "h", "enter"):
            await desk.until(lambda: time.monotonic() - guard._key > FASTEST_TYPING, "a moment")
            await desk.type(key)
        assert not desk.session.query_one("#prompt", PromptLine).is_open
        sent, known = guard._key, guard.presses
        await desk.until(lambda: deciding.may_answer, "a pause")
        late = events.Key("a", "a")
        late.time = sent + 0.2
        desk.app.post_message(late)
        await desk.until(lambda: guard.presses > known, "the key")
        await desk.settle()
        assert desk.session._answering._accepting is None
        await desk.until(lambda: deciding.may_answer and time.monotonic() - sent > 2, "a pause")
        assert not asker.answers
        await desk.type("a")
        await desk.until(lambda: asker.answers, "the answer of a key that was pressed for it")


@pytest.mark.parametrize("key", ["escape", "enter", "space", "y", "A", "1"])
def test_no_other_key_accepts(key: str, tmp_path: Path) -> None:
    @on_a_loop
    async def test() -> None:
        asker = Asker(tmp_path)

        async def opened() -> Asker:
            return asker

        async with seated(opened) as desk:  # type: ignore[arg-type]
            asker.ask()
            await desk.asked("plan")
            await desk.press(key)
            await desk.pilot.pause()
            assert not asker.answers

    test()
