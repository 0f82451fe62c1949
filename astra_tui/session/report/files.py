"""Writes a report of a session to files."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from astra_tui.model.errors import UserError
from astra_tui.model.fold import ImpossibleEvent
from astra_tui.session.integrity import broken_seal
from astra_tui.session.reading import journal_path, read_journal
from astra_tui.session.report.compose import compose
from astra_tui.session.report.html import as_html
from astra_tui.session.report.markdown import as_markdown


@dataclass(frozen=True)
class WrittenReport:
    """The files of a report, None where one was not asked for, and what the journal has lost.

    `damage` also names the first line that was altered.
    """

    html: Path | None
    markdown: Path | None
    damage: tuple[str, ...]


def write_report(
    folder: Path, out: Path, *, html: bool = True, markdown: bool = True
) -> WrittenReport:
    """Writes `out/NAME.html` and `out/NAME.md`, where NAME is that of the session's folder.

    The session is only read. Files of these names are replaced, and a link is replaced rather
    than followed. Raises UserError when the session cannot be read or the files not written.
    """
    contents = read_journal(folder)
    path = journal_path(folder)
    try:
        document = compose(contents, folder)
    except ImpossibleEvent as error:
        raise UserError(f"no engine wrote this journal: {error}", file=str(path)) from None
    except ValueError:
        message = "the journal does not begin with the opening of a session"
        raise UserError(message, file=str(path)) from None
    name = folder.resolve().name
    altered = broken_seal(folder, contents.damage)
    flaws = () if altered is None else (altered.describe(),)
    return WrittenReport(
        html=_written(out / f"{name}.html", as_html(document)) if html else None,
        markdown=_written(out / f"{name}.md", as_markdown(document)) if markdown else None,
        damage=(*flaws, *(d.describe(path) for d in contents.damage)),
    )


def _written(path: Path, text: str) -> Path:
    temporary = path.parent / f".{path.name}.{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        message = f"cannot be written: {error.strerror}"
        raise UserError(message, file=str(path), hint="choose a folder with --out") from None
    return path
