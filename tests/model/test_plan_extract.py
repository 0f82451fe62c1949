"""Finding the plan in a kernel source, whatever else the source holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.errors import Place
from astra_tui.model.launch import Launch, PlanError, find_plan, plan_of

from .helpers import PROPERTY, marked

KERNELS = Path(__file__).parents[2] / "kernels"
PLAN = "/* @launch k grid=1 block=1 args=() */"


def error_of(source: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        plan_of(source, "kernel.cu")
    assert caught.value.file == "kernel.cu"
    return caught.value


@pytest.mark.parametrize(
    "comment",
    [
        PLAN,
        "/*@launch k grid=1 block=1 args=()*/",
        "/** @launch k grid=1 block=1 args=() */",
        "/*! @launch k grid=1 block=1 args=() */",
        "/*\n * @launch\n   k grid=1\n   block=1 args=()\n*/",
        "/* @launch\r\n k grid=1 block=1 args=()\r\n*/",
        "/*\t@launch\n\n\nk grid=1 block=1 args=() */",
        "/* @launch # a remark with \"quotes' and // slashes\n k grid=1 block=1 args=() */",
    ],
)
def test_a_block_comment_that_begins_with_the_mark_is_the_plan(comment: str) -> None:
    (launch,) = plan_of(f"int before;\n{comment}\nint after;").steps
    assert isinstance(launch, Launch)
    assert launch.kernel == "k"


@pytest.mark.parametrize(
    "other",
    [
        '"/* @launch */"',
        '"\\"/* @launch */"',
        '"line \\\n /* @launch */"',
        '"line \\\r\n /* @launch */"',
        "'/* @launch */'",
        "'\"' /* not a plan: @launch */",
        "// /* @launch */",
        "// continues \\\n /* @launch */",
        "// continues \\\r\n /* @launch */",
        "/* see @launch */",
        "/* @launcher */",
        "/* @launch-plan */",
        "/* /* @launch */",
        'R"(/* @launch */)"',
        'R"x(/* @launch )" */)x"',
        'u8R"(" /* @launch */)"',
        'LR"(\n/* @launch\n*/\n)"',
        'const char* a = "R"; char b[] = "(/* @launch */)";',
        "int n = 1'000; // it's a thousand",
        "int n = 0xFF'FF + 1'0; /* isn't */",
        "auto n = 1'000ull; char c = 'a'; /* it's */",
        "char c = u8'a'; char d = '\\'';",
        "#error can't",
        "int x = 4 / 2; int y = x / 2;",
    ],
)
def test_what_only_looks_like_a_plan_is_none(other: str) -> None:
    found = find_plan(f"{other}\n{PLAN}\n{other}")
    assert found.text == " k grid=1 block=1 args=() "
    assert "no launch plan" in error_of(other).message


def test_a_digit_separator_opens_no_character() -> None:
    assert find_plan(f"int n = 1'000; {PLAN} // it's").text == " k grid=1 block=1 args=() "
    assert find_plan(f"char c = u8'a'; {PLAN} // it's").text == " k grid=1 block=1 args=() "


def test_the_text_its_place_and_its_span_are_found() -> None:
    source = f"// é\nint a; {PLAN}\nint b;"
    found = find_plan(source)
    assert source[found.begin : found.end] == PLAN
    assert found.text == " k grid=1 block=1 args=() "
    assert found.place == Place(2, 18)


def test_errors_in_a_plan_have_their_place_in_the_source() -> None:
    source, place = marked("// first\n\n   /* @launch\n      k grid=1\n        blok▶$=1 */\n")
    error = error_of(source)
    assert error.message == "unexpected '$'"
    assert error.place == place == Place(5, 13)
    assert error.describe().startswith("kernel.cu:5:13: ")


def test_an_error_on_the_first_line_of_a_plan_has_its_place_in_the_source() -> None:
    source, place = marked("  /* @launch ▶$ */")
    assert error_of(source).place == place


def test_a_source_without_a_plan_is_an_error() -> None:
    error = error_of("__global__ void k() {}\n")
    assert error.message == "this source has no launch plan"
    assert "/* @launch  my_kernel<T>" in error.hint


def test_two_plans_are_an_error_at_the_second() -> None:
    source, place = marked(f"\n{PLAN}\n\n  /* @launch▶ k grid=1 block=1 args=() */")
    error = error_of(source)
    assert error.message == "a second launch plan; the first is at line 2"
    assert error.place == place
    assert "use 'when'" in error.hint


@pytest.mark.parametrize("before", ["", f"{PLAN}\n"])
def test_a_comment_that_is_never_closed_is_an_error(before: str) -> None:
    source, place = marked(f"{before}int a;\n  ▶/* @launch k\nint b;")
    error = error_of(source)
    assert error.message == "this comment is never closed"
    assert error.place == place
    assert error.hint == "close it with */"


def test_an_empty_plan_launches_nothing() -> None:
    assert error_of("/* @launch */").message == "the launch plan launches nothing"


@pytest.mark.parametrize(
    "file", sorted(KERNELS.glob("*/*.cu")), ids=lambda f: f"{f.parent.name}/{f.name}"
)
def test_bundled_kernels_have_a_plan(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    found = find_plan(source)
    assert source[found.begin : found.end].startswith("/* @launch")
    assert list(plan_of(source).launches())


_PIECES = st.sampled_from(
    (
        *('"', "'", "\\", "\n", "//", "/*", "*/", 'R"(', ')"', "@launch", PLAN, " "),
        *("k", "1'0", "(", ")", "#"),
    )
)


@PROPERTY
@given(st.lists(_PIECES, max_size=30).map("".join))
def test_any_source_has_a_plan_or_a_plan_error(source: str) -> None:
    try:
        found = find_plan(source)
    except PlanError:
        return
    assert source[found.begin :].startswith("/*")
    assert source[: found.end].endswith(found.text + "*/")
