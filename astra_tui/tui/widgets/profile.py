"""Profile: what a candidate costs against the version it was made from."""

from __future__ import annotations

from textual.geometry import Region

from astra_tui.model.citations import COUNTED, CheckedCitation, CitationStatus
from astra_tui.model.plan import Citation
from astra_tui.present.counters import profile_blocks
from astra_tui.present.layout import Span
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Page
from astra_tui.tui.view import View, start_of
from astra_tui.tui.widgets.pane import Pane


class ProfilePane(Pane):
    """Counters before and after, for all workloads together and for each, and resources."""

    TITLE = "Profile"
    HELP = (
        "What the chosen candidate costs, against the version it was made from. Counters of the "
        "emulator are exact for memory traffic; it gives no time and no speedup. Less is better "
        "for every counter. Moved in vain are bytes that a line moves although an earlier line, "
        "launch or iteration did, and what L2 reads that no one asks for; blocks that load the "
        "same are not meant. Occupancy is resident warps over what one SM can hold.\n\n"
        "On a GPU, ratios are old time over new with their 95 % interval. Cold decides; warm and "
        "the paper's protocol, launches included, stand below it. The share of the floor is of the "
        "time of a copy of the same bytes. Caveats say what spoils a measurement. "
        "Hardware counters are those of ncu, whose own durations are no times."
    )

    def __init__(self, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._cited: CheckedCitation | None = None
        self._cited_of = ""
        self._row: int | None = None

    def point_at(self, reading: CheckedCitation | None, candidate: str) -> None:
        """Marks a number of a candidate that a plan cites; None takes the mark away."""
        self._cited, self._cited_of = reading, candidate
        self.redraw()
        self.call_after_refresh(self._show_mark)

    def row_style(self, row: int) -> str:
        """The cited number stands out."""
        return "lines--cursor" if row == self._row else ""

    def _show_mark(self) -> None:
        if self._row is not None:
            self.scroll_to_region(Region(0, self._row, 1, 1), animate=False)

    def part(self, view: View) -> tuple[object, ...]:
        """Candidate and base with what is known of them, and the verdict."""
        return (view.candidate, view.base, view.proposal, *view.rounds_timed)

    def draw(self, view: View, page: Page) -> None:
        """The verdict, the times, the totals, each workload, the kernels."""
        self._row = None
        start = start_of(view)
        if start is not None:
            page.paragraph("The plan has no code. It starts from this version:", Tone.DIM)
            view = start
        candidate = view.candidate
        if candidate is None:
            page.paragraph("There is no code yet.", Tone.DIM)
            return
        cited = self._cited if candidate.hash == self._cited_of else None
        if cited is not None:
            head_of_cited(page, cited)
        running = view.rounds_timed
        page.blocks(profile_blocks(view.state, view.proposal, candidate, view.base, running))
        if cited is not None:
            self._row = mark_cited(page, cited.citation)


def head_of_cited(page: Page, reading: CheckedCitation) -> None:
    """Says at the top what is looked for, and whether it is what was measured."""
    agrees = reading.standing is CitationStatus.AGREES
    page.field("cited", reading.describe(), Tone.ACCENT if agrees else Tone.CAUTION)
    page.blank()


def mark_cited(page: Page, cited: Citation) -> int | None:
    """Marks the first row of the page that shows a cited number; None where none does."""
    found = (rows[-1] for name, rows in page.places if _shows(name, cited))
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
