"""Puts a report together."""

from __future__ import annotations

from astra_tui.sessions.integrity import Session
from astra_tui.sessions.report.checks import checks_section
from astra_tui.sessions.report.counting import counters_section
from astra_tui.sessions.report.document import Document
from astra_tui.sessions.report.environment import (
    cost_section,
    environment_section,
    evidence_section,
)
from astra_tui.sessions.report.facts import gather
from astra_tui.sessions.report.opening import opening, subtitle, title
from astra_tui.sessions.report.sources import sources_section
from astra_tui.sessions.report.story import ledger_section, story_section
from astra_tui.sessions.report.timings import caveat_section, timing_section


def compose(session: Session) -> Document:
    """The report of a session; texts that its folder lacks are said to be missing.

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
