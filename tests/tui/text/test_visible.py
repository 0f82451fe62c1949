"""Hostile text becomes harmless, visible, and stays told apart."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from astra_tui.model.visible import visible, visible_inline, visible_line

HOSTILE = "\x00\x1b\x7f\x85\x9b\xa0\xad\u061c\u200b\u200d\u202e\u2066\u2028\ufeff\ud800\udfff\ufffe"
SUSPECT = st.sampled_from([*HOSTILE, *"\t\r «»·aé中e\u0301\u1160\U0001f1e9\U0001f44d\U0001f3fb"])
ANY_LINE = st.text(st.characters(exclude_characters="\n") | SUSPECT, max_size=60)


def acts(character: str) -> bool:
    """Whether a character may act on a terminal or hide: control, format, separator, mark."""
    category = unicodedata.category(character)
    return category[0] in "CM" or (category[0] == "Z" and character != " ")


@given(ANY_LINE)
@example(HOSTILE)
def test_nothing_that_acts_or_hides_is_left(line: str) -> None:
    shown = visible_line(line).text
    assert not [c for c in shown if acts(c)]
    assert all(cell_len(c) in (1, 2) for c in shown)


@given(ANY_LINE)
def test_widths_of_characters_add_up(line: str) -> None:
    shown = visible_line(line).text
    assert cell_len(shown) == sum(cell_len(c) for c in shown)


def decode(shown: str) -> str:
    """What a line was before it was made visible, read from its text alone."""
    found = []
    index = cells = 0
    while index < len(shown):
        character = shown[index]
        if character == "«":
            end = shown.index("»", index)
            found.append(decode_name(shown[index + 1 : end]))
            taken = end + 1 - index
        elif character == "»":
            found.append("\t")
            taken = 4 - cells % 4
        else:
            found.append(" " if character == "·" else character)
            taken = 1
        cells += cell_len(shown[index : index + taken])
        index += taken
    return "".join(found)


def decode_name(name: str) -> str:
    if name.startswith("U+"):
        return chr(int(name[2:], 16))
    return next(
        c
        for c in map(chr, [*range(0x21), *range(0x7F, 0xAE), *range(0x2000, 0x2070), 0xFEFF])
        if visible_line(f"{c}x").text == f"«{name}»x"
    )


@given(ANY_LINE)
@example("\t \t  ")
@example("«ESC»\x1b")
@example("a·  ")
def test_the_line_can_be_read_back_from_what_is_shown(line: str) -> None:
    assert decode(visible_line(line).text) == line


@given(ANY_LINE)
def test_columns_point_at_the_pieces(line: str) -> None:
    shown = visible_line(line)
    columns = [shown.column(i) for i in range(len(line) + 1)]
    assert columns[0] == 0
    assert columns[-1] == len(shown.text)
    assert columns == sorted(set(columns))
    marked = {i for begin, end in shown.marks for i in range(begin, end)}
    for index, character in enumerate(line):
        piece = shown.text[columns[index] : columns[index + 1]]
        assert (piece == character) == (columns[index] not in marked)


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=60))
def test_plain_ascii_stays_as_it_is(line: str) -> None:
    line = line.rstrip(" ")
    assert visible_line(line) == visible_line(visible_line(line).text)
    assert visible_line(line).text == line


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("a\x1b[31mb", "a«ESC»[31mb"),
        ("if (x) \u202e{", "if (x) «RLO»{"),
        ("a\tb", "a»  b"),
        ("中\tb", "中» b"),
        ("x;  ", "x;··"),
        ("\r", "«CR»"),
        ("\ud800", "«U+D800»"),
        ("«a» ·", "«U+00AB»a«U+00BB» «U+00B7»"),
        ("e\u0301", "e«U+0301»"),
        ("ünï 中文 → θ", "ünï 中文 → θ"),
    ],
)
def test_examples(line: str, shown: str) -> None:
    assert visible_line(line).text == shown


def test_beyond_ascii_only_prose_is_left_alone() -> None:
    line = "int \u0430 = 1; // \u0430"
    assert visible_line(line, [(12, 16)]).text == "int «U+0430» = 1; // \u0430"


@given(st.text(max_size=80), st.text(max_size=80))
def test_texts_that_differ_look_different(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)
    assert (visible_inline(one) == visible_inline(other)) == (one == other)


def test_an_overlong_line_is_cut_with_a_mark_that_tells_the_rest() -> None:
    one, other = ("x" * 10_000 + end for end in "ab")
    assert visible(one).startswith("x" * 2000 + "«8001 more characters, SHA-256 ")
    assert len(visible(one)) < 2100
    assert visible(one) != visible(other)


def test_line_feeds_stay_in_texts_and_are_marks_in_titles() -> None:
    assert visible("a \nb") == "a·\nb"
    assert visible_inline("a\nb") == "a«LF»b"
