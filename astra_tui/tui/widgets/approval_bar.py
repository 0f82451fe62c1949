"""The approval bar: what has to be decided, and what can be done about it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from astra_tui.model.approval import Gate, Question
from astra_tui.model.plan import Plan
from astra_tui.tui.page import Line, Span, Tone, span
from astra_tui.tui.widgets.bars import BarLine
from astra_tui.tui.words import percent


class ApprovalBar(Vertical):
    """Two lines: the question, and the answers with their keys. It never takes the focus."""

    DEFAULT_CSS = """
    ApprovalBar {
        height: 2;
        display: none;
        & > BarLine { background: $warning-muted; }
        &:ansi > BarLine { text-style: reverse; }
    }
    """

    def compose(self) -> ComposeResult:
        """Both lines."""
        yield BarLine(id="question")
        yield BarLine(id="answers")

    @property
    def text(self) -> str:
        """What the bar says; empty while it is hidden."""
        if not self.display:
            return ""
        return "\n".join(line.text for line in self.query(BarLine))

    def ask(self, question: Question, plan: Plan, hunks: str, keys: Line) -> None:
        """Puts a question on the screen; `hunks` says which are chosen, where some are not."""
        first, second = self.query_one("#question", BarLine), self.query_one("#answers", BarLine)
        first.set_line(_question_line(question, plan, hunks))
        second.set_line(keys)
        self.display = True

    def hide(self) -> None:
        """There is nothing to decide, or somebody types."""
        self.display = False


def _question_line(question: Question, plan: Plan, hunks: str) -> Line:
    round_ = f"round {question.round}"
    if question.gate is Gate.PLAN:
        expected = plan.prediction
        counter = expected.counter.value.replace("_", " ")
        return (
            Span(" ! Accept this plan? ", Tone.TITLE),
            span(plan.title),
            Span(f"; {round_}, {plan.risk.value} risk, "),
            Span(f"expects {counter} {percent(expected.counter_ratio)}"),
        )
    count = f"{question.hunks} hunks" if question.hunks != 1 else "1 hunk"
    return (
        Span(" ! Run this code? ", Tone.TITLE),
        Span(f"{hunks or count}; ", Tone.CAUTION if hunks else Tone.PLAIN),
        span(plan.title),
        Span(f"; {round_}"),
    )
