"""The session screen: draws what a source tells, and takes the engineer's decisions to the engine.

What it shows comes from pictures that the bridge makes; what it does goes through `EngineClient`.
A saved session has no engine, so that the same screen can decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from astra_tui.model.approval import Answer, Question
from astra_tui.model.errors import UserError
from astra_tui.model.state import SessionState, SessionStatus
from astra_tui.sessions.client import EngineClient
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.reading import journal_path
from astra_tui.tui.app_io import ExitState
from astra_tui.tui.player import Player
from astra_tui.tui.presenter import Presenter
from astra_tui.tui.screens.answering import Answering
from astra_tui.tui.screens.applying import APPLIES, KEYS
from astra_tui.tui.screens.citing import CITING, CitingActions
from astra_tui.tui.screens.playing import PLAYING, PlayingActions, trouble_of
from astra_tui.tui.screens.steering import Steering
from astra_tui.tui.source import OpenSource, Source
from astra_tui.tui.view import Choice, View
from astra_tui.tui.widgets.approval_bar import ApprovalBar
from astra_tui.tui.widgets.bars import KeyLine, TabLine
from astra_tui.tui.widgets.board import AnyPane, Board
from astra_tui.tui.widgets.code.pane import AskField
from astra_tui.tui.widgets.diff.pane import DiffPane
from astra_tui.tui.widgets.gpu import GpuPane
from astra_tui.tui.widgets.log import LogPane
from astra_tui.tui.widgets.plan import PlanPane
from astra_tui.tui.widgets.profile import ProfilePane
from astra_tui.tui.widgets.prompt_line import PromptLine
from astra_tui.tui.widgets.replay_line import ReplayLine
from astra_tui.tui.widgets.rounds import RoundsPane
from astra_tui.tui.widgets.session_code import SessionDiff, SessionSource
from astra_tui.tui.widgets.source.lines import SourceLines
from astra_tui.tui.widgets.status_line import StatusLine
from astra_tui.tui.widgets.tests import TestsPane

if TYPE_CHECKING:
    from astra_tui.tui.app import AstraApp


class SessionScreen(PlayingActions, CitingActions, Screen[None], inherit_bindings=False):
    """One session, live or saved."""

    app: AstraApp

    BINDINGS: ClassVar[list[BindingType]] = [*CITING, *PLAYING, *KEYS]

    def __init__(self, open_source: OpenSource):
        super().__init__()
        self._open_source = open_source
        self._source: Source | None = None
        self._bridge: Presenter | None = None
        self._keys_depend_on: tuple[object, ...] = ()
        self.view: View | None = None
        self.diff = SessionDiff(self.read_text, id="diff")
        self.source_pane = SessionSource(self.read_text, id="source")
        self.profile_pane = ProfilePane(id="profile")
        panes: tuple[AnyPane, ...] = (
            RoundsPane(id="rounds"),
            PlanPane(id="plan"),
            self.diff,
            self.source_pane,
            TestsPane(id="tests"),
            self.profile_pane,
            GpuPane(id="gpu"),
            LogPane(id="log"),
        )
        self._panes = {pane.id or "": pane for pane in panes}
        self.board = Board(self._panes, id="board")

    def compose(self) -> ComposeResult:
        """Bars above and below, the panes between them."""
        yield StatusLine(id="status")
        yield TabLine(id="tabs")
        yield self.board
        yield ReplayLine(id="timeline")
        yield ApprovalBar(id="approval")
        yield PromptLine(id="prompt")
        yield KeyLine(id="keys")

    def on_mount(self) -> None:
        """Begins to read."""
        self._answering = Answering(self)
        self._steering = Steering(self)
        self.bindings_updated_signal.subscribe(self, self._bindings_changed)
        self.board.bring("plan")
        self.set_interval(1.0, self.show_status)
        self.run_worker(self._follow_source(), name="source")

    def _bindings_changed(self, _screen: Screen[object]) -> None:
        """The bar names the keys that apply: a field that had the focus kept the letters of it."""
        self._answering.hunks_changed()

    def on_screen_resume(self) -> None:
        """A question that something else covered is on the screen only from now on."""
        if self.asks:
            self.app.guard.drawn()
            self.call_after_refresh(self.app.guard.drawn)

    async def _follow_source(self) -> None:
        try:
            self._source = await self._open_source()
        except UserError as error:
            self.app.leave_session(self, error)
            return
        self._say_what_is_damaged(self._source)
        self._bridge = Presenter(self._source, self.show_view, self.app.clock, self.app.tick)
        try:
            await self._bridge.run()
            if self._bridge.trouble is not None:
                self.app.report(self._bridge.trouble)
                self.show_status()
        finally:
            await self._source.close()

    def _say_what_is_damaged(self, source: Source) -> None:
        player = source.player
        trouble = trouble_of(player, str(journal_path(source.folder))) if player else None
        if trouble is not None:
            self.app.report(trouble)

    # -- what it knows ---------------------------------------------------------------------------

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
        """The engine, while it can be talked to."""
        if self._source is None or self._bridge is None or self._bridge.ended:
            return None
        return self._source.engine

    @property
    def player(self) -> Player | None:
        """What plays a saved session."""
        return self._source.player if self._source else None

    @property
    def status(self) -> SessionStatus:
        """What the session is doing."""
        return self.view.state.status if self.view else SessionStatus.NEW

    @property
    def works(self) -> bool:
        """Whether leaving would leave an engine at work."""
        return self.engine is not None and self.status is not SessionStatus.CLOSED

    @property
    def asks(self) -> bool:
        """Whether a question is on the screen."""
        return self.is_mounted and self._answering.deciding.is_shown

    @property
    def shown(self) -> frozenset[str]:
        """The panes on the screen."""
        return self.board.shown

    # -- drawing ---------------------------------------------------------------------------------

    @property
    def _is_drawn(self) -> bool:
        """Whether the widgets are there; events still come while the screen is taken down."""
        return self.is_attached and bool(self.query(StatusLine))

    def show_view(self, view: View) -> None:
        """Draws a picture: only panes that are on the screen, and of them only what changed."""
        if not self._is_drawn or self.app.is_away:
            return
        before, self.view = self.view, view
        with self.app.batch_update():
            self._bring_up(before, view)
            self.board.show_view(view)
            self._consider()
            self.show_status()
        self._refresh_keys()

    def _bring_up(self, before: View | None, view: View) -> None:
        """Brings what is asked about to the front, unless the engineer is busy elsewhere.

        Where one pane is shown alone, that is the one.
        """
        is_busy = not view.following or isinstance(self.focused, AskField)
        if view.awaiting is None or is_busy:
            return
        if before is None or before.awaiting != view.awaiting:
            self._bring(view.awaiting.gate.value)

    def _consider(self) -> None:
        if self.view is not None and self._source is not None and self._source.engine is not None:
            self._answering.consider(self.view)

    def catch_up(self) -> None:
        """Draws what there was nothing to draw on for."""
        if self._bridge is not None:
            self._bridge.refresh()

    def consider_again(self) -> None:
        """Looks again whether the open question can be shown."""
        self._consider()
        self._refresh_keys()

    def show_status(self) -> None:
        """Draws the top line, and where a replay is."""
        if self.view is not None and self._is_drawn:
            self.query_one(ReplayLine).show_player(self.player)
            self.query_one(StatusLine).show_status(
                self.view,
                self.app.clock(),
                player=self.player,
                gone=self._bridge is not None and self._bridge.trouble is not None,
            )

    def _refresh_keys(self) -> None:
        """Looks again which keys apply, if anything that they depend on has changed."""
        now = (
            self.status,
            self.asks,
            self.view is not None and self.view.following,
            self.engine is not None,
            self.player is not None,
            self.looks_up,
        )
        if now != self._keys_depend_on:
            self._keys_depend_on = now
            self.refresh_bindings()

    # -- panes -----------------------------------------------------------------------------------

    def _bring(self, name: str) -> None:
        """Puts a pane in front; the focus follows, unless someone types."""
        self.board.bring(name, focus=not self.query_one(PromptLine).is_open)

    def look_at(self, question: Question) -> None:
        """Shows what a question is about."""
        self.action_follow()
        self.board.zoomed = False
        self._bring(question.gate.value)

    @on(Board.Arranged)
    def _arranged(self) -> None:
        titles = {name: pane.TITLE for name, pane in self._panes.items()}
        self.query_one(TabLine).show_tabs(titles, set(self.board.shown), self.board.front)

    def choose(self, choice: Choice | None) -> None:
        """What all panes are about; None follows the work."""
        if self._bridge is not None:
            self._bridge.choose(choice)

    @on(RoundsPane.Chosen)
    def _chosen(self, event: RoundsPane.Chosen) -> None:
        self.choose(event.choice)

    @on(RoundsPane.Opened, "#rounds")
    def _opened(self) -> None:
        has_code = self.view is not None and self.view.candidate is not None
        self._bring("diff" if has_code else "plan")

    @on(DiffPane.HunkToggled)
    def _hunk_toggled(self) -> None:
        self._answering.hunks_changed()

    @on(DiffPane.LineOpened)
    def _line_opened(self, event: DiffPane.LineOpened) -> None:
        self.show_line(event.line)

    @on(SourceLines.ListingAsked)
    def _listing_asked(self, event: SourceLines.ListingAsked) -> None:
        sass = event.sass
        self.app.show_listing(f"SASS: {sass.words}", sass.listing, sass.first_rows.get(event.line))

    @on(LogPane.ExchangeOpened)
    def _exchange_opened(self, event: LogPane.ExchangeOpened) -> None:
        self.app.show_exchange(event.exchange, self.read_text)

    def action_pane(self, name: str) -> None:
        """Shows a pane and gives it the keys."""
        self._bring(name)

    def action_next_pane(self) -> None:
        """Goes to the next pane."""
        self._bring(self.board.next_name())

    def action_zoom(self) -> None:
        """Shows one pane alone, or all of them again."""
        self.board.zoom()

    def action_follow(self) -> None:
        """Shows what is being worked on, and goes on to do so."""
        self.choose(None)

    def action_copy(self) -> None:
        """Copies the selected text, or the whole pane, through the terminal (OSC 52)."""
        chosen = self.get_selected_text()
        pane = self.board.front_pane
        self.app.copy_to_clipboard(chosen or pane.text)
        self.app.say("copied the selected text" if chosen else f"copied all of {pane.TITLE}")

    # -- the question ----------------------------------------------------------------------------

    def action_accept(self) -> None:
        """Accepts what is asked about, or the chosen hunks of it."""
        self._answering.accept()

    def action_reject(self) -> None:
        """Rejects it, with a reason for the team."""
        self._answering.reject()

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
        self._steering.next_mode()

    def accept_next(self, count: int) -> None:
        """Has a number of questions to come accepted without asking."""
        self._steering.accept_next(count)

    def send(
        self,
        answer: Answer,
        taken: Callable[[], None] = lambda: None,
        explain: Callable[[UserError], UserError] = lambda error: error,
    ) -> None:
        """Gives an answer to the engine; the bar is gone until the engine says otherwise.

        `taken` is told of its success; `explain` may add to what is said where it is refused.
        """
        self.query_one(ApprovalBar).hide()
        self._refresh_keys()

        def refused(error: UserError) -> None:
            self._answering.refused(explain(error))
            self._refresh_keys()

        self._steering.answer(answer, taken, refused)

    # -- steering --------------------------------------------------------------------------------

    def action_interrupt(self) -> None:
        """Drops the running step and pauses; nothing that is done is lost."""
        self._steering.order(EngineClient.interrupt)

    def action_pause(self) -> None:
        """Pauses before the next step."""
        self._steering.order(EngineClient.pause)

    def action_go_on(self) -> None:
        """Ends a pause."""
        self._steering.order(EngineClient.go_on)

    def action_note(self) -> None:
        """Tells the team something; it enters the next prompt."""
        self._steering.note()

    def action_add_case(self) -> None:
        """Adds a case with which all candidates from now on are checked."""
        self._steering.add_case()

    def action_branch(self) -> None:
        """Branches off at the chosen candidate: a new session that begins with its past."""
        self._steering.branch()

    def action_compare(self) -> None:
        """Shows the chosen candidate beside another one of the session."""
        from astra_tui.tui.comparing import ask_what_to_compare

        ask_what_to_compare(self)

    def action_end(self) -> None:
        """Ends the run, after asking."""
        self.ask_how_to_leave()

    def ask_how_to_leave(self) -> None:
        """Asks whether the engine is to go on."""
        self._steering.ask_how_to_leave()

    def left(self, *, detached: bool) -> ExitState:
        """How far the session was."""
        source = self._source
        return ExitState(
            state=self.view.state if self.view else SessionState(),
            folder=source.folder if source else None,
            welcome=source.engine.welcome if source and source.engine else None,
            detached=detached,
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key is offered where it would do something."""
        rule = APPLIES.get(action)
        return super().check_action(action, parameters) if rule is None else rule(self)
