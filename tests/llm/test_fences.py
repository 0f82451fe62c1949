"""Whole files read from fenced blocks."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm import BadAnswer, Truncated
from astra_tui.llm.fences import Fence, read_fences, read_whole_file

CODE = "__global__ void scale(float* x) {\n  x[threadIdx.x] *= 2.0f;\n}\n"


@pytest.mark.parametrize(
    "answer",
    [
        f"```cuda\n{CODE}```",
        f"```cpp\n{CODE}```\n",
        f"```\n{CODE}```\nThat is all.",
        f"I widen the loads.\n\n``` CUDA title=x\n{CODE}```",
        f"````c++\n{CODE}````",
        f"~~~cuda\n{CODE}~~~",
        f"\ufeff```cuda\n{CODE}```",
        f"```cuda\n{CODE}```   ".replace("\n", "\r\n"),
        f"Run:\n```bash\n{'nvcc -O3 ' * 40}\n```\n```cuda\n{CODE}```",
        f"Instead of\n```cuda\nint x;\n```\nthe file is\n```cuda\n{CODE}```",
        f"```cuda\n{CODE}```\nwhere the new line is\n```cuda\nx *= 2;\n```",
        "1. The file:\n   ```cuda\n"
        + "".join(f"   {line}\n" for line in CODE.splitlines())
        + "   ```",
    ],
)
def test_the_file_is_found(answer: str) -> None:
    assert read_whole_file(answer) == CODE


def test_of_equally_long_blocks_the_last_counts() -> None:
    assert read_whole_file("```\nint a;\n```\n```\nint b;\n```") == "int b;\n"


def test_nested_fences_stay_in_the_file() -> None:
    code = "/*\n```text\nx * y\n```\n*/\nint x;\n"
    assert read_whole_file(f"```cuda\n{code}```\n") == code
    assert read_whole_file(f"````cuda\n{code}````\n") == code


def test_lines_end_only_where_they_do() -> None:
    code = "int x;\x0c// page\u2028\x85end\n"
    assert read_whole_file(f"```cuda\n{code}```") == code


@pytest.mark.parametrize("answer", ["", "no code", "```bash\nls\n```", "```cuda\n```", "a ```b```"])
def test_no_code_is_a_bad_answer(answer: str) -> None:
    with pytest.raises(BadAnswer, match="no fenced block"):
        read_whole_file(answer)


@pytest.mark.parametrize(
    "answer",
    [
        f"```cuda\n{CODE}",
        f"````cuda\n{CODE}```",
        f"```cuda\n{CODE}~~~",
        f"```cuda\nint x;\n```\n```cuda\n{CODE}",
        f"```cuda\n{CODE[:30]}\n```cuda\n{CODE}```\n",
    ],
)
def test_an_open_block_is_a_cut_answer(answer: str) -> None:
    with pytest.raises(Truncated, match="inside a fenced block"):
        read_whole_file(answer)


LINES = st.lists(
    st.text(alphabet=st.characters(exclude_characters="\r\n"))
    | st.sampled_from(["```", "```cuda", "````", "~~~", "   ```", "}", "  x = 1;"])
)


def fenced(code: str, language: str = "cuda") -> str:
    """A text in a fence that nothing in it can close. A missing last line end is added."""
    runs = re.findall(r"^ {0,3}(`{3,})", code, re.MULTILINE)
    mark = "`" * max([3, *(len(run) + 1 for run in runs)])
    end = "" if code.endswith("\n") or not code else "\n"
    return f"{mark}{language}\n{code}{end}{mark}\n"


@given(LINES)
def test_fenced_text_is_read_back(lines: list[str]) -> None:
    code = "".join(f"{line}\n" for line in lines)
    assert read_fences(f"prose\n{fenced(code)}prose") == (Fence("cuda", code),)


@given(LINES, st.integers(0, 400))
def test_reading_raises_nothing_but_its_own_errors(lines: list[str], cut: int) -> None:
    with suppress(BadAnswer, Truncated):
        assert read_whole_file("\n".join(lines)[:cut]).endswith("\n")
