"""What can be done with a session whose run is over: report, export, more rounds."""

from __future__ import annotations

import asyncio
from pathlib import Path

from astra_tui.model.errors import UserError
from astra_tui.model.export import Format, StepOutcome
from astra_tui.present.layout import Span
from astra_tui.present.tones import Tone
from astra_tui.tui.screens.session_panes import SessionPanes
from astra_tui.tui.widgets.bars import EndingBar
from astra_tui.tui.widgets.prompt_line import PromptLine

NEXT = {
    "take_back": "undo rejection",
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
        from astra_tui.sessions.integrity import read_session

        folder = self._screen.folder
        if folder is None:
            return
        try:
            session = await asyncio.to_thread(read_session, folder)
            written = await asyncio.to_thread(write_report, session, out)
        except UserError as error:
            self._app.report(error)
        else:
            self._app.say(f"written: {' and '.join(map(str, written.values()))}")

    def export(self) -> None:
        """Asks for a form, and exports the best candidate."""
        names = [form.value for form in Format]

        def write(text: str) -> None:
            if text not in names:
                self._app.say(f"there is no form '{text}': say {', '.join(names)}")
            else:
                self._screen.run_worker(self._export(Format(text)), name="export")

        self._screen.query_one(PromptLine).ask(f"export as ({', '.join(names)}):", write)

    async def _export(self, to: Format) -> None:
        folder, export_best = self._screen.folder, self._app.export_best
        if folder is None:
            return
        self._app.say(f"exporting as {to.value}: it is compiled and checked first ...")
        try:
            if export_best is None:
                raise UserError("nothing can be exported from here")
            report = await export_best(folder, to)
            if report.failed:
                failed = next(s for s in report.steps if s.outcome is StepOutcome.FAILED)
                raise UserError(f"nothing was exported: {failed.name}: {failed.detail}")
        except UserError as error:
            self._app.report(error)
        else:
            self._app.say(f"exported to {report.folder}")
