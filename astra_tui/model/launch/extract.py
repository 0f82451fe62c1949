"""Finds the launch plan in a kernel source: the one block comment that begins with `@launch`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from astra_tui.model.errors import Place
from astra_tui.model.launch.parser import parse_plan
from astra_tui.model.launch.plan import LaunchPlan, PlanError

_MARK = "@launch"

# Strings and line comments are matched so that a mark inside them is not taken for a plan, and
# numbers so that their digit separators (1'000) do not open a character.
_PIECES = re.compile(
    r"""\b(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"
      | "(?:\\\r?\n|\\.|[^"\\\n])*"
      | \b[0-9](?:'?\w)*
      | '(?:\\.|[^'\\\n])*'
      | //(?:\\\r?\n|[^\n])*
      | (?P<block>/\*.*?\*/)
      | (?P<open>/\*)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class PlanText:
    """The plan's text without comment marks, its place, and its span in the source."""

    text: str
    place: Place
    begin: int
    end: int


@lru_cache(maxsize=32)
def find_plan(source: str, file: str = "") -> PlanText:
    """The plan in a kernel source. Raises PlanError when there is none, or more than one."""
    found = list(_plans(source, file))
    if not found:
        raise PlanError(
            "this source has no launch plan",
            file=file,
            hint="add a block comment: /* @launch  my_kernel<T> grid=... block=... args=(...) */",
        )
    if len(found) > 1:
        raise PlanError(
            f"a second launch plan; the first is at line {found[0].place.line}",
            file=file,
            place=found[1].place,
            hint="one file has one plan; use 'when' for several ways to launch",
        )
    return found[0]


@lru_cache(maxsize=32)
def plan_of(source: str, file: str = "") -> LaunchPlan:
    """Finds and parses the plan of a kernel source."""
    found = find_plan(source, file)
    return parse_plan(found.text, found.place, file)


def _plans(source: str, file: str) -> Iterator[PlanText]:
    for match in _PIECES.finditer(source):
        if match["open"]:
            raise PlanError(
                "this comment is never closed",
                file=file,
                place=place_at(source, match.start()),
                hint="close it with */",
            )
        comment = match["block"]
        if comment is None:
            continue
        body = comment[2:-2]
        stripped = body.lstrip(" \t\r\n*!")
        if not re.match(_MARK + r"(?![\w-])", stripped):
            continue
        begin = match.start() + 2 + len(body) - len(stripped) + len(_MARK)
        text = source[begin : match.end() - 2]
        yield PlanText(text, place_at(source, begin), match.start(), match.end())


def place_at(text: str, offset: int) -> Place:
    """Line and column of a character offset."""
    line_start = text.rfind("\n", 0, offset) + 1
    return Place(text.count("\n", 0, offset) + 1, offset - line_start + 1)
