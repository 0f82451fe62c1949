"""Which lines of a diff stand opposite each other.

    python -m astra_tui.tui.widgets.diff.alignment < texts.msgpack > alignment.json

aligns in a process of its own, for `alignment_process.py`. The hunks are those of
`astra_tui.model.hunks`, so that an accepted subset means the same on the screen and in the engine.
Inside a hunk the lines are aligned for reading only.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from astra_tui.model.hunks import Hunk, Opcode, hunk_opcodes, split_lines
from astra_tui.model.matching import count_passes

_LONG = 2500
_MAX_PASSES = 250_000

_PAIRED_WORK = 900
"""Blocks up to 30 by 30 lines are paired by likeness, larger ones in order."""

_LIKE = 0.5
_WORDS = re.compile(r"\w+|[^\w\s]")


class Pair(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A line of the old text and the one next to it in the new, counted from 0, -1 for none."""

    old: int
    new: int
    changed: bool


class Alignment(msgspec.Struct, frozen=True):
    """The hunks of a diff, and for each of them its lines in pairs from top to bottom."""

    hunks: tuple[Hunk, ...]
    pairs: tuple[tuple[Pair, ...], ...]


def is_quick(old: str, new: str) -> bool:
    """Whether an alignment takes less than about 80 ms, so that it may be made at once.

    That is little more than the start of a process. It takes seconds where many lines are the same.
    """
    before, after = split_lines(old), split_lines(new)
    return max(len(before), len(after)) <= _LONG and count_passes(before, after) <= _MAX_PASSES


def align(old: str, new: str) -> Alignment:
    """The alignment of two texts."""
    before, after = split_lines(old), split_lines(new)
    opcodes = hunk_opcodes(old, new)
    pairs = (tuple(_hunk_pairs(each, before, after)) for each in opcodes)
    hunks = (Hunk(each[0][1], each[-1][2], each[0][3], each[-1][4]) for each in opcodes)
    return Alignment(tuple(hunks), tuple(pairs))


def _hunk_pairs(
    opcodes: Sequence[Opcode], before: Sequence[str], after: Sequence[str]
) -> Iterator[Pair]:
    for tag, i, i_end, j, j_end in opcodes:
        if tag == "equal":
            yield from (Pair(i + k, j + k, False) for k in range(i_end - i))
        else:
            for a, b in _block_pairs(before[i:i_end], after[j:j_end]):
                yield Pair(i + a if a >= 0 else -1, j + b if b >= 0 else -1, True)


def _block_pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Index pairs of a block in which every line changed."""
    done_old = done_new = 0
    for a, b in (*_alike(old, new), (len(old), len(new))):
        yield from _in_order(done_old, a, done_new, b)
        if a < len(old):
            yield a, b
        done_old, done_new = a + 1, b + 1


def _in_order(old: int, old_end: int, new: int, new_end: int) -> Iterator[tuple[int, int]]:
    for k in range(max(old_end - old, new_end - new)):
        yield (old + k if old + k < old_end else -1, new + k if new + k < new_end else -1)


def _alike(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that share most of their words, in order on both sides; none for large blocks."""
    if len(old) == len(new) or not 0 < len(old) * len(new) <= _PAIRED_WORK:
        return []
    words, others = ([_words(line) for line in lines] for lines in (old, new))
    score = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            paired = _likeness(words[i], others[j]) + score[i + 1][j + 1]
            score[i][j] = max(paired, score[i + 1][j], score[i][j + 1])
    return list(_best_path(score))


def _best_path(score: Sequence[Sequence[float]]) -> Iterator[tuple[int, int]]:
    i = j = 0
    while i < len(score) - 1 and j < len(score[0]) - 1:
        if score[i][j] == score[i + 1][j]:
            i += 1
        elif score[i][j] == score[i][j + 1]:
            j += 1
        else:
            yield i, j
            i, j = i + 1, j + 1


_Words = frozenset[tuple[str, int]]
"""The words of a line, each with a number that tells it from the same word before it."""


def _words(line: str) -> _Words:
    seen: Counter[str] = Counter()
    numbered = []
    for word in _WORDS.findall(line):
        numbered.append((word, seen[word]))
        seen[word] += 1
    return frozenset(numbered)


def _likeness(words: _Words, others: _Words) -> float:
    """Twice the shared words over all words, or 0 below the floor at which lines are alike."""
    total = len(words) + len(others)
    if 2 * min(len(words), len(others)) < _LIKE * total:
        return 0.0  # Most lines are too unlike in length to share enough.
    ratio = 2 * len(words & others) / total if total else 0.0
    return ratio if ratio >= _LIKE else 0.0


def main() -> None:
    """Reads two texts from the standard input and writes their alignment."""
    texts = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[bytes])
    old, new = (t.decode("utf-8", "surrogatepass") for t in texts)
    sys.stdout.buffer.write(msgspec.json.encode(align(old, new)))


if __name__ == "__main__":
    main()
