"""Which plan a line is about, where several of one round are tried side by side."""

from __future__ import annotations

from astra_tui.model.events import (
    ApprovalAsked,
    CaseChecked,
    CheckFinished,
    CheckStarted,
    CodeFailed,
    CodeWritten,
    CompileFinished,
    DecisionTaken,
    Event,
    PlanProposed,
    RoundOpened,
    RoundsTimed,
    Sanitized,
    StageBegan,
    TimingFinished,
    ToolUsed,
    VerdictReached,
    WorkloadTimed,
)

_OfCandidate = (
    CompileFinished
    | CheckStarted
    | CaseChecked
    | CheckFinished
    | Sanitized
    | RoundsTimed
    | WorkloadTimed
)


class PlanTags:
    """Follows the events of a run. A tag is "[2] " for the second plan of a round, else empty."""

    def __init__(self) -> None:
        self._plans = 0
        self._of_question: dict[str, int] = {}
        self._of_candidate: dict[str, int] = {}

    def tag(self, event: Event) -> str:
        """The tag of the line that is written about an event; every event has to pass here."""
        number = self._number(event)
        return f"[{number + 1}] " if number is not None and self._plans > 1 else ""

    def _number(self, event: Event) -> int | None:
        match event:
            case RoundOpened():
                self._plans = 0
                self._of_question.clear()
                self._of_candidate.clear()
            case PlanProposed():  # Its own line has the number in words.
                self._plans = max(self._plans, event.proposal + 1)
            case ApprovalAsked(question):
                self._of_question[question.id] = question.proposal
            case DecisionTaken(decision):
                return self._of_question.get(decision.question)
            case CodeWritten():
                self._of_candidate[event.candidate] = event.proposal
                return event.proposal
            case CodeFailed() | VerdictReached() | ToolUsed():
                return event.proposal
            case StageBegan():
                return None if event.stage == "hardware" else event.proposal
            case TimingFinished():
                return None if event.final else self._of_candidate.get(event.timing.candidate)
            case _:
                return self._of(event)
        return None

    def _of(self, event: Event) -> int | None:
        if isinstance(event, _OfCandidate):
            return self._of_candidate.get(event.candidate)
        return None


def tagged(text: str, tag: str) -> str:
    """A line with its tag after the indentation; of several lines, the first."""
    words = text.lstrip(" ")
    return text[: len(text) - len(words)] + tag + words
