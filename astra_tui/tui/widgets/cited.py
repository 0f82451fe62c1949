"""Points at the number on a page that a plan cites."""

from __future__ import annotations

from astra_tui.model.citations import COUNTED, CheckedCitation, CitationStatus
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Page, Span


class CitationFinder:
    """Looks for one cited number while a page is drawn; without a reading, for none.

    Code that draws a number says so. The first line that has the cited one is pointed at.
    """

    def __init__(self, reading: CheckedCitation | None = None):
        self.reading = reading
        self.row: int | None = None
        """Where it was found."""

    def drawn(self, page: Page, of: str, *metrics: str) -> None:
        """The last line of the page shows these metrics of a workload or kernel.

        `of` is empty for all workloads together.
        """
        if self.reading is None or self.row is not None or not self._is_cited(of, metrics):
            return
        self.row = len(page.lines) - 1
        page.add(Span("  < cited", Tone.ACCENT))

    def head(self, page: Page) -> None:
        """Says at the top what is looked for, and whether it is what was measured."""
        if self.reading is not None:
            agrees = self.reading.standing is CitationStatus.AGREES
            tone = Tone.ACCENT if agrees else Tone.CAUTION
            page.field("cited", self.reading.describe(), tone)
            page.blank()

    def _is_cited(self, of: str, metrics: tuple[str, ...]) -> bool:
        assert self.reading is not None
        cited = self.reading.citation
        if cited.lines or cited.metric not in metrics:
            return False
        if not cited.of and cited.metric not in COUNTED:
            return True  # Any workload or kernel may be meant.
        return cited.of in (of, of.partition("<")[0])
