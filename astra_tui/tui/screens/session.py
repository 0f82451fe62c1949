"""The session screen: draws what a source tells, and takes the engineer's decisions to the engine.

What it shows comes from views that the presenter makes; what it does goes through `EngineClient`.
A saved session has no engine, so that the same screen can decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from textual import events, on
from textual.binding import Binding, BindingType
from textual.screen import Screen

from astra_tui.model.approval import ApprovalGate
from astra_tui.model.errors import UserError
from astra_tui.model.state import SessionStatus
from astra_tui.present import document as doc
from astra_tui.sessions.client import EngineClient
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.tui.presenter import Presenter
from astra_tui.tui.screens.answering import Answering
from astra_tui.tui.screens.ending import Ending
from astra_tui.tui.screens.engine_requests import EngineRequests
from astra_tui.tui.screens.replay import PLAYING, PlayingActions, problem_of
from astra_tui.tui.source import OpenSource
from astra_tui.tui.view import View
from astra_tui.tui.widgets.code.code_pane import AskField
from astra_tui.tui.widgets.diff.diff_pane import DiffPane
from astra_tui.tui.widgets.pane_layout import PANES

BACK = Binding("backspace", "back", "Back to plan", id="back")
"""To the plan of which a number was looked up."""

KEYS = (
    Binding("a", "accept", "Accept", show=False, id="accept"),
    Binding("e", "edit", "Edit", show=False, id="edit"),
    Binding("r", "reject", "Reject", show=False, id="reject"),
    Binding("u", "take_back", "Undo the rejection", id="take_back"),
    Binding("ctrl+g", "edit_outside", "Edit in $EDITOR", show=False, id="edit_outside"),
    Binding("ctrl+n", "accept_next", "Accept the next", show=False, id="accept_next"),
    Binding("escape", "interrupt", "Interrupt", id="interrupt"),
    Binding("p", "pause", "Pause", id="pause"),
    Binding("p", "resume", "Continue", id="go_on"),
    Binding("p", "start_engine", "Resume the session", id="start_engine"),
    Binding("n", "note", "Note", id="note"),
    Binding("N", "stand_on", "Next round from here", show=False, id="stand_on"),
    Binding("b", "branch", "Branch", show=False, id="branch"),
    Binding("w", "compare", "Compare", show=False, id="compare"),
    Binding("t", "add_case", "Add a case", show=False, id="add_case"),
    Binding("S", "settings", "Settings", show=False, id="settings"),
    Binding("f", "follow", "Follow", id="follow"),
    Binding("z", "zoom", "Zoom", id="zoom"),
    Binding("shift+tab", "mode", "Auto", show=False, id="mode"),
    Binding("y", "copy", "Copy", id="copy"),
    Binding("x", "end", "End run", id="end", show=False),
    Binding("x", "export", "Export", id="export", show=False),
    Binding("r", "report", "Report", id="report", show=False),
    Binding("R", "more_rounds", "More rounds", id="more_rounds", show=False),
    Binding("tab", "next_pane", show=False, id="next_pane"),
    *(
        Binding(str(number), f"pane('{pane}')", f"Show {pane}", show=False, id=f"pane.{pane}")
        for number, pane in enumerate(PANES, 1)
    ),
)
"""Those of replays are in a module of their own."""


class KeyContext(NamedTuple):
    """What the keys depend on."""

    status: SessionStatus
    asks: bool
    """Whether a question is on the screen."""
    works: bool
    """Whether an engine works."""
    engine_died: bool
    """Whether the engine is gone and another one can continue its session."""
    has_player: bool
    is_playing: bool
    """Whether a replay plays."""
    looks_elsewhere: bool
    """Whether something else is shown than what is being worked on."""
    looks_up: bool
    """Whether a number was looked up, so that there is a plan to go back to."""
    has_better: bool
    """Whether something is better than the baseline."""
    can_continue: bool
    """Whether the run has ended, and another engine can continue it here."""
    can_take_back: bool
    """Whether the last decision was a rejection that can still be taken back."""


def _asks(now: KeyContext) -> bool:
    return now.asks


def _works(now: KeyContext) -> bool:
    return now.works


def _plays(now: KeyContext) -> bool:
    return now.has_player


APPLIES: dict[str, Callable[[KeyContext], bool]] = {
    "accept": _asks,
    "edit": _asks,
    "edit_outside": _asks,
    "reject": _asks,
    "accept_next": _asks,
    "take_back": lambda now: (
        now.can_take_back and (now.works or (now.can_continue and not now.has_player))
    ),
    "interrupt": lambda now: now.works and now.status is SessionStatus.RUNNING,
    "pause": lambda now: now.works and now.status is not SessionStatus.PAUSED,
    "resume": lambda now: now.works and now.status is SessionStatus.PAUSED,
    "start_engine": lambda now: now.engine_died,
    "note": _works,
    "stand_on": _works,
    "add_case": _works,
    "mode": _works,
    "end": _works,
    "export": lambda now: not now.works and now.status is SessionStatus.CLOSED and now.has_better,
    "more_rounds": lambda now: not now.works and now.can_continue,
    "report": lambda now: not now.works and now.status is SessionStatus.CLOSED,
    "follow": lambda now: now.looks_elsewhere,
    "back": lambda now: now.looks_up,
    "play": _plays,
    "step": _plays,
    "step_round": _plays,
    "speed": _plays,
    "jump": _plays,
    "seek_end": _plays,
}
"""By action; those that are not listed always apply."""


class SessionScreen(PlayingActions, inherit_bindings=False):
    """One session, live or saved."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK, *PLAYING, *KEYS]

    def __init__(self, open_source: OpenSource):
        super().__init__(open_source)
        self._keys_depend_on: KeyContext | None = None
        self._is_new = True

    def on_mount(self) -> None:
        """Begins to read."""
        self._requests = EngineRequests(self)
        self._ending = Ending(self)
        self._answering = Answering(self, self._requests, self._refresh_keys)
        self.bindings_updated_signal.subscribe(self, self._bindings_changed)
        self.board.bring("plan")
        self.set_interval(1.0, self.show_status)
        self.run_worker(self._follow_source(), name="source")

    def _bindings_changed(self, _screen: Screen[object]) -> None:
        """The bar names the keys that apply: a field that had the focus kept the letters of it."""
        self._answering.hunks_changed()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """A question that something else covered is on the screen only from now on."""
        if self._is_new:  # All widgets were styled a moment ago.
            event.refresh_styles = self._is_new = False
        if self.asks:
            self.app.guard.drawn()
            self.call_after_refresh(self.app.guard.drawn)

    async def _follow_source(self) -> None:
        try:
            self._source = await self._open_source()
        except UserError as error:
            self.app.leave_session(self, self.left(detached=False), error)
            return
        self._presenter = Presenter(self._source, self.show_view, self.app.clock, self.app.tick)
        try:
            await self._presenter.run()
            if self._presenter.error is not None:
                self.app.report(self._presenter.error)
                self.show_status()
        finally:
            await self._source.close()

    def _judge_in_background(self) -> None:
        self.run_worker(self._judge(), name="judge")

    async def _judge(self) -> None:
        """Looks at all of a saved session once it is shown, and says what is wrong with it."""
        player, source = self.player, self._source
        if player is None or source is None:
            return
        await player.judge()
        problem = problem_of(player, str(journal_path(source.folder)))
        if problem is not None:
            self.app.report(problem)
        self.show_status()

    def say_not_taken(self, why: str) -> None:
        """Says in the bar that a key was not taken."""
        self._answering.say_not_taken(why)

    @property
    def asks(self) -> bool:
        """Whether a question is on the screen."""
        return self.is_mounted and self._answering.deciding.is_shown

    # -- drawing ---------------------------------------------------------------------------------

    def show_view(self, view: View) -> None:
        """Draws a view: only panes that are on the screen, and of them only what changed."""
        if not self.is_drawn or self.app.is_away:
            return
        before, self.view = self.view, view
        with self.app.batch_update():
            self._bring_up(before, view)
            self.board.show_view(view)
            self._answering.consider()
            self.show_status()
            self.show_facts()
        self._ending.show()
        if before is None:
            self.call_after_refresh(self._judge_in_background)

    def show_status(self) -> None:
        """Draws the top line, where a replay is, and the keys that apply by now."""
        super().show_status()
        self._refresh_keys()

    def _bring_up(self, before: View | None, view: View) -> None:
        """Brings what is asked about to the front, unless the engineer is busy elsewhere.

        Where one pane is shown alone, that is the one.
        """
        is_busy = not view.following or isinstance(self.focused, AskField)
        if view.awaiting is None or is_busy:
            return
        if before is None or before.awaiting != view.awaiting:
            if view.awaiting.gate is ApprovalGate.PLAN:  # Next to it stand the lines it is about.
                self.board.bring_beside("source")
            self.bring(view.awaiting.gate.value)

    @on(DiffPane.HunkToggled)
    def _hunk_toggled(self) -> None:
        self._answering.hunks_changed()

    @property
    def _situation(self) -> KeyContext:
        return KeyContext(
            self.status,
            self.asks,
            works=self.works,
            engine_died=self.engine_died,
            has_player=self.player is not None,
            is_playing=self.player is not None and self.player.playing,
            looks_elsewhere=self.view is not None and not self.view.following,
            looks_up=self.looks_up,
            has_better=self.view is not None and self.view.state.has_better,
            can_continue=self.app.request_for is not None and self.status is SessionStatus.CLOSED,
            can_take_back=self.view is not None and self.view.state.revocable is not None,
        )

    def _refresh_keys(self) -> None:
        """Looks again which keys apply, if anything that they depend on has changed."""
        now = self._situation
        if now != self._keys_depend_on:
            self._keys_depend_on = now
            self.refresh_bindings()

    # -- the question ----------------------------------------------------------------------------

    def action_accept(self) -> None:
        """Accepts what is asked about, or the chosen hunks of it."""
        self._answering.accept()

    def action_reject(self) -> None:
        """Rejects it, with a reason for the team."""
        self._answering.reject()

    def action_take_back(self) -> None:
        """Takes the last rejection back."""
        self._answering.take_back()

    def action_edit(self) -> None:
        """Edits the plan as fields, or the code."""
        self._answering.edit()

    def action_edit_outside(self) -> None:
        """Edits the plan or the code in $VISUAL or $EDITOR."""
        self._answering.edit_outside()

    def action_accept_next(self) -> None:
        """Accepts a number of questions to come."""
        self._answering.accept_next()

    def action_mode(self) -> None:
        """Goes to the next mode of accepting without asking, up to a risk."""
        self._requests.next_mode()

    # -- requests --------------------------------------------------------------------------------

    def action_interrupt(self) -> None:
        """Drops the running step and pauses; nothing that is done is lost."""
        self._requests.send(EngineClient.interrupt)

    def action_pause(self) -> None:
        """Pauses before the next step."""
        self._requests.send(EngineClient.pause)

    def action_resume(self) -> None:
        """Ends a pause."""
        self._requests.send(EngineClient.resume)

    def action_start_engine(self) -> None:
        """Continues the session of an engine that is gone, with another one."""
        self._requests.start_engine()

    def action_note(self) -> None:
        """Tells the team something; it enters the next prompt."""
        self._requests.note()

    def action_stand_on(self) -> None:
        """Has the next round stand on the chosen candidate."""
        self._requests.stand_on()

    def action_add_case(self) -> None:
        """Adds a case with which all candidates from now on are checked."""
        self._requests.add_case()

    def action_branch(self) -> None:
        """Branches off at the chosen candidate: a new session that begins with its past."""
        self._requests.branch()

    def action_compare(self) -> None:
        """Compares the chosen candidate with another one of the session."""
        from astra_tui.tui.screens.compare import ask_what_to_compare

        ask_what_to_compare(self)

    def action_settings(self) -> None:
        """What the run was asked to do, and how each agent asks its model."""
        from astra_tui.present.sessions import settings_rows
        from astra_tui.tui.screens.dialogs import BlocksDialog

        state = self.view.state if self.view else None
        if state is not None and state.opened is not None:
            rows = settings_rows(state.opened.settings, state.round_limit)
            self.app.push_screen(BlocksDialog("Settings of this run", [doc.table(("", ""), rows)]))

    def action_more_rounds(self) -> None:
        """Continues with a session whose run has ended."""
        self._requests.more_rounds()

    def action_report(self) -> None:
        """Writes a report of the session."""
        self._ending.report()

    def action_export(self) -> None:
        """Exports the best candidate."""
        self._ending.export()

    def action_end(self) -> None:
        """Ends the run, after asking."""
        self.ask_how_to_leave()

    def ask_how_to_leave(self) -> None:
        """Asks whether the engine is to keep running."""
        self._requests.ask_how_to_leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key is offered where it would do something."""
        rule = APPLIES.get(action)
        return super().check_action(action, parameters) if rule is None else rule(self._situation)
