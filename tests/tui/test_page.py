"""Pages: whatever is written on them fits and is harmless."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from astra_tui.model.visible import is_harmless, visible_inline
from astra_tui.present.document import Entry, Items, Listing, Paragraph
from astra_tui.present.layout import Span, line_cells, line_text
from astra_tui.present.tones import Phrase, Tone
from astra_tui.tui.text_layout import ELLIPSIS, Page, cut, cut_inside, padded, span, wrapped
from astra_tui.tui.widgets.prompt_line import whole_number

WIDTHS = st.integers(8, 120)
TEXTS = st.text(max_size=200)


@given(TEXTS, WIDTHS)
def test_no_line_is_wider_than_the_page_and_all_of_it_is_harmless(text: str, width: int) -> None:
    page = Page(width)
    page.paragraph(text, indent=2 if width > 20 else 0)
    page.line("name ", span(text, Tone.BAD), Span(" end"))
    page.heading(text)
    if width > 24:
        page.field(text, text)
        line = (Phrase(text, Tone.BAD), f" {text}", Phrase(text, Tone.TITLE))
        listing = Listing(text, (Phrase(text),))
        page.blocks([Entry(line, (Paragraph(line), Items((line,)), listing))])
    for line in page.lines:
        assert line_cells(line) <= width
        assert all(is_harmless(c) for c in line_text(line))


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]), max_size=300), WIDTHS)
def test_wrapping_loses_no_word(text: str, width: int) -> None:
    assert "".join("".join(wrapped(text, width)).split()) == "".join(text.split())
    page = Page(width)
    page.blocks([Paragraph((Phrase(text, Tone.GOOD), " ", text))])
    assert "".join("".join(map(line_text, page.lines)).split()) == "".join(2 * text.split())


@given(st.text(st.characters(categories=["L", "N"]), max_size=60), st.integers(1, 40))
def test_cut_and_padded_have_the_width(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width
    assert cell_len(padded(text, width)) == width or cell_len(text) > width


def test_a_cut_text_says_so() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"


@given(st.text(min_size=1, max_size=60), st.integers(0, 40), st.integers(1, 20))
def test_a_text_that_is_cut_inside_fits_and_keeps_its_end(text: str, width: int, end: int) -> None:
    text = visible_inline(text)
    cut_text = cut_inside(text, width, end)
    assert cell_len(cut_text) <= width
    assert cut_text == text or ELLIPSIS in cut_text or width == 0
    if width >= cell_len(text[-end:]) + 2:
        assert cut_text.endswith(text[-end:])


@given(st.one_of(st.text(), st.text("0123456789²٣ ", max_size=5000)))
def test_what_is_typed_as_a_number_is_one_or_none(text: str) -> None:
    number = whole_number(text)
    assert number is None or number == int(text)
    assert whole_number("9" * 5000) is None
    assert whole_number("²") is None


def test_markup_is_text() -> None:
    page = Page(40)
    page.paragraph("[bold]x[/] \x1b[31m")
    assert line_text(page.lines[0]) == "[bold]x[/] «ESC»[31m"


def test_wrapped_lines_keep_their_margin() -> None:
    assert list(wrapped("  one two three", 10)) == ["  one two", "  three"]
