"""Whole files in fenced blocks, the form in which models write code most reliably.

Fences follow CommonMark 0.31, section 4.5, with one difference: a line like ```` ```text ````
inside a block of the same fence opens a nested block, because models nest without lengthening
the outer fence.
"""

from __future__ import annotations

import re

import msgspec

from astra_tui.llm.errors import BadAnswer, Truncated

OPENING = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^`]*)$")
CODE_LANGUAGES = ("", "cuda", "cpp", "c++", "cu", "cuh", "c", "cc", "cxx", "h", "hpp")


class Fence(msgspec.Struct, frozen=True):
    """A complete block: its language in lower case and its text, which ends with a line end."""

    language: str
    text: str


class _Open(msgspec.Struct):
    indent: int
    mark: str
    language: str
    lines: list[str]
    depth: int = 1


def read_whole_file(answer: str) -> str:
    """The file in an answer: the longest block of code, the last of equals.

    Raises Truncated where a block is not closed, BadAnswer where there is none.
    """
    fences = read_fences(answer)
    code = [fence for fence in fences if fence.language in CODE_LANGUAGES and fence.text.strip()]
    if not code:
        raise BadAnswer(
            "the answer has no fenced block of code",
            hint="the whole file has to be between a line ```cuda and a line ```",
        )
    return max(enumerate(code), key=lambda pair: (len(pair[1].text), pair[0]))[1].text


def read_fences(answer: str) -> tuple[Fence, ...]:
    """The blocks of an answer in order. Raises Truncated where the last one is not closed."""
    found: list[Fence] = []
    current: _Open | None = None
    for line in answer.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"):
        current = _read_outside(line) if current is None else _read_inside(line, current, found)
    if current is not None:
        raise Truncated(
            "the answer ends inside a fenced block",
            hint="raise the limit of output tokens (--output-tokens), or ask for smaller changes",
        )
    return tuple(found)


def _read_outside(line: str) -> _Open | None:
    if (match := OPENING.match(line)) is None:
        return None
    indent, mark, info = match.groups()
    language = info.split()[0].lower() if info.split() else ""
    return _Open(len(indent), mark, language, [])


def _read_inside(line: str, current: _Open, found: list[Fence]) -> _Open | None:
    match = OPENING.match(line)
    if match is not None and match[2].startswith(current.mark):
        nested = bool(match[3].strip()) and match[2] == current.mark
        current.depth += 1 if nested else -1 if not match[3].strip() else 0
        if current.depth == 0:
            text = "".join(f"{kept}\n" for kept in current.lines)
            found.append(Fence(current.language, text))
            return None
    spaces = len(line) - len(line.lstrip(" "))
    current.lines.append(line[min(spaces, current.indent) :])
    return current
