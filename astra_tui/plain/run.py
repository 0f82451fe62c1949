"""A run as lines of text on stderr: what happens, event by event; and a saved one again."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import partial

from astra_tui.model import events
from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.state import SessionState
from astra_tui.model.workers import WorkersStatus
from astra_tui.plain.console import text_lines
from astra_tui.plain.output import note
from astra_tui.present.checks import sanitizer_blocks
from astra_tui.present.devices import news_lines
from astra_tui.present.events import describe
from astra_tui.present.numbers import seconds
from astra_tui.present.words import STAGES, prediction_words
from astra_tui.sessions.timeline import IDLE_SECONDS, LONGEST_WAIT, Timeline, paced

_PROGRESS_EVERY = 10
"""Reports of more rounds that make one line; each is of one block of rounds."""


def _tag(event: events.Event, state: SessionState) -> str:
    """As in "[2] " for what is about the second plan of several of the round, else empty."""
    number, subject = getattr(event, "proposal", None), getattr(event, "candidate", "")
    match event:
        case (
            events.PlanProposed()  # Its own line has the number in words.
            | events.StageBegan(stage="hardware")
            | events.HardwareCountersRead()
            | events.BestChanged()
            | events.ShippedTimed()
        ):
            return ""
        case events.DecisionTaken(decision):
            number = state.questions[decision.question].proposal
        case events.TimingFinished(timing, final=False):
            subject = timing.candidate
    proposals = state.rounds[-1].proposals if state.rounds else ()
    written = (p.index for p in proposals if subject in p.written)
    number = next(written, None) if number is None else number
    return f"[{number + 1}] " if number is not None and len(proposals) > 1 else ""


class RunLines:
    """Writes a line for each event that a reader wants to know of; `progress` of timings too, where
    asked or on a terminal.
    """

    def __init__(self, write: Callable[[str], None] = note, progress: bool | None = None):
        self._write = write
        self._progress = sys.stderr.isatty() if progress is None else progress
        self._failed = 0
        self._reported = 0
        self._held: list[str] | None = None
        self._sanitized: list[str] = []
        self._workers = WorkersStatus()

    def hold(self) -> None:
        """Keeps what it would write, while something else has the terminal."""
        self._held = []

    def release(self) -> None:
        """Writes what was kept."""
        held, self._held = self._held or [], None
        for text in held:
            self._write(text)

    def show(self, event: events.Event, state: Callable[[], SessionState]) -> None:
        """Writes about one event, or not. `state` gives the one that the event made."""
        text = self._text(event)
        if isinstance(event, events.PlanProposed):
            text += _expectation(event, state())
        if text:
            write = self._write if self._held is None else self._held.append
            indent = len(text) - len(text.lstrip(" "))
            write(text[:indent] + _tag(event, state()) + text[indent:])

    def _text(self, event: events.Event) -> str:
        match event:
            case events.StageBegan(stage="sanitize" | "profile" | "time" | "sweep" | "hardware"):
                return f"  {STAGES[event.stage]} ..."
            case events.Sanitized():
                return self._sanitizer(event)
            case events.WorkersSeen(status=status):
                told, self._workers = news_lines(status, self._workers), status
                return "\n".join(told)
            case events.CheckStarted() | events.WorkloadTimed():
                self._failed = self._reported = 0
            case events.CaseChecked() if not event.result.outcome.ok:
                self._failed += 1
                if self._failed > 1:
                    return ""
            case events.RoundsTimed():
                self._reported += 1
                if not self._progress or self._reported % _PROGRESS_EVERY:
                    return ""
            case events.SessionOpened() | events.EngineStarted():
                return ""
            case events.ExchangeMade() | events.ProfileTaken():
                return ""
        said = describe(event)
        return _INDENTS.get(type(event), "  ") + said.text if said else ""

    def _sanitizer(self, event: events.Sanitized) -> str:
        """What no tool looked at is reported once, and again when its reason is another."""
        lines = text_lines(sanitizer_blocks(event.reports), 4)
        before, self._sanitized = self._sanitized, lines
        looked = any(report.looked for report in event.reports)
        return "" if lines == before and not looked else "\n".join(lines)


_INDENTS: dict[type, str] = {
    events.RoundOpened: "\n",
    events.DeviceOpened: "",
    events.SessionClosed: "\n",
    events.CaseChecked: "    ",
    events.RoundsTimed: "    ",
    events.WorkloadTimed: "    ",
}
"""What stands before the line of an event, where it is not the indent of a step."""


def _expectation(event: events.PlanProposed, state: SessionState) -> str:
    """What a plan expects, and each number of its evidence that was not measured, or not so."""
    lines = f"\n    expects {prediction_words(event.plan.prediction)}"
    base = state.candidate(state.round(event.round).base)
    cited = (r for o in event.plan.observations for r in check_citations(o, base))
    wrong = (r for r in cited if r.standing is not CitationStatus.AGREES)
    return lines + "".join(f"\n    evidence cites {reading.describe()}" for reading in wrong)


def replay_lines(
    timeline: Timeline,
    end: int,
    speed: float = math.inf,
    write: Callable[[str], None] = note,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Writes about a timeline up to a position, event by event; `sleep` waits between them."""
    lines = RunLines(write, progress=False)
    for position in range(1, end + 1):
        pause = timeline.seconds_before(position)
        if pause >= IDLE_SECONDS:
            write(f"  ({seconds(pause)} without an event, shortened)")
        if (wait := paced(pause, speed, LONGEST_WAIT).seconds) > 0:
            sleep(wait)
        lines.show(timeline.event(position), partial(timeline.state, position))
