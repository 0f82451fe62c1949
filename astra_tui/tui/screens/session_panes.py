"""The panes of a session screen, and what it knows of its session.

What works for the screen, as the answers and orders do, is given this; screens/session.py puts all
of it together.
"""

from __future__ import annotations

from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

from astra_tui.model.approval import ApprovalGate, Question
from astra_tui.model.citations import COUNTED, check_citation
from astra_tui.model.errors import UserError
from astra_tui.model.events import ExchangeMade, ToolUsed
from astra_tui.model.state import SessionState, SessionStatus
from astra_tui.sessions.client import EngineClient
from astra_tui.sessions.folder import read_blob
from astra_tui.tui.app_base import AppBase
from astra_tui.tui.app_io import ExitState
from astra_tui.tui.player import Player
from astra_tui.tui.presenter import Presenter
from astra_tui.tui.screens.dialogs import ListingDialog, TextDialog
from astra_tui.tui.source import OpenSource, Source
from astra_tui.tui.view import Choice, View, place_of
from astra_tui.tui.widgets.approval_bar import ApprovalBar
from astra_tui.tui.widgets.bars import BarLine, EndingBar, KeyLine, TabLine
from astra_tui.tui.widgets.board import AnyPane, Board
from astra_tui.tui.widgets.diff.diff_pane import DiffPane
from astra_tui.tui.widgets.gpu import GpuPane, gpu_line
from astra_tui.tui.widgets.log import LogPane
from astra_tui.tui.widgets.pane_layout import LEFT
from astra_tui.tui.widgets.plan import PlanPane
from astra_tui.tui.widgets.profile import ProfilePane
from astra_tui.tui.widgets.prompt_line import PromptLine
from astra_tui.tui.widgets.replay_line import ReplayLine
from astra_tui.tui.widgets.rounds import RoundsPane
from astra_tui.tui.widgets.session_code import SessionDiff, SessionSource
from astra_tui.tui.widgets.source.lines import SourceLines
from astra_tui.tui.widgets.status_line import StatusLine
from astra_tui.tui.widgets.tests import TestsPane, tests_line


class SessionPanes(Screen[None], inherit_bindings=False):
    """Panes over one session, live or saved."""

    app: AppBase
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """What changes with the keys draws itself; Textual would paint the whole screen again."""
    _left: tuple[Choice, bool] | None = None
    """The plan from which a number was looked up, and whether the work was followed then."""

    def __init__(self, open_source: OpenSource):
        super().__init__()
        self._open_source = open_source
        self._source: Source | None = None
        self._presenter: Presenter | None = None
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
        yield BarLine(id="tests-line")
        yield BarLine(id="gpu-line")
        yield ReplayLine(id="timeline")
        yield ApprovalBar(id="approval")
        yield EndingBar(id="ending")
        yield PromptLine(id="prompt")
        yield KeyLine(id="keys")

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
        if self._source is None or self._presenter is None or self._presenter.ended:
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
    def is_live(self) -> bool:
        """Whether it shows what an engine does, which may have ended since."""
        return self._source is not None and self._source.engine is not None

    @property
    def works(self) -> bool:
        """Whether leaving would leave an engine at work."""
        return self.engine is not None and self.status is not SessionStatus.CLOSED

    @property
    def engine_died(self) -> bool:
        """Whether the engine is gone without a word, so that the session is not closed."""
        return (
            self.is_live
            and self.app.request_for is not None
            and self._presenter is not None
            and self._presenter.error is not None
            and self.status is not SessionStatus.CLOSED
        )

    def left(self, *, detached: bool) -> ExitState:
        """How far the session was."""
        source = self._source
        return ExitState(
            state=self.view.state if self.view else SessionState(),
            folder=source.folder if source else None,
            welcome=source.engine.welcome if source and source.engine else None,
            detached=detached,
        )

    @property
    def shown(self) -> frozenset[str]:
        """The panes on the screen."""
        return self.board.shown

    def is_readable(self, view: View) -> bool:
        """Whether the pane that a view asks about, if it is on the screen, has its lines by now."""
        name = view.awaiting.gate.value if view.awaiting else ""
        return name not in self.shown or self._panes[name].is_mounted

    # -- drawing ---------------------------------------------------------------------------------

    @property
    def is_drawn(self) -> bool:
        """Whether the widgets are there; events still come while the screen is taken down."""
        return self.is_attached and bool(self.query(StatusLine))

    def show_status(self) -> None:
        """Draws the top line, and where a replay is."""
        if self.view is not None and self.is_drawn:
            self.query_one(ReplayLine).show_player(self.player)
            self.query_one(StatusLine).show_status(
                self.view,
                self.app.clock(),
                player=self.player,
                gone=self._presenter is not None and self._presenter.error is not None,
            )

    def show_facts(self) -> None:
        """Tests and GPU in a line each, where there is room for more than one pane; the GPU's only
        where its own does not stay, and always with workers. They come and go with the width alone:
        panes keep their sizes.
        """
        view, count = self.view, len(self.shown)
        has_workers = view is not None and bool(view.workers.workers)
        shown = {"tests": count > 1, "gpu": has_workers or 1 < count <= len(LEFT) + 1}
        for name, line in (("tests", tests_line), ("gpu", gpu_line)):
            bar = self.query_one(f"#{name}-line", BarLine)
            bar.display = shown[name]
            if view is not None and bar.display:
                bar.set_line(line(view))

    def catch_up(self) -> None:
        """Draws what there was nothing to draw on for."""
        if self._presenter is not None:
            self._presenter.refresh()

    # -- panes -----------------------------------------------------------------------------------

    def bring(self, name: str) -> None:
        """Puts a pane in front; the focus follows, unless someone types."""
        self.board.bring(name, focus=not self.query_one(PromptLine).is_open)

    def look_at(self, question: Question) -> None:
        """Shows what a question is about."""
        self.diff.show_refused(None)
        self.action_follow()
        self.board.zoomed = False
        self.bring(question.gate.value)

    @on(Board.Arranged)
    def _arranged(self) -> None:
        titles = {name: pane.TITLE for name, pane in self._panes.items()}
        self.query_one(TabLine).show_tabs(titles, set(self.board.shown), self.board.front)
        self.show_facts()

    def choose(self, choice: Choice | None) -> None:
        """What all panes are about; None follows the work."""
        if self._presenter is not None:
            self._presenter.choose(choice)

    @on(RoundsPane.Chosen)
    def _chosen(self, event: RoundsPane.Chosen) -> None:
        self.choose(event.choice)

    @on(RoundsPane.Opened, "#rounds")
    def _opened(self) -> None:
        has_code = self.view is not None and self.view.candidate is not None
        self.bring("diff" if has_code else "plan")

    @on(DiffPane.LineOpened)
    def _line_opened(self, event: DiffPane.LineOpened) -> None:
        self.show_line(event.line)

    @on(SourceLines.ListingAsked)
    def _listing_asked(self, event: SourceLines.ListingAsked) -> None:
        sass = event.sass
        row = sass.first_rows.get(event.line, 0)
        self.app.push_screen(ListingDialog(f"SASS: {sass.words}", sass.listing, row))

    @on(LogPane.ExchangeOpened)
    def _exchange_opened(self, event: LogPane.ExchangeOpened) -> None:
        self.show_exchange(event.exchange)

    def show_exchange(self, exchange: ExchangeMade | ToolUsed) -> None:
        """A prompt and its reply, or a tool's answer and draft, as they are in the session."""
        if isinstance(exchange, ToolUsed):
            title = f"{exchange.role.value} agent: {exchange.tool} {exchange.subject}".rstrip()
            parts = {"ANSWER": exchange.answer, "DRAFT": exchange.draft}
        else:
            title = f"{exchange.model} for {exchange.purpose}"
            parts = {"PROMPT": exchange.request, "REPLY": exchange.reply}
        try:
            texts = {name: self.read_text(hash_) for name, hash_ in parts.items() if hash_}
        except UserError as error:
            self.app.report(error)
            return
        if isinstance(exchange, ExchangeMade):
            texts.setdefault("REPLY", exchange.error)
        text = "\n\n".join(f"{name}\n\n{text}" for name, text in texts.items())
        self.app.push_screen(TextDialog(title, text))

    def show_line(self, line: int) -> None:
        """Brings up the source with its cursor on a line, counted from 1."""
        if self.view is not None:
            self.source_pane.show_view(self.view)
        self.bring("source")
        # A pane that was never shown has its lines only once it is mounted.
        self.source_pane.call_after_refresh(self.source_pane.go_to_line, line)

    def action_pane(self, name: str) -> None:
        """Shows a pane and gives it the keys."""
        self.bring(name)

    def action_next_pane(self) -> None:
        """Goes to the next pane; while something is asked, from the plan to its code and back."""
        asked = self.view.awaiting if self.view else None
        if asked is None:
            self.bring(self.board.next_name())
        elif self.board.front != "plan":
            self.bring("plan")
        else:
            self.bring("diff" if asked.gate is ApprovalGate.DIFF else "source")

    def action_zoom(self) -> None:
        """Shows one pane alone, or all of them again."""
        self.board.zoom()

    def action_follow(self) -> None:
        """Shows what is being worked on, and continues to do so."""
        self.choose(None)

    def action_copy(self) -> None:
        """Copies the selected text, or the whole pane, through the terminal (OSC 52)."""
        chosen = self.get_selected_text()
        pane = self.board.front_pane
        self.app.copy_to_clipboard(chosen or pane.text)
        self.app.say("copied the selected text" if chosen else f"copied all of {pane.TITLE}")

    # -- the numbers that a plan cites -----------------------------------------------------------

    @property
    def looks_up(self) -> bool:
        """Whether there is a plan to go back to."""
        return (
            self._left is not None and self.view is not None and self.view.choice != self._left[0]
        )

    def on_plan_pane_looked_up(self, event: PlanPane.LookedUp) -> None:
        """Shows the version that the plan starts from, with the cited number marked: a number
        belongs to that version, so that all panes go there.
        """
        view = self.view
        if view is None or view.base is None:
            return
        reading = check_citation(event.citation, view.base)
        place = place_of(view.state, view.base.hash)
        if place is None:
            self.app.say("the version that this plan starts from is not in this session")
            return
        self._left = view.choice, view.following
        self.profile_pane.point_at(reading, view.base.hash)
        self.choose(place)
        if event.citation.lines and event.citation.metric in COUNTED:
            self.show_line(event.citation.lines[0].first)
            self.app.say(reading.describe())
        else:
            self.bring("profile")

    def action_back(self) -> None:
        """Shows the plan again whose number was looked up."""
        if self._left is None:
            return
        choice, was_following = self._left
        self._left = None
        self.profile_pane.point_at(None, "")
        self.choose(None if was_following else choice)
        self.bring("plan")
