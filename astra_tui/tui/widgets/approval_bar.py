"""The approval bar: what has to be decided, and what can be done about it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from astra_tui.model.approval import ApprovalGate, Question
from astra_tui.model.plan import Plan
from astra_tui.present.layout import Line, Span, line_cells
from astra_tui.present.tones import Phrase, Tone
from astra_tui.present.words import prediction_words
from astra_tui.tui.text_layout import cut, span
from astra_tui.tui.widgets.bars import BarLine

REMARK_SECONDS = 2.0


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

    _asked: tuple[Question, Plan, str, str, Phrase] | None = None
    _keys: Line = ()
    _remarks = 0
    """Counts what took the place of the answers, and their return."""

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

    def ask(
        self, question: Question, plan: Plan, title: str, hunks: str, said: Phrase, keys: Line
    ) -> None:
        """Puts a question on the screen, with the title of the plan or what other code is for;
        `hunks` says which are chosen, where some are not, and `said` whether the code does as the
        engineer said.
        """
        self._asked, self._keys = (question, plan, title, hunks, said), keys
        self._remarks += 1
        self._draw_question()
        self.query_one("#answers", BarLine).set_line(keys)
        self.display = True

    def remark(self, text: str) -> None:
        """Says something in place of the answers, for a moment."""
        self._remarks += 1
        number = self._remarks
        self.query_one("#answers", BarLine).set_line((Span(f"  {text}", Tone.CAUTION),))

        def end() -> None:
            if number == self._remarks:
                self.query_one("#answers", BarLine).set_line(self._keys)

        self.set_timer(REMARK_SECONDS, end)

    def on_resize(self) -> None:
        """More or less of the question fits."""
        self._draw_question()

    def _draw_question(self) -> None:
        if self._asked is not None:
            line = _question_line(*self._asked, self.app.size.width)
            self.query_one("#question", BarLine).set_line(line)

    def hide(self) -> None:
        """There is nothing to decide, or someone types."""
        self.display = False


def _question_line(
    question: Question, plan: Plan, title: str, hunks: str, said: Phrase, width: int
) -> Line:
    """Where there is little room the title is cut, which stands in the pane above as well.

    `tails` are what may follow it, each with the cells that it leaves to the title.
    """
    if question.gate is ApprovalGate.PLAN:
        risk = f"{plan.risk.value} risk"
        change = f"{risk}, expects {prediction_words(plan.prediction)}"
        asks = [Span(" ! Accept this plan? ", Tone.TITLE)]
        tails = {f"; round {question.round}, {change}": 24, f"; {change}": 8, f"; {risk}": 0}
    else:
        count = f"{question.hunks} hunks" if question.hunks != 1 else "1 hunk"
        tone = Tone.CAUTION if hunks else Tone.PLAIN
        asks = [Span(" ! Run this code? ", Tone.TITLE), Span(f"{hunks or count}; ", tone)]
        if said.text:
            asks.append(Span(f"{said.text}; ", said.tone))
        tails = {f"; round {question.round}": 24, "": 0}
    room = width - line_cells(tuple(asks))
    title = span(title).text
    tail = next((t for t, least in tails.items() if room - len(t) >= min(len(title), least)), "")
    return (*asks, Span(cut(title, max(0, room - len(tail)))), Span(tail))
