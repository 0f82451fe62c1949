"""Points at the number on a page that a plan cites."""

from __future__ import annotations

from astra_tui.model.citations import COUNTED, CheckedCitation, CitationStatus
from astra_tui.model.plan import Citation
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Page, Span


def head_of_cited(page: Page, reading: CheckedCitation) -> None:
    """Says at the top what is looked for, and whether it is what was measured."""
    agrees = reading.standing is CitationStatus.AGREES
    page.field("cited", reading.describe(), Tone.ACCENT if agrees else Tone.CAUTION)
    page.blank()


def mark_cited(page: Page, cited: Citation) -> int | None:
    """Marks the first row of the page that shows a cited number; None where none does."""
    found = (row for name, row in page.anchors.items() if _shows(name, cited))
    row = next(found, None)
    if row is not None:
        page.add(Span("  < cited", Tone.ACCENT), row=row)
    return row


def _shows(place: str, cited: Citation) -> bool:
    """Whether a row of this name, as `doc.place` writes it, has the number."""
    of, *metrics = place.split("\t")
    if cited.lines or cited.metric not in metrics:
        return False
    if not cited.of and cited.metric not in COUNTED:
        return True  # Any workload or kernel may be meant.
    return any(cited.of in (name, name.partition("<")[0]) for name in of.split("\n"))
