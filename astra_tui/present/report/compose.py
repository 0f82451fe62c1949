"""Puts a report together, and writes it to files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_tui.model.errors import UserError
from astra_tui.present.document import Document, as_json
from astra_tui.present.html import as_html
from astra_tui.present.markdown import as_markdown
from astra_tui.present.report.checks import checks_section
from astra_tui.present.report.counting import counters_section
from astra_tui.present.report.environment import (
    cost_section,
    environment_section,
    evidence_section,
)
from astra_tui.present.report.facts import gather
from astra_tui.present.report.opening import opening, subtitle, title
from astra_tui.present.report.sources import sources_section
from astra_tui.present.report.story import ledger_section, story_section
from astra_tui.present.report.timings import caveat_section, timing_section
from astra_tui.sessions.integrity import Session, Trust, read_session
from astra_tui.sessions.safe_open import write_inside
from astra_tui.sessions.store import place_for


def compose(session: Session) -> Document:
    """The report of a session; texts that its folder lacks are named as missing.

    Raises UserError when the session was never opened, or its journal is none that an engine could
    have written.
    """
    facts = gather(session)
    sections = (
        timing_section(facts),
        caveat_section(facts),
        story_section(facts),
        counters_section(facts),
        sources_section(facts),
        checks_section(facts),
        ledger_section(facts),
        cost_section(facts),
        environment_section(facts),
        evidence_section(facts),
    )
    return Document(
        title=title(facts),
        subtitle=subtitle(facts),
        opening=opening(facts),
        sections=tuple(s for s in sections if s is not None),
    )


@dataclass(frozen=True)
class WrittenReport:
    """The files of a report, None where one was not asked for, and what the journal has lost.

    `damage` also names the first place that was altered.
    """

    html: Path | None
    markdown: Path | None
    data: Path | None
    damage: tuple[str, ...]
    trust: Trust


def write_report(
    folder: Path, out: Path, *, html: bool = True, markdown: bool = True, data: bool = False
) -> WrittenReport:
    """Writes `out/NAME.html`, `out/NAME.md` and, as data, `out/NAME.json`, as far as asked for.

    NAME is that of the session's folder.

    The session is only read. Files of these names are replaced, and a link is replaced rather
    than followed. Raises UserError when the session cannot be read or the files not written.
    """
    session = read_session(folder)
    document = compose(session)
    name = folder.resolve().name
    return WrittenReport(
        html=_written(out / f"{name}.html", as_html(document)) if html else None,
        markdown=_written(out / f"{name}.md", as_markdown(document)) if markdown else None,
        data=_written(out / f"{name}.json", as_json(document)) if data else None,
        damage=session.damage_words(),
        trust=session.trust,
    )


def _written(path: Path, text: str) -> Path:
    try:
        write_inside(*place_for(path), text.encode())
    except UserError as error:
        error.hint = error.hint or "choose a folder with --out"
        raise
    return path
