"""What the pieces of a kernel source are, and that hostile sources are read to their end."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.tui.text.cuda import TokenKind, prose_of
from astra_tui.tui.text.document import NO_LINE_FEED, PART, Highlighter, document_of

ROOT = Path(__file__).resolve().parents[3]
TUNED = (ROOT / "kernels/silu_and_mul/tuned.cu").read_text()


def roles(text: str) -> list[dict[str, TokenKind]]:
    """For each line, the role of each piece of text."""
    highlighter = Highlighter(text)
    assert highlighter.advance(60)
    lines = text.split("\n")
    return [
        {line[a:b].strip(): role for a, b, role in highlighter.spans(index)}
        for index, line in enumerate(lines)
    ]


def test_cuda_words_have_their_roles() -> None:
    (found,) = roles("__global__ void f(half2 x) { __syncthreads(); return 1.0f; } // threadIdx")
    assert found["__global__"] is TokenKind.KEYWORD
    assert found["void"] is TokenKind.TYPE
    assert found["half2"] is TokenKind.TYPE
    assert found["1.0f"] is TokenKind.NUMBER
    assert found["// threadIdx"] is TokenKind.COMMENT


def test_the_launch_plan_is_code_and_other_comments_are_not() -> None:
    found = roles(
        "/* @launch\n  when d % 8 == 0: # wide\n    f<T, 8> grid=tokens block=128\n*/\n/* x */"
    )
    assert found[0] == {"/*": TokenKind.LAUNCH, "@launch": TokenKind.LAUNCH}
    assert found[1]["when"] is TokenKind.KEYWORD
    assert found[1]["# wide"] is TokenKind.COMMENT
    assert found[2]["f"] is TokenKind.NAME
    assert found[2]["grid"] is TokenKind.KEYWORD
    assert found[2]["128"] is TokenKind.NUMBER
    assert found[3] == {"*/": TokenKind.LAUNCH}
    assert found[4] == {"/* x */": TokenKind.COMMENT}


def test_no_line_of_a_launch_plan_is_a_comment() -> None:
    lines = TUNED.split("\n")
    begin = next(i for i, line in enumerate(lines) if "@launch" in line)
    end = next(i for i, line in enumerate(lines) if line == "*/")
    assert not any(TokenKind.COMMENT in found.values() for found in roles(TUNED)[begin : end + 1])


@given(st.text(st.sampled_from([*"/*@launch\"'\\(){}<>#\n\t x0R\x00\u202eа"]), max_size=200))
def test_spans_lie_in_their_lines_in_order(text: str) -> None:
    highlighter = Highlighter(text)
    assert highlighter.advance(60)
    for index, line in enumerate(text.split("\n")):
        edges = [edge for begin, end, _ in highlighter.spans(index) for edge in (begin, end)]
        assert edges == sorted(edges)
        assert all(0 <= edge <= len(line) for edge in edges)


def test_slices_of_time_end_with_the_same_spans() -> None:
    whole, sliced = Highlighter(TUNED * 5), Highlighter(TUNED * 5)
    whole.advance(60)
    ready = [sliced.ready]
    while not sliced.advance(0):
        ready.append(sliced.ready)
    assert ready == sorted(ready)
    lines = range(len((TUNED * 5).split("\n")))
    assert [whole.spans(i) for i in lines] == [sliced.spans(i) for i in lines]


def test_overlong_lines_do_not_hold_up_the_others() -> None:
    found = roles("int a;\n" + "/*" * 50_000 + "\n" + "::a" * 50_000 + "\nint b;")
    assert found[0]["int"] is TokenKind.TYPE
    assert not found[1]
    assert found[3]["int"] is TokenKind.TYPE


def test_prose_is_comments_and_strings() -> None:
    text = "f(\"a\", 'b', 1'000); // c\n/* d\ne */ g"
    found = [[text.split("\n")[i][a:b] for a, b in line] for i, line in enumerate(prose_of(text))]
    assert [[piece.strip("\n") for piece in line] for line in found] == [
        ['"a"', "'b'", "// c"],
        ["/* d"],
        ["e */"],
    ]


def test_a_letter_of_another_script_cannot_pass_for_a_latin_one_in_code() -> None:
    document = document_of("int \u0430 = 0;  // \u0430ll\n")
    assert document.visible(0).text == "int «U+0430» = 0;  // \u0430ll"


def test_a_missing_line_feed_at_the_end_shows() -> None:
    assert document_of("a\nb").visible(1).text == f"b{NO_LINE_FEED}"
    assert document_of("a\nb\n").visible(1).text == "b"
    assert len(document_of("")) == 0


@given(st.integers(0, 5 * PART))
def test_no_part_of_an_overlong_line_is_out_of_reach(length: int) -> None:
    document = document_of("x" * length + "\n")
    assert document.parts(0) == max(1, -(-length // PART))
