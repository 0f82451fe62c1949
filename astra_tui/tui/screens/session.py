"""The session screen: draws what a source tells, and takes the engineer's decisions to the engine.

What it shows comes from pictures that the bridge makes; what it does goes through `EngineClient`.
A saved session has no engine, so that the same screen can decide nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from astra_tui.model.approval import Answer, AnswerRefused
from astra_tui.model.errors import UserError
from astra_tui.model.state import SessionStatus
from astra_tui.session.blobs import read_blob
from astra_tui.session.client import EngineClient, EngineGone, user_at_terminal
from astra_tui.tui.arrangement import LEFT, MAIN, PANES, SIDE, arrange
from astra_tui.tui.bridge import Bridge
from astra_tui.tui.deciding import Deciding, Step
from astra_tui.tui.page import Span, Tone
from astra_tui.tui.source import Source
from astra_tui.tui.view import View
from astra_tui.tui.widgets.approval_bar import ApprovalBar
from astra_tui.tui.widgets.bars import KeyLine, TabLine
from astra_tui.tui.widgets.diff_pane import DiffPane
from astra_tui.tui.widgets.gpu import GpuPane
from astra_tui.tui.widgets.log import LogPane
from astra_tui.tui.widgets.pane import Pane, RowsPane
from astra_tui.tui.widgets.plan import PlanPane
from astra_tui.tui.widgets.profile import ProfilePane
from astra_tui.tui.widgets.prompt_line import PromptLine
from astra_tui.tui.widgets.rounds import RoundsPane
from astra_tui.tui.widgets.status_line import StatusLine
from astra_tui.tui.widgets.tests import TestsPane

if TYPE_CHECKING:
    from astra_tui.tui.app import AstraApp

TYPING_LOOK = 0.1
"""Seconds after which it is looked again whether typing has paused."""

OpenSource = Callable[[], Awaitable[Source]]
AnyPane = Pane | RowsPane


class SessionScreen(Screen[None], inherit_bindings=False):
    """One session, live or saved."""

    app: AstraApp

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "accept", "Accept", id="accept"),
        Binding("e", "edit", "Edit", id="edit"),
        Binding("r", "reject", "Reject", id="reject"),
        Binding("ctrl+g", "edit_outside", "$EDITOR", id="edit_outside"),
        Binding("ctrl+n", "accept_next", "Accept next", id="accept_next"),
        Binding("escape", "interrupt", "Interrupt", id="interrupt"),
        Binding("p", "pause", "Pause", id="pause"),
        Binding("p", "go_on", "Continue", id="go_on"),
        Binding("p", "play", "Play", id="play"),
        Binding("comma", "step(-1)", "Back", id="step_back"),
        Binding("full_stop", "step(1)", "Step", id="step"),
        Binding("left_square_bracket", "step_round(-1)", "Round back", id="round_back"),
        Binding("right_square_bracket", "step_round(1)", "Round", id="round_on"),
        Binding("less_than_sign", "speed(-1)", "Slower", id="slower", show=False),
        Binding("greater_than_sign", "speed(1)", "Faster", id="faster", show=False),
        Binding("n", "note", "Note", id="note"),
        Binding("f", "follow", "Follow", id="follow"),
        Binding("z", "zoom", "Zoom", id="zoom"),
        Binding("shift+tab", "mode", "Auto", id="mode"),
        Binding("y", "copy", "Copy", id="copy"),
        Binding("x", "end", "End run", id="end", show=False),
        Binding("tab", "next_pane", show=False, id="next_pane"),
        *(
            Binding(str(number), f"pane('{pane}')", show=False, id=f"pane.{pane}")
            for number, pane in enumerate(PANES, 1)
        ),
    ]

    def __init__(self, open_source: OpenSource):
        super().__init__()
        self._open_source = open_source
        self._source: Source | None = None
        self._bridge: Bridge | None = None
        self._view: View | None = None
        self._front = "plan"
        self._main = "plan"
        self._zoomed = False
        self._state_of_keys: tuple[object, ...] = ()

    # -- what is on it ---------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Bars above and below, three columns of panes between them."""
        self.deciding = Deciding(self.app.clock, self.app.guard, user_at_terminal())
        self.panes: dict[str, AnyPane] = {
            "rounds": RoundsPane(id="rounds"),
            "plan": PlanPane(id="plan"),
            "diff": DiffPane(self.read_text, id="diff"),
            "tests": TestsPane(id="tests"),
            "profile": ProfilePane(id="profile"),
            "gpu": GpuPane(id="gpu"),
            "log": LogPane(id="log"),
        }
        yield StatusLine(id="status")
        yield TabLine(id="tabs")
        with Horizontal(id="columns"):
            for name, column in (("left", LEFT), ("main", MAIN), ("side", SIDE)):
                with Vertical(id=name):
                    for pane in column:
                        self.panes[pane].border_title = self.panes[pane].TITLE
                        yield self.panes[pane]
        yield ApprovalBar(id="approval")
        yield PromptLine(id="prompt")
        yield KeyLine(id="keys")

    def on_mount(self) -> None:
        """Begins to read."""
        self._arrange()
        self.panes[self._front].focus()
        self.set_interval(1.0, self._tick_status)
        self.run_worker(self._follow_source(), name="source", exit_on_error=True)

    async def _follow_source(self) -> None:
        try:
            self._source = await self._open_source()
        except UserError as error:
            self.app.leave_session(self, error)
            return
        self._bridge = Bridge(self._source, self.show_view, self.app.clock)
        try:
            await self._bridge.run()
            if self._bridge.trouble is not None:
                self.app.report(self._bridge.trouble)
        finally:
            await self._source.close()

    def read_text(self, hash_: str) -> str:
        """A text of the session, by its hash. Raises UserError when it is missing."""
        assert self._source is not None
        return read_blob(self._source.folder, hash_)

    @property
    def folder(self) -> Path | None:
        """The session's folder, once it is known."""
        return self._source.folder if self._source else None

    @property
    def engine(self) -> EngineClient | None:
        """The engine, while it works."""
        if self._source is None or self._bridge is None or self._bridge.ended:
            return None
        return self._source.engine

    @property
    def works(self) -> bool:
        """Whether leaving would leave an engine at work."""
        return self.engine is not None and self._status is not SessionStatus.CLOSED

    @property
    def _status(self) -> SessionStatus:
        return self._view.state.status if self._view else SessionStatus.NEW

    # -- drawing ---------------------------------------------------------------------------------

    def show_view(self, view: View) -> None:
        """Draws a picture: only panes that are on the screen, and of them only what changed."""
        if not self.is_mounted:
            return
        is_new = self.deciding.is_new(view)
        before, self._view = self._view, view
        with self.app.batch_update():
            if is_new:
                self._announce(view)
            self._bring_up(before, view)
            for name in self._arranged.shown:
                self.panes[name].show_view(view)
            self._consider()
            self._tick_status()
        self._refresh_keys()

    def _bring_up(self, before: View | None, view: View) -> None:
        """Brings what is asked about to the front, unless the engineer looks at something else."""
        if view.awaiting is None or not view.following:
            return
        if before is None or before.awaiting != view.awaiting:
            self._show_pane(view.awaiting.gate.value, focus=False)

    def _announce(self, view: View) -> None:
        assert view.awaiting is not None
        plan_or_diff = view.awaiting.gate.value
        self.app.bell()
        self.app.set_title(f"{plan_or_diff} to decide")

    def _tick_status(self) -> None:
        if self._view is None:
            return
        player = self._source.player if self._source else None
        status = self.query_one(StatusLine)
        words = self.deciding.autopilot.words
        status.show_status(self._view, self.app.clock(), mode=words, player=player)

    def _refresh_keys(self) -> None:
        """Looks anew which keys apply, if anything that they depend on has changed."""
        view = self._view
        player = self._source.player if self._source else None
        now = (
            self._status,
            self.deciding.is_shown,
            view.following if view else True,
            view.stage is not None if view else False,
            self.engine is not None,
            player is not None,
            self._zoomed,
            self.deciding.autopilot.words,
        )
        if now != self._state_of_keys:
            self._state_of_keys = now
            self.refresh_bindings()

    # -- panes -----------------------------------------------------------------------------------

    def _arrange(self) -> None:
        width = self.app.size.width
        zoomed = self._zoomed
        self._arranged = arrange(width, self._front, main=self._main, zoomed=zoomed)
        shown = self._arranged.shown
        for name, pane in self.panes.items():
            pane.display = name in shown
        for column in ("left", "main", "side"):
            self.query_one(f"#{column}").display = bool(getattr(self._arranged, column))
        self.set_class(len(shown) > 1, "-columns")
        titles = {name: pane.TITLE for name, pane in self.panes.items()}
        self.query_one(TabLine).show_tabs(titles, set(shown), self._front)

    def _show_pane(self, name: str, *, focus: bool) -> None:
        self._front = name
        if name not in LEFT:
            self._main = name
        before = self._arranged
        self._arrange()
        if focus or not self.panes_have_text_focus():
            self.panes[name].focus(scroll_visible=False)
        if before != self._arranged and self._view is not None:
            for pane in self._arranged.shown:
                self.panes[pane].show_view(self._view)

    def panes_have_text_focus(self) -> bool:
        """Whether somebody types into a field; that keeps the focus where it is."""
        return self.query_one(PromptLine).is_open

    def on_resize(self, _event: events.Resize) -> None:
        """More or fewer panes fit."""
        if self.is_mounted:
            self._arrange()
            if self._view is not None:
                self.call_after_refresh(self.show_view, self._view)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the focus is the one that zoom, copy and help are about."""
        if event.widget.id in self.panes and event.widget.id != self._front:
            self._front = event.widget.id
            self._arrange()

    def action_pane(self, name: str) -> None:
        """Shows a pane and gives it the keys."""
        self._show_pane(name, focus=True)

    def action_next_pane(self) -> None:
        """The next pane."""
        self._show_pane(PANES[(PANES.index(self._front) + 1) % len(PANES)], focus=True)

    def action_zoom(self) -> None:
        """One pane alone, or all of them again."""
        self._zoomed = not self._zoomed
        self._show_pane(self._front, focus=True)
        self._refresh_keys()

    def action_copy(self) -> None:
        """Copies the selected text, or the whole pane, through the terminal (OSC 52)."""
        chosen = self.get_selected_text()
        self.app.copy_to_clipboard(chosen or self.panes[self._front].text)
        what = "the selected text" if chosen else f"all of {self.panes[self._front].TITLE}"
        self.app.say(f"copied {what}")

    @on(RoundsPane.Chosen)
    def _chosen(self, event: RoundsPane.Chosen) -> None:
        if self._bridge is not None:
            self._bridge.choose(event.choice)

    @on(RoundsPane.Opened)
    def _opened(self, event: RoundsPane.Opened) -> None:
        event.stop()
        self._show_pane("diff" if self._view and self._view.candidate else "plan", focus=True)

    @on(LogPane.ExchangeOpened)
    def _exchange_opened(self, event: LogPane.ExchangeOpened) -> None:
        self.app.show_exchange(event.exchange, self.read_text)

    def action_follow(self) -> None:
        """Shows what is being worked on, and goes on to do so."""
        if self._bridge is not None:
            self._bridge.choose(None)

    # -- the question ----------------------------------------------------------------------------

    def _consider(self) -> None:
        """Shows the open question, or not yet, or no longer."""
        assert self._view is not None
        if self._source is None or self._source.engine is None:
            return
        bar = self.query_one(ApprovalBar)
        match self.deciding.step(self._view):
            case Step.HIDE:
                bar.hide()
                self.app.set_title("")
            case Step.WAIT:
                self.set_timer(TYPING_LOOK, self._consider_again)
            case Step.ACCEPT:
                self.send(self.deciding.accept_unasked())
            case Step.SHOW:
                self._show_question()
                self.call_after_refresh(self.app.guard.drawn)

    def _consider_again(self) -> None:
        if self._view is not None:
            self._consider()
            self._refresh_keys()

    def _show_question(self) -> None:
        question, plan = self.deciding.question, self.deciding.plan
        assert question is not None
        assert plan is not None
        answers = (
            Span("   a", Tone.ACCENT), Span(" accept   "),
            Span("e", Tone.ACCENT), Span(" edit   "),
            Span("r", Tone.ACCENT), Span(" reject   "),
            Span("^n", Tone.ACCENT), Span(" accept the next   "),
            Span("shift+tab", Tone.ACCENT), Span(" auto"),
        )  # fmt: skip
        self.query_one(ApprovalBar).ask(question, plan, "", answers)

    def send(self, answer: Answer) -> None:
        """Gives an answer to the engine; the bar is gone until the engine says otherwise."""
        self.query_one(ApprovalBar).hide()
        self._refresh_keys()
        self.run_worker(self._send(answer), name="answer")

    async def _send(self, answer: Answer) -> None:
        engine = self.engine
        try:
            if engine is not None:
                await engine.answer(answer)
        except (AnswerRefused, EngineGone) as error:
            self.deciding.refused()
            self.app.report(error)
            self._consider_again()

    def _is_answer(self) -> bool:
        """Whether the key that was just pressed may answer; brings the subject up if it was not.

        Nobody accepts what is not on the screen.
        """
        if not self.deciding.may_answer or self._view is None:
            return False
        if self.deciding.looks_at_it(self._view, self._arranged.shown):
            return True
        question = self.deciding.question
        assert question is not None
        self.action_follow()
        self._show_pane(question.gate.value, focus=False)
        self.call_after_refresh(self.app.guard.drawn)
        self.app.say("this is what you are asked about; press the key again to answer")
        return False

    def action_accept(self) -> None:
        """Accepts what is shown."""
        if self._is_answer():
            diff = self.panes["diff"]
            assert isinstance(diff, DiffPane)
            self.send(self.deciding.accept(diff.hunks))

    def action_reject(self) -> None:
        """Asks for the reason; an empty one will do."""
        if self._is_answer():
            question = self.deciding.question

            def reject(reason: str) -> None:
                if question is not None and question == self.deciding.question:
                    self.send(self.deciding.reject(reason))

            self.query_one(PromptLine).ask("reject, because:", reject)

    # -- steering --------------------------------------------------------------------------------

    def _order(self, what: Callable[[EngineClient], Awaitable[None]]) -> None:
        engine = self.engine
        if engine is None:
            return

        async def carry_out() -> None:
            try:
                await what(engine)
            except UserError as error:
                self.app.report(error)

        self.run_worker(carry_out(), name="order")

    def action_interrupt(self) -> None:
        """Drops the running step and pauses."""
        self._order(EngineClient.interrupt)

    def action_pause(self) -> None:
        """Pauses before the next step."""
        self._order(EngineClient.pause)

    def action_go_on(self) -> None:
        """Ends a pause."""
        self._order(EngineClient.go_on)

    def action_note(self) -> None:
        """Tells the team something; it enters the next prompt."""

        def send(text: str) -> None:
            if text:
                self._order(lambda engine: engine.note(text))

        self.query_one(PromptLine).ask("note to the team:", send)
        self._refresh_keys()

    def action_mode(self) -> None:
        """The next mode of accepting without asking."""
        self.deciding.autopilot.cycle(self.deciding.question)
        self._tick_status()
        self._consider_again()

    def action_accept_next(self) -> None:
        """Accepts this question and so many after it."""
        if not self._is_answer():
            return

        def accept(text: str) -> None:
            if not text.isdigit() or not int(text):
                self.app.say("how many? For example: 4. A plan and its diff count as one each")
                return
            question = self.deciding.question
            self.deciding.autopilot.accept_next(int(text), question)
            self._tick_status()
            self.app.say(f"the next {int(text)} questions after this one are accepted")

        self.query_one(PromptLine).ask("accept how many after this one:", accept)

    def action_edit(self) -> None:
        """Edits the plan as fields, or the code."""

    def action_edit_outside(self) -> None:
        """Edits the plan or the code in $VISUAL or $EDITOR."""

    def action_end(self) -> None:
        """Ends the run, after asking."""
        self.ask_how_to_leave()

    def ask_how_to_leave(self) -> None:
        """Asks whether the engine is to go on."""
        from astra_tui.tui.screens.dialogs import ChoiceDialog, Option

        options = (
            Option("d", "detach: the engine goes on, astra-tui attach comes back", "detach"),
            Option("x", "end the run: what is done is kept and can be resumed", "end"),
        )
        text = "An engine works on this session."
        self.app.push_screen(ChoiceDialog("Leave?", text, options), self._leave)

    def _leave(self, how: str | None) -> None:
        if how == "detach":
            self.app.leave_session(self, detached=True)
        elif how == "end":
            self._order(EngineClient.cancel)

    def action_play(self) -> None:
        """Plays the saved session, or stops."""
        if self._source is not None and self._source.player is not None:
            self._source.player.toggle()
            self._refresh_keys()

    def action_step(self, count: int) -> None:
        """Some events on or back."""
        if self._source is not None and self._source.player is not None:
            self._source.player.step(count)

    def action_step_round(self, count: int) -> None:
        """To the next or the last round."""
        if self._source is not None and self._source.player is not None:
            self._source.player.step_round(count)

    def action_speed(self, steps: int) -> None:
        """Plays faster or slower."""
        if self._source is not None and self._source.player is not None:
            self._source.player.change_speed(steps)
            self._tick_status()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key is offered where it would do something."""
        rule = _APPLIES.get(action)
        return True if rule is None else rule(self)


def _answers(screen: SessionScreen) -> bool:
    return screen.deciding.is_shown


def _runs(screen: SessionScreen) -> bool:
    view = screen._view
    return (
        screen.engine is not None and screen._status is SessionStatus.RUNNING and view is not None
    )


_APPLIES: dict[str, Callable[[SessionScreen], bool]] = {
    "accept": _answers,
    "edit": _answers,
    "edit_outside": _answers,
    "reject": _answers,
    "accept_next": _answers,
    "interrupt": _runs,
    "pause": lambda s: s.works and s._status is not SessionStatus.PAUSED,
    "go_on": lambda s: s.works and s._status is SessionStatus.PAUSED,
    "note": lambda s: s.works,
    "mode": lambda s: s.works,
    "end": lambda s: s.works,
    "follow": lambda s: s._view is not None and not s._view.following,
    "play": lambda s: s._source is not None and s._source.player is not None,
    "step": lambda s: s._source is not None and s._source.player is not None,
    "step_round": lambda s: s._source is not None and s._source.player is not None,
    "speed": lambda s: s._source is not None and s._source.player is not None,
}
