"""Pages: whatever is written on them fits and is harmless."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from astra_tui.tui.page import Page, Span, Tone, cut, line_cells, line_text, padded, span, wrapped
from astra_tui.tui.text.visible import is_harmless

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
    for line in page.lines:
        assert line_cells(line) <= width
        assert all(is_harmless(c) for c in line_text(line))


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]), max_size=300), WIDTHS)
def test_wrapping_loses_no_word(text: str, width: int) -> None:
    assert "".join("".join(wrapped(text, width)).split()) == "".join(text.split())


@given(st.text(st.characters(categories=["L", "N"]), max_size=60), st.integers(1, 40))
def test_cut_and_padded_have_the_width(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width
    assert cell_len(padded(text, width)) == width or cell_len(text) > width


def test_a_cut_text_says_so() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"


def test_markup_is_text() -> None:
    page = Page(40)
    page.paragraph("[bold]x[/] \x1b[31m")
    assert line_text(page.lines[0]) == "[bold]x[/] «ESC»[31m"


def test_wrapped_lines_keep_their_margin() -> None:
    assert list(wrapped("  one two three", 10)) == ["  one two", "  three"]
