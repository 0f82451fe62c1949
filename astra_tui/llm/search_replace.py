"""Changes to large files as blocks of text to find and to put in its place.

    <<<<<<< SEARCH
    lines of the file
    =======
    lines to put there
    >>>>>>> REPLACE

A block matches whole lines, exactly once, or the answer is refused: fuzzy patching edits the
wrong one of two similar loops without saying so. Spaces at line ends do not count.
"""

from __future__ import annotations

import difflib
import re
from enum import Enum, auto

import msgspec

from astra_tui.llm.errors import BadAnswer, Truncated

SEARCH = re.compile(r"^<{5,9} SEARCH[ \t]*$")
DIVIDER = re.compile(r"^={5,9}[ \t]*$")
REPLACE = re.compile(r"^>{5,9} REPLACE[ \t]*$")
MAX_CONTEXT = 40
"""Lines of a file that an error shows."""


class Block(msgspec.Struct, frozen=True):
    """One change; both texts are whole lines, each with its line end, or empty."""

    search: str
    replace: str


class _Part(Enum):
    OUTSIDE = auto()
    SEARCH = auto()
    REPLACE = auto()


def read_blocks(answer: str) -> tuple[Block, ...]:
    """The blocks of an answer in order.

    Raises Truncated for a block that does not end, BadAnswer for none or for marks out of order.
    """
    blocks: list[Block] = []
    part = _Part.OUTSIDE
    search: list[str] = []
    replace: list[str] = []
    for number, line in enumerate(answer.replace("\r\n", "\n").split("\n"), 1):
        if part is _Part.OUTSIDE and SEARCH.match(line):
            part, search, replace = _Part.SEARCH, [], []
        elif part is _Part.SEARCH and DIVIDER.match(line):
            part = _Part.REPLACE
        elif part is _Part.REPLACE and REPLACE.match(line):
            part = _Part.OUTSIDE
            blocks.append(Block(_joined(search), _joined(replace)))
        elif part is not _Part.OUTSIDE:
            _refuse_mark(line, number)
            (search if part is _Part.SEARCH else replace).append(line)
    if part is not _Part.OUTSIDE:
        raise Truncated(
            "the answer ends inside a SEARCH/REPLACE block",
            hint="raise the limit of output tokens (--output-tokens), or ask for smaller changes",
        )
    if not blocks:
        raise BadAnswer(
            "the answer has no SEARCH/REPLACE block",
            hint="each change is: <<<<<<< SEARCH, old lines, =======, new lines, >>>>>>> REPLACE",
        )
    return tuple(blocks)


def apply_blocks(source: str, blocks: tuple[Block, ...]) -> str:
    """A file with all blocks done, each on the result of those before it.

    Raises BadAnswer, with the number of matches and the nearest lines, where a search text does
    not match exactly once.
    """
    lines = source.split("\n")
    for number, block in enumerate(blocks, 1):
        wanted = block.search.removesuffix("\n").split("\n")
        if not block.search.strip():
            raise BadAnswer(f"block {number} searches for nothing", hint="name the lines to change")
        start = _only_match(lines, wanted, number)
        new = block.replace.removesuffix("\n").split("\n") if block.replace else []
        lines[start : start + len(wanted)] = new
    return "\n".join(lines)


def _only_match(lines: list[str], wanted: list[str], number: int) -> int:
    """The index of the only place where `wanted` stands; exact lines before trimmed ones."""
    places = _places(lines, wanted)
    if not places:
        trimmed = [line.rstrip() for line in lines]
        places = _places(trimmed, [line.rstrip() for line in wanted])
    if len(places) == 1:
        return places[0]
    if places:
        where = ", ".join(str(place + 1) for place in places[:10])
        raise BadAnswer(
            f"the search text of block {number} matches {len(places)} times, at lines {where}",
            hint="add lines before or after it, so that it matches once",
        )
    raise BadAnswer(
        f"the search text of block {number} matches 0 times; {_nearest_lines(lines, wanted)}",
        hint="repeat the lines of the file exactly, indentation included",
    )


def _places(lines: list[str], wanted: list[str]) -> list[int]:
    size = len(wanted)
    return [
        start
        for start in range(len(lines) - size + 1)
        if lines[start] == wanted[0] and lines[start : start + size] == wanted
    ]


def _nearest_lines(lines: list[str], wanted: list[str]) -> str:
    """The part of the file that shares most with `wanted`, with line numbers."""
    matcher = difflib.SequenceMatcher(None, _trimmed(lines), _trimmed(wanted), autojunk=False)
    match = matcher.find_longest_match()
    if match.size:
        start = max(match.a - match.b, 0)
    else:
        close = difflib.get_close_matches(wanted[0], lines, n=1, cutoff=0.5)
        if not close:
            return "no line of the file is like it"
        start = lines.index(close[0])
    shown = lines[start : start + min(len(wanted), MAX_CONTEXT)]
    numbered = "\n".join(f"{start + n}: {line}" for n, line in enumerate(shown, 1))
    return f"the nearest lines of the file are\n{numbered}"


def _trimmed(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines]


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _refuse_mark(line: str, number: int) -> None:
    if SEARCH.match(line) or DIVIDER.match(line) or REPLACE.match(line):
        raise BadAnswer(
            f"line {number} of the answer is a mark out of order: {line.strip()}",
            hint="each change is: <<<<<<< SEARCH, old lines, =======, new lines, >>>>>>> REPLACE",
        )
