"""The parts of a diff, and the text that some of them make."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import msgspec

CONTEXT = 3


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
    matcher = difflib.SequenceMatcher(None, split_lines(old), split_lines(new), autojunk=False)
    hunks = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
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
    lines = difflib.unified_diff(split_lines(old), split_lines(new), old_name, new_name, n=CONTEXT)
    marked = (
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )
    return "".join(marked)
