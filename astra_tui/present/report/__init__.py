"""A session as one HTML file and one Markdown file, made from its journal and sources alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from astra_tui.model.errors import UserError
from astra_tui.present import document as doc
from astra_tui.present.files import as_html, as_markdown
from astra_tui.present.numbers import minute, pluralised
from astra_tui.present.report import evidence, story
from astra_tui.present.sessions import result_facts
from astra_tui.present.timing import portfolio_blocks
from astra_tui.present.tones import Phrase, Tone
from astra_tui.sessions.facts import Facts
from astra_tui.sessions.integrity import Session, Trust
from astra_tui.sessions.safe_open import write_inside
from astra_tui.sessions.store import place_for

_SECTIONS: tuple[tuple[str, str, Callable[[Facts], Sequence[doc.Block] | None]], ...] = (
    ("Portfolio by device", "portfolio", lambda facts: portfolio_blocks(facts.state) or None),
    ("Times per workload", "times", evidence.times),
    ("Rounds", "rounds", story.rounds),
    ("Counters", "counters", evidence.counters),
    ("Sources", "sources", story.sources),
    ("Tests", "tests", evidence.checks),
    ("Predictions", "ledger", story.predictions),
    ("Cost", "cost", evidence.cost),
    ("Environment", "environment", evidence.environment),
    ("How to verify", "verify", evidence.digests),
)
"""Titles, anchors and parts of a report; None where a session has nothing of the kind."""


def compose(session: Session) -> doc.Document:
    """The report of a session; texts that its folder lacks are named as missing.

    Raises UserError where it was never opened, or no engine can have written its journal.
    """
    facts, state = Facts(session), session.state
    where = f"on {state.gpu_name or state.device_name}"
    if facts.on_emulator:
        where = "on the emulator"
    records = session.contents.records
    start, end = minute(records[0].time), minute(records[-1].time)
    return doc.Document(
        title=f"{facts.opened.settings.task} {where}",
        subtitle=f"Session {session.folder.resolve().name}, {start} to {end} UTC",
        opening=_opening(facts),
        sections=[
            doc.Section(title, blocks, anchor)
            for title, anchor, made in _SECTIONS
            if (blocks := made(facts)) is not None
        ],
    )


def _opening(facts: Facts) -> list[doc.Block]:
    """The summary: who worked where, its result, and how much of it may be believed."""
    trust, damage = facts.session.trust, facts.session.contents.damage
    lines: list[doc.Line] = [] if trust.whole else [_distrust(trust)]
    if damage:
        lost = f"{pluralised(len(damage), 'part')} of the journal cannot be read"
        found = "; ".join(f"line {d.line}: {d.message}" for d in damage[:5])
        lines.append((Phrase(f"{lost}, so this report is not complete: ", Tone.TITLE), found))
    result = doc.fields(result_facts(facts.state)).rows
    return [*doc.paragraphs(*lines), doc.table(("what", "value"), result, "Result")]


def _distrust(trust: Trust) -> doc.Line:
    where = f"line {trust.line}: {trust.message}" if trust.line else trust.message
    text = "This session is cut off, so that its end may be missing: "
    if trust.altered:
        text = "This session was altered, so that nothing in this report can be relied on: "
    elif trust.writer:
        text = f"This session is still being written, by {trust.writer}: "
        where = f"the report shows it up to line {trust.line}."
    return Phrase(text, Tone.TITLE), where


_WRITERS = {"html": as_html, "md": as_markdown, "json": doc.as_json}


def write_report(
    session: Session, out: Path, forms: Collection[str] = ("html", "md")
) -> dict[str, Path]:
    """Writes `out/NAME.FORM` in each of these forms, NAME being that of the session's folder.

    Files of these names are replaced, and a link is replaced rather than followed. Raises UserError
    when there is nothing to report, or a file cannot be written.
    """
    document, name = compose(session), session.folder.resolve().name
    written = {form: out / f"{name}.{form}" for form in forms}
    for form, path in written.items():
        try:
            write_inside(*place_for(path), _WRITERS[form](document).encode())
        except UserError as error:
            error.hint = error.hint or "choose a folder with --out"
            raise
    return written
