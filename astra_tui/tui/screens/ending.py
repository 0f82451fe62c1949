"""What can be done with a session whose run is over: report, export, more rounds."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import msgspec

from astra_tui.model.errors import UserError
from astra_tui.model.export import ExportReport, Format
from astra_tui.present.tones import Tone
from astra_tui.tui.screens.session_panes import SessionPanes
from astra_tui.tui.text_layout import Span
from astra_tui.tui.widgets.bars import EndingBar
from astra_tui.tui.widgets.prompt_line import PromptLine

NEXT = {
    "export": "export",
    "report": "report",
    "more_rounds": "more rounds",
    "branch": "branch",
    "compare": "compare",
}
"""Actions of the bar in their order, and what it calls them."""


class Ending:
    """Works for one session screen."""

    def __init__(self, screen: SessionPanes):
        self._screen = screen
        self._app = screen.app

    def show(self) -> None:
        """Says how the run ended, once it has."""
        view = self._screen.view
        if view is None or not self._screen.is_live or self._screen.works:
            return
        bindings = {
            active.binding.action: self._app.get_key_display(active.binding)
            for active in self._screen.active_bindings.values()
        }
        keys: list[Span] = [Span("  ")]
        for action, words in NEXT.items():
            if action in bindings:
                keys += (Span(f" {bindings[action]}", Tone.ACCENT), Span(f" {words}  "))
        self._screen.query_one(EndingBar).show_ending(view.state, tuple(keys))

    def report(self) -> None:
        """Asks where to, and writes the report."""

        def write(text: str) -> None:
            self._screen.run_worker(self._report(Path(text or ".").expanduser()), name="report")

        self._screen.query_one(PromptLine).ask("report into the folder (. where empty):", write)

    async def _report(self, out: Path) -> None:
        from astra_tui.present.report import write_report

        folder = self._screen.folder
        if folder is None:
            return
        try:
            written = await asyncio.to_thread(write_report, folder, out)
        except UserError as error:
            self._app.report(error)
        else:
            self._app.say(f"written: {written.html} and {written.markdown}")

    def export(self) -> None:
        """Asks for a form, and exports the best candidate."""
        names = [form.value for form in Format]

        def write(text: str) -> None:
            if text not in names:
                self._app.say(f"there is no form '{text}': say {', '.join(names)}")
            else:
                self._screen.run_worker(self._export(text), name="export")

        self._screen.query_one(PromptLine).ask(f"export as ({', '.join(names)}):", write)

    async def _export(self, form: str) -> None:
        """The command, in a process of its own: it compiles and checks, and may need a GPU."""
        folder = self._screen.folder
        if folder is None:
            return
        self._app.say(f"exporting as {form}: it is compiled and checked first ...")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "astra_tui", "export", str(folder.resolve())),
            *("--to", form, "--json"),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            answer, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        try:
            self._app.say(_exported(answer, said.decode(errors="replace")))
        except UserError as error:
            self._app.report(error)


class _Failure(msgspec.Struct):
    """Why a command failed, as its JSON says it."""

    message: str
    hint: str = ""


class _Failed(msgspec.Struct):
    error: _Failure


def _exported(answer: bytes, said: str) -> str:
    """Where an export is. Raises UserError where there is none."""
    try:
        report = msgspec.json.decode(answer, type=ExportReport)
    except msgspec.MsgspecError:
        try:
            error = msgspec.json.decode(answer, type=_Failed).error
        except msgspec.MsgspecError:
            words = "; ".join(said.strip().splitlines()[-2:])
            raise UserError("the export broke down", hint=words) from None
        raise UserError(error.message, hint=error.hint) from None
    if report.failed:
        failed = next(s for s in report.steps if s.outcome.value == "failed")
        raise UserError(f"nothing was exported: {failed.name}: {failed.detail}")
    return f"exported to {report.folder}"
