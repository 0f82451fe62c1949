"""The parts of a diff, and the text that some of them make."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

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


class LineChange(NamedTuple):
    """A line that a hunk replaces, removes or adds, counted from 0; -1 in the text without it."""

    hunk: int
    old: int
    new: int


def line_changes(old: str, new: str) -> tuple[LineChange, ...]:
    """What can be left out of a diff line by line, in order.

    A line that is replaced by one is one change; where their numbers differ, removing a line and
    adding one are changes of their own.
    """
    hunks = hunk_opcodes(old, new)
    return tuple(c for index, codes in enumerate(hunks) for c in _changes(index, codes))


def _changes(hunk: int, opcodes: Sequence[Opcode]) -> Iterator[LineChange]:
    for tag, i, i_end, j, j_end in opcodes:
        if tag != "equal" and i_end - i == j_end - j:
            yield from (LineChange(hunk, i + k, j + k) for k in range(i_end - i))
        elif tag != "equal":
            yield from (LineChange(hunk, line, -1) for line in range(i, i_end))
            yield from (LineChange(hunk, -1, line) for line in range(j, j_end))


def apply_hunks(
    old: str, new: str, accepted: Collection[int], left_out: Collection[int] = ()
) -> str:
    """The old text with some hunks of the diff to `new` applied, counted from 0.

    All of them make `new`, none of them `old`. `left_out` are changes of `line_changes` that are
    not made even so. Raises IndexError for a hunk or a change that is not there.
    """
    lines = [line for line, _ in _applied(old, new, accepted, left_out)]
    # A last line without a line feed may not be the last any more.
    return "".join([*(x if x.endswith("\n") else x + "\n" for x in lines[:-1]), *lines[-1:]])


def shown_lines(
    old: str, new: str, accepted: Collection[int], left_out: Collection[int] = ()
) -> tuple[int, ...]:
    """For every line of what `apply_hunks` makes, the line of `new` that it stands at."""
    return tuple(at for _, at in _applied(old, new, accepted, left_out))


def _applied(
    old: str, new: str, accepted: Collection[int], left_out: Collection[int]
) -> Iterator[tuple[str, int]]:
    hunks, before, after = hunk_opcodes(old, new), split_lines(old), split_lines(new)
    changes = line_changes(old, new)
    _refuse_missing(accepted, len(hunks), "hunk")
    _refuse_missing(left_out, len(changes), "change")
    made = {c for n, c in enumerate(changes) if c.hunk in accepted and n not in left_out}
    old_line = new_line = 0
    for change in changes:
        # Equal lines up to the change; there are as many in both texts.
        equal = change.old - old_line if change.old >= 0 else change.new - new_line
        for k in range(equal):
            yield before[old_line + k], new_line + k
        old_line, new_line = old_line + equal, new_line + equal
        if change.old >= 0 and change not in made:
            yield before[change.old], min(new_line, max(0, len(after) - 1))
        if change.new >= 0 and change in made:
            yield after[change.new], change.new
        old_line += change.old >= 0
        new_line += change.new >= 0
    for k in range(len(before) - old_line):
        yield before[old_line + k], new_line + k


def _refuse_missing(numbers: Collection[int], count: int, what: str) -> None:
    for number in numbers:
        if not 0 <= number < count:
            raise IndexError(f"the diff has {count} {what}s; there is no {what} {number}")


_NAME = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"//.*")
_DEFINED = re.compile(
    r"(?:^|[;{}(,<])\s*((?:[A-Za-z_][\w:]*(?:<[^;()]*?>)?[\s*&]+)+)([A-Za-z_]\w*)"
    r"|#\s*(define)\s+([A-Za-z_]\w*)"
)
"""A name after nothing but words, as of a type, since the statement or parameter began."""
_TYPE = re.compile(r"\b(?:struct|class|union|enum)(?:\s+alignas\s*\([^;{]*\))?\s+([A-Za-z_]\w*)")
_NO_TYPES = {"return", "else", "case", "goto", "throw", "new", "delete", "typename"}
_LAUNCH_PLAN = re.compile(r"/\*\s*@launch.*?\*/", re.DOTALL)


def hunk_needs(old: str, new: str, hunks: Sequence[Hunk]) -> tuple[dict[int, str], ...]:
    """For every hunk the others without which it makes no sense, each with the name that says so.

    A hunk that uses a new name needs the one that defines it; one that takes a definition away
    needs those that take its uses away. Names are compared as words: the compiler has the last one.
    """
    needs: list[dict[int, str]] = [{} for _ in hunks]
    added = _names_of(new, old, [range(h.new_start, h.new_end) for h in hunks])
    for name, (first, *others) in added.items():
        for user in others:
            needs[user].setdefault(first, name)
    removed = _names_of(old, new, [range(h.old_start, h.old_end) for h in hunks])
    for name, (first, *others) in removed.items():
        for user in others:
            needs[first].setdefault(user, name)
    return tuple(needs)


def _names_of(text: str, other: str, places: Sequence[range]) -> dict[str, list[int]]:
    """Names that hunks of a text define and the other text does not have, each with the hunks that
    hold it, the one that defines it first. The launch plan uses names and defines none.
    """
    lines = split_lines(text)
    plan = _LAUNCH_PLAN.search(text)
    ends = [text.count("\n", 0, at) for at in plan.span()] if plan else [-1, -1]
    known = set(_NAME.findall(_COMMENT.sub("", other)))
    found: dict[str, list[int]] = {}
    definers: dict[str, int] = {}
    code: list[tuple[int, str]] = []
    launches: list[tuple[int, str]] = []
    for hunk, place in enumerate(places):
        for line in place:
            (launches if ends[0] <= line <= ends[1] else code).append((hunk, lines[line]))
    for hunk, text_line in code:
        for name in _defined_in(_COMMENT.sub("", text_line)):
            definers.setdefault(name, hunk)
    for hunk, text_line in (*code, *launches):
        for name in _NAME.findall(_COMMENT.sub("", text_line)):
            if name not in known and hunk not in found.setdefault(name, []):
                found[name].append(hunk)
    return {
        name: [definers[name], *(h for h in holders if h != definers[name])]
        for name, holders in found.items()
        if name in definers
    }


def _defined_in(line: str) -> Iterator[str]:
    yield from _TYPE.findall(line)
    for words, name, _, macro in _DEFINED.findall(line):
        if macro or _NO_TYPES.isdisjoint(words.split()):
            yield macro or name


def with_needed(chosen: Collection[int], needs: Sequence[Mapping[int, str]]) -> frozenset[int]:
    """Hunks with all that they need, directly or not."""
    found, left = set(chosen), list(chosen)
    while left:
        left = [n for hunk in left for n in needs[hunk] if n not in found]
        found.update(left)
    return frozenset(found)


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


def merge_texts(ancestor: str, one: str, other: str) -> str | None:
    """The ancestor with the changes of both texts that were made from it.

    None where both changed the same lines, or lines that touch, in different ways.
    """
    old = split_lines(ancestor)
    changes = sorted(
        {*_replacements(old, split_lines(one)), *_replacements(old, split_lines(other))}
    )
    made: list[str] = []
    reached = 0
    for number, (begin, end, lines) in enumerate(changes):
        if number and begin <= reached:
            return None
        made += [*old[reached:begin], *lines]
        reached = end
    return "".join([*made, *old[reached:]])


def _replacements(
    old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Ranges of old lines, counted from 0 and without the last, and what they became."""
    for tag, i, i_end, j, j_end in _LineMatcher(old, new).get_opcodes():
        if tag != "equal":
            yield i, i_end, tuple(new[j:j_end])


class _LineMatcher(difflib.SequenceMatcher[str]):
    """Groups blocks as `difflib` does, and finds the same ones in less time."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, autojunk=False)
        self._old, self._new = old, new

    def get_matching_blocks(self) -> list[difflib.Match]:
        """The blocks, in order, and the empty one at the end."""
        return [difflib.Match(*block) for block in matching_blocks(self._old, self._new)]
