"""Which lines of a diff stand opposite each other; computed here or in a process of its own.

    python -m astra_tui.tui.widgets.diff.alignment < texts.msgpack > alignment.json

The hunks are those of `astra_tui.model.hunks`, so that an accepted subset means the same on the
screen and in the engine. Inside a hunk the lines are aligned for reading only.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from astra_tui.model.hunks import Hunk, hunks_of, split_lines

INLINE_WORK = 150_000
"""Up to this work, about 50 ms, an alignment is made at once; see `alignment_work`."""

_PAIRED_WORK = 900
"""Blocks up to 30 by 30 lines are paired by likeness, larger ones in order."""

_LIKE = 0.5
_WORDS = re.compile(r"\w+|[^\w\s]")


class Pair(msgspec.Struct, frozen=True, array_like=True):
    """A line of the old text and the line of the new one beside it, counted from 0, -1 for none."""

    old: int
    new: int
    changed: bool


class Alignment(msgspec.Struct, frozen=True):
    """The hunks of a diff, and for each of them its lines in pairs from top to bottom."""

    hunks: tuple[Hunk, ...]
    pairs: tuple[tuple[Pair, ...], ...]


def alignment_work(old: str, new: str) -> int:
    """A bound on what one pass of the line comparison costs: equal lines times equal lines."""
    before, after = Counter(split_lines(old)), Counter(split_lines(new))
    return sum(count * after[line] for line, count in before.items()) + len(before) + len(after)


def align(old: str, new: str) -> Alignment:
    """The alignment of two texts."""
    hunks = hunks_of(old, new)
    before, after = split_lines(old), split_lines(new)
    return Alignment(hunks, tuple(tuple(_hunk_pairs(h, before, after)) for h in hunks))


async def align_elsewhere(old: str, new: str) -> Alignment:
    """The same, in a child process, which ends when the caller is cancelled."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "astra_tui.tui.widgets.diff.alignment"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        answer, _ = await process.communicate(_encode_texts(old, new))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"the comparison ended with status {process.returncode}")
    return msgspec.json.decode(answer, type=Alignment)


def _encode_texts(old: str, new: str) -> bytes:
    # Lone surrogates are no UTF-8; they pass here as their own bytes.
    return msgspec.msgpack.encode([t.encode("utf-8", "surrogatepass") for t in (old, new)])


def _hunk_pairs(hunk: Hunk, before: Sequence[str], after: Sequence[str]) -> Iterator[Pair]:
    old = before[hunk.old_start : hunk.old_end]
    new = after[hunk.new_start : hunk.new_end]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        first, second = hunk.old_start + i, hunk.new_start + j
        if tag == "equal":
            yield from (Pair(first + k, second + k, False) for k in range(i_end - i))
        else:
            for a, b in _block_pairs(old[i:i_end], new[j:j_end]):
                yield Pair(first + a if a >= 0 else -1, second + b if b >= 0 else -1, True)


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
    words = [Counter(_WORDS.findall(line)) for line in old]
    others = [Counter(_WORDS.findall(line)) for line in new]
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


def _likeness(words: Counter[str], others: Counter[str]) -> float:
    """Twice the shared words over all words, or 0 below the floor at which lines are alike."""
    total = words.total() + others.total()
    ratio = 2 * (words & others).total() / total if total else 0.0
    return ratio if ratio >= _LIKE else 0.0


def main() -> None:
    """Reads two texts from the standard input and writes their alignment."""
    texts = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[bytes])
    old, new = (t.decode("utf-8", "surrogatepass") for t in texts)
    sys.stdout.buffer.write(msgspec.json.encode(align(old, new)))


if __name__ == "__main__":
    main()
