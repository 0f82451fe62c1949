"""A run as lines of text on stderr: what happens, event by event."""

from __future__ import annotations

import sys
from collections.abc import Callable

from astra_tui.model.citations import CitationStatus, check_citations
from astra_tui.model.events import (
    CaseChecked,
    CheckStarted,
    DeviceOpened,
    EngineStarted,
    Event,
    ExchangeMade,
    PlanProposed,
    ProfileTaken,
    RoundOpened,
    RoundsTimed,
    Sanitized,
    SessionClosed,
    SessionOpened,
    StageBegan,
    WorkloadTimed,
)
from astra_tui.model.state import SessionState
from astra_tui.plain.console import text_lines
from astra_tui.plain.output import note
from astra_tui.plain.tags import PlanTags, tagged
from astra_tui.present.checks import sanitizer_blocks
from astra_tui.present.events import describe
from astra_tui.present.words import STAGES, prediction_words

_PROGRESS_EVERY = 10
"""Reports of more rounds that make one line; each is of one block of rounds."""


class RunLines:
    """Writes one line for each event that a reader wants to know of.

    `progress` says whether to write how far a timing is too; by default if stderr is a terminal.
    """

    def __init__(self, write: Callable[[str], None] = note, progress: bool | None = None):
        self._write = write
        self._progress = sys.stderr.isatty() if progress is None else progress
        self._failed = 0
        self._reported = 0
        self._held: list[str] | None = None
        self._sanitized: list[str] = []
        self._tags = PlanTags()

    def hold(self) -> None:
        """Keeps what it would write, while something else has the terminal."""
        self._held = []

    def release(self) -> None:
        """Writes what was kept."""
        held, self._held = self._held or [], None
        for text in held:
            self._write(text)

    def show(self, event: Event, state: Callable[[], SessionState] | None = None) -> None:
        """Writes about one event, or not. `state` gives the one that the event made."""
        tag, text = self._tags.tag(event), self._text(event)
        if isinstance(event, PlanProposed) and state is not None:
            text += _expectation(event, state())
        if text and self._held is not None:
            self._held.append(tagged(text, tag))
        elif text:
            self._write(tagged(text, tag))

    def pass_over(self, event: Event) -> None:
        """Takes note of an event of an earlier run, and writes nothing."""
        self._tags.tag(event)

    def _text(self, event: Event) -> str:
        match event:
            case StageBegan(stage="sanitize" | "profile" | "time" | "sweep" | "hardware"):
                return f"  {STAGES[event.stage]} ..."
            case Sanitized():
                return self._sanitizer(event)
            case CheckStarted() | WorkloadTimed():
                self._failed = self._reported = 0
            case CaseChecked() if not event.result.outcome.ok:
                self._failed += 1
                if self._failed > 1:
                    return ""
            case RoundsTimed():
                self._reported += 1
                if not self._progress or self._reported % _PROGRESS_EVERY:
                    return ""
            case SessionOpened() | EngineStarted() | ExchangeMade() | ProfileTaken():
                return ""
        said = describe(event)
        return _INDENTS.get(type(event), "  ") + said.words if said else ""

    def _sanitizer(self, event: Sanitized) -> str:
        """What no tool looked at is reported once, and again when its reason is another."""
        lines = text_lines(sanitizer_blocks(event.reports), 4)
        before, self._sanitized = self._sanitized, lines
        looked = any(report.looked for report in event.reports)
        return "" if lines == before and not looked else "\n".join(lines)


_INDENTS: dict[type, str] = {
    RoundOpened: "\n",
    DeviceOpened: "",
    SessionClosed: "\n",
    CaseChecked: "    ",
    RoundsTimed: "    ",
    WorkloadTimed: "    ",
}
"""What stands before the line of an event, where it is not the indent of a step."""


def _expectation(event: PlanProposed, state: SessionState) -> str:
    """What a plan expects, and each number of its evidence that was not measured, or not so."""
    lines = f"\n    expects {prediction_words(event.plan.prediction)}"
    base = state.candidate(state.round(event.round).base)
    cited = (r for o in event.plan.observations for r in check_citations(o, base))
    wrong = (r for r in cited if r.standing is not CitationStatus.AGREES)
    return lines + "".join(f"\n    evidence cites {reading.describe()}" for reading in wrong)
