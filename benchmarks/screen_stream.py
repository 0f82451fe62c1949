"""The session screen on a stream of made-up events, for benchmarks/screen.py.

python benchmarks/screen_stream.py once|idle|full|hours
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from astra_tui.model.approval import ApprovalGate, Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case, CaseOutcome, CaseResult, CheckVerdict, OutputError
from astra_tui.model.dtypes import DType
from astra_tui.model.events import (
    AnswerAwaited,
    ApprovalAsked,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeWritten,
    EngineStarted,
    Event,
    GpuSampled,
    NoteAdded,
    PlanProposed,
    RoundOpened,
    RoundsTimed,
    SessionOpened,
    StageBegan,
    TextStreamed,
    Transient,
)
from astra_tui.model.gpu import GpuSample
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.settings import RunSettings, TeamKind
from astra_tui.model.timing import Ratio
from astra_tui.sessions.journal_lines import Record
from astra_tui.tui import open_session
from astra_tui.tui.source import Item

CASES, PIECES, TIMINGS, READINGS = 10, 20, 50, 4
"""Of each kind, so many a second."""

MARKS = {60: "a minute", 3599: "one hour", 3 * 3600 - 1: "the third hour"}
"""Seconds of the long stream at which it says how far it is."""

BASE, CODE = "b" * 64, "c" * 64
ENGINEER = Author(AuthorKind.ENGINEER, "ann")
PLAN = Plan(
    "wide loads", "requests", ("many requests",) * 4, "16 bytes a thread " * 12,
    Prediction(1.0, 1.5, Counter.REQUESTS, 0.25), Risk.LOW,
)  # fmt: skip


class Stream:
    """Events at a rate; it takes orders and does nothing about them."""

    player = None

    def __init__(self, what: str):
        self.folder = Path.cwd()
        self._what = what

    @property
    def engine(self) -> Stream:
        return self

    async def note(self, text: str) -> None:
        """Takes a note."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def items(self) -> AsyncIterator[Item]:
        """The beginning of a session, then what was asked for."""
        for event in _beginning():
            yield _item(event)
        if self._what == "once":
            question = Question("1.0.plan", ApprovalGate.PLAN, 1, 0, PLAN.hash)
            yield _item(ApprovalAsked(question))
            yield AnswerAwaited(question)
        elif self._what == "full":
            async for item in self._live():
                yield item
        elif self._what == "hours":
            async for item in self._hours():
                yield item
        await asyncio.Event().wait()

    async def _live(self) -> AsyncIterator[Item]:
        yield _item(CodeWritten(1, 0, 0, CODE, BASE, ENGINEER))
        while True:
            yield _item(CheckStarted(CODE, 100))
            for second in range(10):
                for events in _second(second):
                    for event in events:
                        yield _item(event)
                    await asyncio.sleep(1 / TIMINGS)

    async def _hours(self) -> AsyncIterator[Item]:
        """The same, without the waits between; every 20 seconds there is another candidate."""
        code = CODE
        for second in range(max(MARKS) + 1):
            if second % 20 == 0:
                code = f"{second:064}"
                yield _item(CodeWritten(1, 0, 0, code, BASE, ENGINEER))
                yield _item(CheckStarted(code, 200))
            for events in _second(second % 20, code):
                for event in events:
                    yield _item(event)
            if second % 20 == 19:
                yield _item(CheckFinished(code, CheckVerdict.PASSED, "", (), (), 20.0))
            if second % 5 == 0:
                await asyncio.sleep(0.01)
            if second in MARKS:
                text = f"{MARKS[second]} has passed"
                yield _item(TextStreamed("planning", text, restart=True))
                yield _item(NoteAdded(text, ENGINEER))
                await asyncio.sleep(2)


def _beginning() -> Iterator[Event]:
    settings = RunSettings("silu_and_mul", TeamKind.LLM, "cuda:0", model="model")
    yield SessionOpened(1, "s", "t", BASE, settings, {"astra-tui": "0"})
    yield EngineStarted("host", 1, 5)
    yield RoundOpened(1, 0, BASE)
    yield PlanProposed(1, 0, PLAN, Author(AuthorKind.MODEL, "model"))
    yield StageBegan("check", 1)


def _second(second: int, code: str = CODE) -> Iterator[list[Event]]:
    """What happens within a second, in as many slots as there are timing samples."""
    for slot in range(TIMINGS):
        events: list[Event] = []
        ratio = Ratio(1.5, 1.5 - 0.1 / (slot + 1), 1.5 + 0.1 / (slot + 1), slot + 1)
        events.append(RoundsTimed(code, BASE, "16x4096", 12.0, 8.0, ratio, slot + 1))
        if slot % (TIMINGS // CASES) == 0:
            number = second * CASES + slot // (TIMINGS // CASES)
            case = Case(f"case {number}", "why", DType.FLOAT16, {"d": number})
            error = OutputError("out", 0.3 + number % 7 / 10)
            events.append(CaseChecked(code, CaseResult(case, CaseOutcome.PASSED, outputs=(error,))))
        if slot * PIECES // TIMINGS != (slot + 1) * PIECES // TIMINGS:
            events.append(TextStreamed("planning", "a few words of a longer answer, "))
        if slot * READINGS // TIMINGS != (slot + 1) * READINGS // TIMINGS:
            sample = GpuSample(float(second), sm_mhz=1900 + slot, power_w=300.0 + slot)
            events.append(GpuSampled(sample))
        yield events


_numbers = iter(range(1 << 30))


def _item(event: Event) -> Item:
    if isinstance(event, Transient):
        return event
    number = next(_numbers)
    return Record(number, "2026-01-01T00:00:00.000Z", float(number), event)  # type: ignore[arg-type]


async def _open(what: str) -> Stream:
    return Stream(what)


if __name__ == "__main__":
    open_session(lambda: _open(sys.argv[1]))  # type: ignore[arg-type, return-value]
