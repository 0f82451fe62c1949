"""What an engineer may ask of an engine at any moment: notes, pause, interrupt, end, detach."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from astra_tui.model.approval import Answer, AutoMode
from astra_tui.model.author import Author
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.sessions.branches import find_intact_place, fork_session
from astra_tui.sessions.client import EngineClient, EngineGone, user_at_terminal
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.sessions.store import new_session_folder
from astra_tui.tui.screens.session_panes import SessionPanes
from astra_tui.tui.view import View
from astra_tui.tui.widgets.prompt_line import PromptLine, whole_number

REQUEST_SECONDS = 1.0
"""What a request changes is on the screen after so long at the latest."""

EngineRequest = Callable[[EngineClient], Awaitable[None]]


class EngineRequests:
    """Works for one session screen; what an engine refuses is shown as a notice."""

    def __init__(self, screen: SessionPanes):
        self._screen = screen
        self._app = screen.app
        self._ordered = AutoMode.ASK
        self._ordered_at = float("-inf")

    def send(self, what: EngineRequest, refused: Callable[[UserError], None] | None = None) -> None:
        """Asks the engine for something; without an engine, nothing is asked."""
        engine = self._screen.engine
        if engine is None:
            return

        async def carry_out() -> None:
            try:
                await what(engine)
            except UserError as error:
                (refused or self._app.report)(error)

        self._screen.run_worker(carry_out(), name="request")

    def answer(
        self, answer: Answer, taken: Callable[[], None], refused: Callable[[UserError], None]
    ) -> None:
        """Gives an answer; says whether it was taken, or why not."""

        async def give(engine: EngineClient) -> None:
            await engine.answer(answer)
            taken()

        if self._screen.engine is None:
            refused(EngineGone("the engine is gone; nothing was sent"))
        else:
            self.send(give, refused)

    def more_rounds(self) -> None:
        """Asks how many, and continues with a session whose run has ended."""

        def start(text: str) -> None:
            count = whole_number(text)
            if count:
                self.start_engine(count)
            else:
                self._app.say("how many? For example 2")

        self._screen.query_one(PromptLine).ask("how many more rounds:", start)

    def start_engine(self, more: int = 0, take_back: str = "") -> None:
        """Resumes a session whose engine is gone, as it was begun, in the place of its screen.

        `more` rounds, where it is given, are done on top of those that are. The question
        `take_back`, which was rejected last, is asked again first, in the round that it is of.
        """
        from astra_tui.tui.forms import resuming

        folder, request_for, view = self._screen.folder, self._app.request_for, self._screen.view
        if folder is None or request_for is None or view is None or view.state.opened is None:
            return
        try:
            request = resuming(request_for(view.state.opened.settings.task), folder)
            rounds = view.state.rounds_done + more if more else request.settings.rounds
            if take_back:
                rounds = view.state.round_limit
            settings = replace(request.settings, rounds=rounds)
            request = replace(request, settings=settings, take_back=take_back)
        except UserError as error:
            self._app.report(error)
            return
        self._app.run_worker(
            self._app.resume_session(request, self._screen), name="resume", exclusive=True
        )

    def note(self) -> None:
        """Asks for a note, and sends it."""

        def send(text: str) -> None:
            if text:
                self.send(lambda engine: engine.note(text))

        self._screen.query_one(PromptLine).ask("note to the team:", send)

    def stand_on(self) -> None:
        """Has the next round stand on the chosen candidate."""
        chosen = self._screen.view.candidate if self._screen.view else None
        if chosen is None:
            self._app.say("choose a candidate in Rounds first")
        else:

            async def choose(engine: EngineClient) -> None:
                await engine.choose_parent(chosen.hash)
                self._app.say(f"the next round stands on {short(chosen.hash)}")

            self.send(choose)

    def next_mode(self) -> None:
        """Has questions to come accepted up to the next higher risk; after all, asked again.

        Pressing the key again at once means the mode after the one that was just ordered.
        """
        view, now = self._screen.view, self._app.clock()
        if view is None:
            return
        recently = now - self._ordered_at < REQUEST_SECONDS
        modes = list(AutoMode)
        before = self._ordered if recently else view.state.auto.mode
        self._ordered = modes[(modes.index(before) + 1) % len(modes)]
        self._ordered_at = now
        mode = self._ordered
        self.send(lambda engine: engine.auto(mode))

    def accept_next(self, count: int) -> None:
        """Has a number of questions to come accepted, at any risk."""
        view = self._screen.view
        if view is not None:
            mode = view.state.auto.mode
            self.send(lambda engine: engine.auto(mode, count))

    def add_case(self) -> None:
        """Asks for a case, which all candidates from now on are checked with."""
        from astra_tui.tui.forms import case_fields, case_note, case_of
        from astra_tui.tui.screens.form import FormScreen

        view = self._screen.view
        if view is None:
            return

        def check(values: Mapping[str, str]) -> None:
            case_of(values)

        async def send(values: Mapping[str, str]) -> None:
            if self._screen.engine is None:
                raise EngineGone("the engine is gone; nothing was sent")
            await self._screen.engine.case(case_of(values))

        def taken(values: Mapping[str, str] | None) -> None:
            if values is not None:
                name = case_of(values).name
                self._app.say(f"case '{name}': all candidates from now on are checked with it")

        form = FormScreen("Add a case", case_fields(view), check, send=send, note=case_note(view))
        self._app.push_screen(form, taken)

    def branch(self) -> None:
        """Asks what the team should know, and branches off at what is chosen."""
        view, folder = self._screen.view, self._screen.folder
        if view is None or folder is None:
            return
        at = place_name(view)

        def write(note: str) -> None:
            self._screen.run_worker(self._branch(folder, at, note), name="branch")

        label = f"branch off at {short(at)}, note to the team:"
        self._screen.query_one(PromptLine).ask(label, write)

    async def _branch(self, folder: Path, at: str, note: str) -> None:
        try:
            made = await asyncio.to_thread(
                branch_off, folder, self._app.sessions, at, note, user_at_terminal()
            )
        except UserError as error:
            self._app.report(error)
            return
        self._app.say(f"branched off: {made}. Home resumes it, as does astra-tui resume")

    def ask_how_to_leave(self) -> None:
        """Asks whether the engine is to keep running."""
        from astra_tui.tui.screens.dialogs import ChoiceDialog, Option

        options = (
            Option("d", "detach: the engine keeps running; astra-tui attach reattaches", "detach"),
            Option("x", "end the run: what is done is kept and can be resumed", "end"),
        )
        text = "An engine works on this session."
        self._app.push_screen(ChoiceDialog("Leave?", text, options), self._leave)

    def _leave(self, how: str | None) -> None:
        if how == "detach":
            self._app.leave_session(self._screen, self._screen.left(detached=True))
        elif how == "end":
            self.send(EngineClient.cancel)


def place_name(view: View) -> str:
    """The chosen candidate as `astra-tui fork --at` names it.

    That is its hash; the round, for the baseline; the decision, where it is open or a plan has no
    code.
    """
    asked = view.asked
    if asked is not None and view.choice == (asked.round, asked.proposal):
        return asked.id
    if view.choice.round == 0:
        return "0"
    proposal = view.proposal
    code = proposal.code if proposal else None
    if code is not None:
        return code.candidate
    return f"{view.choice.round}.{view.choice.proposal}.plan"


def branch_off(parent: Path, root: Path, at: str, note: str, by: Author) -> Path:
    """Writes a branch into the folder `root` of sessions; returns its own. The parent is only read.

    Raises UserError where nothing can branch off there, or something before it was altered.
    """
    timeline, place = find_intact_place(parent, at)
    opened = timeline.final_state().opened
    task = opened.settings.task if opened else "session"
    folder = new_session_folder(root, task, datetime.now())
    try:
        fork_session(parent, timeline, place, folder, Redactor(), by, note=note)
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    return folder
