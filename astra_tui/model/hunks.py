"""The parts of a diff, and the text that some of them make."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence

import msgspec

from astra_tui.model.matching import matching_blocks

CONTEXT = 3
HEADER = "@"
"""The mark of the line with which a hunk begins."""

NO_LINE_FEED = "\\ No newline at end of file"


class Hunk(msgspec.Struct, frozen=True):
    """Changes that lie close together.

    Lines of the old text from `old_start` up to `old_end`, counted from 0 and without the last,
    become lines of the new text from `new_start` up to `new_end`. Context is not part of it.
    """

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def split_lines(text: str) -> list[str]:
    """Lines with their line feeds; only a line feed ends a line, as for a compiler."""
    pieces = text.split("\n")
    lines = [p + "\n" for p in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] else lines


Opcode = tuple[str, int, int, int, int]
"""What happens to some lines, as `difflib` says it."""


def hunk_opcodes(old: str, new: str) -> list[list[Opcode]]:
    """The opcodes of each hunk from its first change to its last, in order.

    Changes closer than twice the context belong together, with the equal lines between them.
    """
    hunks = []
    for group in _LineMatcher(split_lines(old), split_lines(new)).get_grouped_opcodes(CONTEXT):
        changed = [index for index, opcode in enumerate(group) if opcode[0] != "equal"]
        hunks.append(list(group[changed[0] : changed[-1] + 1]))
    return hunks


def hunks_of(old: str, new: str) -> tuple[Hunk, ...]:
    """The hunks of a diff, in order."""
    return tuple(
        Hunk(opcodes[0][1], opcodes[-1][2], opcodes[0][3], opcodes[-1][4])
        for opcodes in hunk_opcodes(old, new)
    )


def apply_hunks(old: str, new: str, accepted: Collection[int]) -> str:
    """The old text with some hunks of the diff to `new` applied, counted from 0.

    All of them make `new`, none of them `old`. Raises IndexError for a hunk that is not there.
    """
    hunks = hunks_of(old, new)
    for index in accepted:
        if not 0 <= index < len(hunks):
            raise IndexError(f"the diff has {len(hunks)} hunks; there is no hunk {index}")
    old_lines, new_lines = split_lines(old), split_lines(new)
    result: list[str] = []
    done = 0
    for index, hunk in enumerate(hunks):
        result += old_lines[done : hunk.old_start]
        if index in accepted:
            result += new_lines[hunk.new_start : hunk.new_end]
        else:
            result += old_lines[hunk.old_start : hunk.old_end]
        done = hunk.old_end
    return "".join(result + old_lines[done:])


def unified_diff(old: str, new: str, old_name: str, new_name: str) -> str:
    """The diff as `diff -u` writes it, with the same hunks as `hunks_of`."""
    pieces = ["@@" + text if mark == HEADER else mark + text for mark, text in diff_lines(old, new)]
    marked = (p if p.endswith("\n") else p + f"\n{NO_LINE_FEED}\n" for p in pieces)
    return f"--- {old_name}\n+++ {new_name}\n" + "".join(marked) if pieces else ""


def diff_lines(old: str, new: str) -> Iterator[tuple[str, str]]:
    """The lines of a diff, each with its mark: " ", "-", "+", or HEADER where a hunk begins.

    Lines are as they are in the texts, with their line feeds.
    """
    before, after = split_lines(old), split_lines(new)
    for group in _LineMatcher(before, after).get_grouped_opcodes(CONTEXT):
        (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
        yield HEADER, f" -{_line_range(i, i_end)} +{_line_range(j, j_end)} @@\n"
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from ((" ", line) for line in before[i:i_end])
            else:
                yield from (("-", line) for line in before[i:i_end])
                yield from (("+", line) for line in after[j:j_end])


def _line_range(begin: int, end: int) -> str:
    """Lines as `diff -u` names them: from 1, and the line before where there are none."""
    length = end - begin
    first = begin + 1 if length else begin
    return f"{first}" if length == 1 else f"{first},{length}"


class _LineMatcher(difflib.SequenceMatcher[str]):
    """Groups blocks as `difflib` does, and finds the same ones in less time."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, autojunk=False)
        self._old, self._new = old, new

    def get_matching_blocks(self) -> list[difflib.Match]:
        """The blocks, in order, and the empty one at the end."""
        return [difflib.Match(*block) for block in matching_blocks(self._old, self._new)]
