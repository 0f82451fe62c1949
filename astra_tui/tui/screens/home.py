"""Home: kernels with their best known results, and sessions to resume or to look at."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen

from astra_tui.model.errors import UserError
from astra_tui.model.task_folders import bundled
from astra_tui.model.visible import visible_inline
from astra_tui.present.layout import Span
from astra_tui.present.numbers import age
from astra_tui.present.tones import Tone
from astra_tui.sessions.engines import Running, RunRequest
from astra_tui.sessions.store import DEFAULT_FOLDER
from astra_tui.tui.app_base import AppBase
from astra_tui.tui.app_io import HomeContext
from astra_tui.tui.home_data import (
    Kernel,
    ListedSession,
    best_of,
    engines_by_folder,
    kernels,
    list_session,
    session_folders,
    waiting,
)
from astra_tui.tui.source import attach, open_saved, start
from astra_tui.tui.text_layout import Page, cut_inside, padded, span
from astra_tui.tui.widgets.bars import BarLine, KeyLine
from astra_tui.tui.widgets.line_view import LinesView, RowsView
from astra_tui.tui.widgets.prompt_line import PromptLine

LOOK_SECONDS = 2.0
"""How often home looks which engines wait."""

LEAST_OF_A_FOLDER = 12
"""Columns of a session's folder, below which it is left out."""

WIDE = 100
"""Columns from which on names and states of sessions have room."""

WIDE_COLUMNS = (34, 8, 18, 8, 24)
WHOLE_BEST = 50
"""Columns in which the best can be read whole, from a width of `ROOMY` on."""
ROOMY = 150
NARROW_COLUMNS = (29, 6, 12, 7, 23)
"""Widths of the parts of a session's row."""

NAME_END = len("-20260101-120000")
"""Characters at the end of a name that tell the sessions of one task from each other."""


class KernelList(RowsView):
    """The kernel tasks."""

    TITLE = "Kernels"
    HELP = (
        "The kernel tasks that are known: those in ./kernels, in $ASTRA_TUI_KERNELS, and the "
        "bundled ones. Enter starts a session on the chosen one. The best known result is the "
        "best candidate of any session below: measured again at its end against the fastest "
        "shipped kernels, where all were timed, else against tuned.cu, where there is one, else "
        "against baseline.cu, its slow start."
    )

    def may_choose(self, row: int) -> bool:
        """All but the titles of the columns."""
        return 1 <= row < len(self._lines)


class SessionList(RowsView):
    """The sessions, newest first."""

    TITLE = "Sessions"
    HELP = (
        "Sessions on the disk, newest first. Enter attaches to one that runs, and replays one "
        "that does not. c resumes one that has ended or was interrupted. w marks one, and w "
        "on another compares the best candidates of both."
    )

    def may_choose(self, row: int) -> bool:
        """All but the titles of the columns."""
        return 1 <= row < len(self._lines)


class Inbox(RowsView):
    """The engines that wait for someone, wherever their sessions are."""

    TITLE = "Waiting for you"
    HELP = (
        "Every engine of yours on this machine that waits for a decision, whatever folder its "
        "session is in. Enter attaches to it."
    )

    def may_choose(self, row: int) -> bool:
        """All but the title."""
        return 1 <= row < len(self._lines)


class HomeScreen(Screen[None], inherit_bindings=False):
    """Where astra-tui begins."""

    app: AppBase

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "resume", "Continue", id="resume"),
        Binding("w", "compare", "Compare", id="compare_sessions"),
        Binding("o", "open_folder", "Open a folder", id="open_folder"),
        Binding("n", "draft", "New kernel", id="draft"),
        Binding("ctrl+r,f5", "reload", "Reload", id="reload", show=False),
        Binding("tab", "other_list(1)", "Other list", id="other_list"),
        Binding("shift+tab", "other_list(-1)", show=False, id="other_list_back"),
    ]

    DEFAULT_CSS = """
    HomeScreen Inbox { height: auto; max-height: 30%; padding: 0 1; }
    HomeScreen KernelList { height: auto; max-height: 40%; padding: 0 1; margin-bottom: 1; }
    HomeScreen SessionList { height: 1fr; padding: 0 1; }
    HomeScreen #first-run { height: 1fr; padding: 0 1; }
    """

    def __init__(self, context: HomeContext):
        super().__init__()
        self._home = context
        self._kernels: list[Kernel] = []
        self._sessions: list[ListedSession] = []
        self._waiting: tuple[Running, ...] = ()
        self._has_looked = False
        self._loaded = False
        self._compared: Path | None = None
        """The session that the next chosen one is compared with."""

    def compose(self) -> ComposeResult:
        """Two lists, or one and what to do first."""
        yield BarLine(id="head")
        with Vertical():
            yield Inbox(id="inbox")
            yield KernelList(id="kernels")
            yield SessionList(id="sessions")
            yield LinesView(id="first-run")
        yield PromptLine(id="prompt")
        yield KeyLine(id="keys")

    def on_mount(self) -> None:
        """Begins to look which engines wait; what is listed is read where the screen comes up."""
        sessions = self._home.sessions
        folder = visible_inline(str(sessions) if sessions.is_absolute() else f"./{sessions}")
        head = (Span(" astra-tui ", Tone.TITLE), Span(f" Sessions in {folder}", Tone.DIM))
        self.query_one("#head", BarLine).set_line(head)
        self.query_one("#kernels").focus()
        self.set_interval(LOOK_SECONDS, self._look)

    def on_screen_resume(self) -> None:
        """Lists the kernels at once, and sessions as they are read: with their results by now."""
        self.action_reload()

    def on_resize(self, _event: events.Resize) -> None:
        """For another width."""
        self._draw()

    def action_reload(self) -> None:
        """Reads kernels, sessions and engines again."""
        self._kernels = kernels()
        self._draw()
        self.run_worker(self._read_sessions(), group="sessions", exclusive=True)

    async def _look(self) -> None:
        """Finds out which engines wait by now."""
        if self.is_current and not self.app.is_away:
            with contextlib.suppress(UserError):  # Reading the sessions tells of it.
                self._take(await engines_by_folder())

    def _take(self, engines: Mapping[str, Running]) -> None:
        """Shows the engines that wait; one that has begun to while home is open rings."""
        before, self._waiting = self._waiting, waiting(engines)
        for _, one in self._waiting:
            words = f"{one.session}: {one.waits_for}"
            self.app.announce(one.folder, one.question, words, silent=not self._has_looked)
        if self._waiting != before:
            self._draw()
            if not self._has_looked:
                self.query_one(Inbox).focus()
        self._has_looked = True

    async def _read_sessions(self) -> None:
        try:
            engines = await engines_by_folder()
            self._take(engines)
            folders = await asyncio.to_thread(session_folders, self._home.sessions)
        except (UserError, OSError) as error:
            self.app.say(str(error))
            engines, folders = {}, []
        listed: list[ListedSession] = []
        for folder in folders:
            listed.append(await asyncio.to_thread(list_session, folder, engines))
        # Files that were copied or cloned are as old as that, not as their session.
        self._sessions = sorted(listed, key=lambda one: one.summary.ended, reverse=True)
        self._loaded = True
        self._draw()
        self.refresh_bindings()

    # -- drawing ---------------------------------------------------------------------------------

    def _draw(self) -> None:
        if not self.query(KernelList):  # What was read came after the screen had closed.
            return
        width = self.app.size.width - 3
        kernel_list, session_list = self.query_one(KernelList), self.query_one(SessionList)
        inbox = self.query_one(Inbox)
        inbox.display = bool(self._waiting)
        inbox.set_lines(self._inbox_page(width).lines)
        kernel_list.set_lines(self._kernel_page(width).lines)
        session_list.set_lines(self._session_page(width).lines)
        for rows in (inbox, kernel_list, session_list):
            if not rows.may_choose(rows.cursor):
                rows.set_cursor(1)
        is_first_run = self._loaded and not self._sessions
        self.query_one("#first-run").display = is_first_run
        session_list.display = not is_first_run
        if is_first_run:
            self.query_one("#first-run", LinesView).set_lines(self._first_run(width).lines)

    def _inbox_page(self, width: int) -> Page:
        page = Page(width)
        page.line(Span("waiting for you", Tone.DIM))
        name = WIDE_COLUMNS[0] if width >= WIDE else NARROW_COLUMNS[0]
        for _, one in self._waiting:
            session = cut_inside(visible_inline(one.session), name - 1, NAME_END)
            asked = span(one.waits_for, Tone.CAUTION)
            page.line(Span(padded(session, name), Tone.TITLE), asked)
            folder = Path(one.folder).parent
            room = width - name - len(asked.text) - 2
            if folder != self._home.sessions.resolve() and room >= LEAST_OF_A_FOLDER:
                where = cut_inside(visible_inline(str(folder)), room, room - 2)
                page.add(Span(f"  {where}", Tone.DIM))
        return page

    def _kernel_page(self, width: int) -> Page:
        page = Page(width)
        name = max((len(k.name) for k in self._kernels), default=6) + 2
        room = WHOLE_BEST if width >= ROOMY else 22
        page.line(Span(padded("kernel", name) + padded("best known", room + 1) + "what", Tone.DIM))
        for kernel in self._kernels:
            page.line(
                Span(padded(span(kernel.name).text, name), Tone.TITLE),
                self._best_cell(best_of(kernel.name, self._sessions), width, room),
                span(kernel.summary),
            )
        return page

    def _session_page(self, width: int) -> Page:
        page = Page(width)
        is_wide = width >= WIDE
        columns = WIDE_COLUMNS if is_wide else NARROW_COLUMNS
        room = WHOLE_BEST if width >= ROOMY else columns[4]
        titles = ("session", "age", "status", "rounds", "best")
        head = "".join(padded(t, w) for t, w in zip(titles, (*columns[:4], room), strict=True))
        page.line(Span(head + ("task, team, device" if is_wide else ""), Tone.DIM))
        if not self._loaded:
            page.line(Span("reading ...", Tone.DIM))
        now = datetime.now(UTC)
        for listed in self._sessions:
            one = listed.summary
            name = f"A {one.name}" if Path(one.folder) == self._compared else one.name
            name = cut_inside(visible_inline(name), columns[0] - 1, NAME_END)
            cells = (name, age(one.ended, now), listed.status, str(one.rounds))
            made = [
                span(padded(visible_inline(c), w - 1) + " ")
                for c, w in zip(cells, columns[:4], strict=True)
            ]
            best = self._best_cell(listed, width, room - 1)
            rest = f"{one.task}, {one.team}, {one.device}" if one.task else "; ".join(one.damage)
            ends = (best, span(rest, Tone.DIM)) if is_wide else (best,)
            page.line(*made, *(ends if one.task else (span(rest, Tone.DIM),)))
        return page

    def _best_cell(self, listed: ListedSession | None, width: int, room: int) -> Span:
        if listed is None:
            return Span(padded("-", room + 1), Tone.DIM)
        told = listed.best if width >= ROOMY else listed.brief
        return Span(padded(told.text or "-", room) + " ", told.tone)

    def _first_run(self, width: int) -> Page:
        page = Page(width)
        page.paragraph("There are no sessions yet.", Tone.TITLE)
        page.blank()
        page.paragraph(
            "Choose a kernel and press enter. Each round plans one change; you read the plan, "
            "then the diff, and accept, edit or reject it. Nothing is compiled before its plan "
            "is decided, and nothing runs before its diff is."
        )
        page.blank()
        page.paragraph(
            "Without a model the playbook team works: rules that read the source. Without a GPU "
            "candidates run on the emulator, which counts memory traffic exactly and gives no "
            "times. To work with a model, name it and its server in the form that enter opens, "
            "or as model and base_url in your own config.toml, and the key in OPENAI_API_KEY; "
            "astra-tui doctor tries what is set up."
        )
        shipped = session_folders(bundled(DEFAULT_FOLDER))
        if shipped:
            page.blank()
            page.paragraph(
                "Sessions that were recorded on a GPU come with astra-tui and are replayed "
                f"without one: astra-tui replay {min(folder.name for folder in shipped)}"
            )
        return page

    # -- actions ---------------------------------------------------------------------------------

    @property
    def _chosen_session(self) -> ListedSession | None:
        rows = self.query_one(SessionList)
        index = rows.cursor - 1
        return self._sessions[index] if 0 <= index < len(self._sessions) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Resuming needs a session that can be, and comparing one that can be read."""
        if action in ("resume", "compare"):
            chosen = self._chosen_session if self.is_mounted else None
            if chosen is None or not isinstance(self.focused, SessionList):
                return False
            return chosen.can_resume if action == "resume" else bool(chosen.summary.task)
        if action == "draft":
            return self._home.draft is not None
        return super().check_action(action, parameters)

    def on_descendant_focus(self) -> None:
        """Other keys apply."""
        self.refresh_bindings()

    @on(RowsView.Moved)
    def _moved(self) -> None:
        self.refresh_bindings()

    def action_other_list(self, step: int) -> None:
        """To the engines that wait, to the kernels or to the sessions."""
        shown = [rows for rows in self.query(RowsView) if rows.display]
        now = next((n for n, rows in enumerate(shown) if rows is self.focused), 0)
        shown[(now + step) % len(shown)].focus()

    @on(RowsView.Opened, "#inbox")
    def _attend(self, event: RowsView.Opened) -> None:
        if 1 <= event.row <= len(self._waiting):
            socket, _ = self._waiting[event.row - 1]
            self.app.open_session(partial(attach, socket))

    @on(RowsView.Opened, "#kernels")
    def _start(self, event: RowsView.Opened) -> None:
        self._ask_for_run(self._kernels[event.row - 1].name)

    @on(RowsView.Opened, "#sessions")
    def _open(self) -> None:
        chosen = self._chosen_session
        if chosen is None:
            return
        if chosen.socket is not None:
            self.app.open_session(partial(attach, chosen.socket))
        else:
            self.app.open_session(partial(open_saved, Path(chosen.summary.folder)))

    def action_resume(self) -> None:
        """Resumes the chosen session."""
        chosen = self._chosen_session
        if chosen is not None and chosen.can_resume:
            self._ask_for_run(chosen.summary.task, Path(chosen.summary.folder))

    def action_compare(self) -> None:
        """Marks a session; on another one, compares both; on the same one, forgets the mark."""
        from astra_tui.tui.screens.compare import CandidateRef, compare

        chosen = self._chosen_session
        if chosen is None:
            return
        folder = Path(chosen.summary.folder)
        first, self._compared = self._compared, None if self._compared else folder
        if first is None:
            self.app.say(f"A is {folder.name}; choose B and press the key again")
        elif first != folder:
            self.run_worker(
                compare(self.app, CandidateRef(first), CandidateRef(folder)), name="compare"
            )
        self._draw()

    def action_open_folder(self) -> None:
        """Opens a session or a kernel task by its folder."""
        self.query_one(PromptLine).ask("folder of a session or a kernel task:", self._open_path)

    def _open_path(self, text: str) -> None:
        path = Path(text).expanduser()
        if not text:
            return
        if (path / "task.toml").is_file():
            self._ask_for_run(str(path))
        else:
            self.app.open_session(partial(open_saved, path))

    def action_draft(self) -> None:
        """Drafts a kernel task from a CUDA source, or continues a draft by its folder."""
        from astra_tui.tui.screens.draft import DraftScreen
        from astra_tui.tui.screens.form import Field, FormScreen

        begin, begun = self._home.draft, []
        if begin is None:
            return

        async def send(values: Mapping[str, str]) -> None:
            folder = Path(values["folder"].strip()).expanduser()
            source, kernel = values["source"].strip(), values["kernel"].strip()
            begun.append(await asyncio.to_thread(begin, folder, source, kernel))

        def show(values: Mapping[str, str] | None) -> None:
            if values is not None:
                self.app.push_screen(DraftScreen(begun[-1]))

        fields = (
            Field("source", "from", ""),
            Field("kernel", "kernel", ""),
            Field("folder", "folder", "kernels/"),
        )
        note = (
            "from: a .cu file, a folder, or a package as NAME or NAME==VERSION; kernel: where "
            "there are several. With neither, the draft in the folder continues."
        )
        form = FormScreen("Draft a kernel task", fields, lambda _: None, send=send, note=note)
        self.app.push_screen(form, show)

    def _ask_for_run(self, task: str, folder: Path | None = None) -> None:
        """Asks how to run a task, or how to resume a session."""
        from astra_tui.tui.forms import MODEL_NOTE, model_fields, resuming, run_fields, run_of
        from astra_tui.tui.screens.form import RunForm

        try:
            request = self._home.request_for(task)
            if folder is not None:
                request = resuming(request, folder)
        except UserError as error:
            self.app.report(error)
            return

        def run(values: Mapping[str, str] | None) -> None:
            if values is not None and folder is None:
                self.app.open_session(partial(start, run_of(values, request)))
            elif values is not None:
                resumed = self.app.resume_session(run_of(values, request), None)
                self.run_worker(resumed, name="resume")

        title = f"Continue {folder.name}" if folder else f"Optimise {task}"
        form = RunForm(
            title,
            run_fields(request),
            lambda values: _check_run(values, request),
            model_fields(request.settings),
            MODEL_NOTE,
        )
        self.app.push_screen(form, run)


def _check_run(values: Mapping[str, str], request: RunRequest) -> None:
    from astra_tui.tui.forms import run_of

    run_of(values, request)
