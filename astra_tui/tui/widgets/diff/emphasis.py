"""Which pieces of two lines differ, word by word, with a bound on the work."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache

from astra_tui.model.visible import Range

MAX_TOKENS = 120
"""Longer lines are not compared: the comparison takes quadratic time."""

_LIKE = 0.4
"""Lines less alike have nothing in common worth showing."""

_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")

Emphasis = tuple[tuple[Range, ...], tuple[Range, ...]]
_NONE: Emphasis = ((), ())


@lru_cache(maxsize=4096)
def emphasis_of(old: str, new: str) -> Emphasis:
    """The ranges of characters that differ: in the old line and in the new one.

    Nothing where the lines are too long, or so different that all of them would be marked.
    """
    if max(len(old), len(new)) > 20 * MAX_TOKENS:
        return _NONE
    before, after = _TOKENS.findall(old), _TOKENS.findall(new)
    if not before or not after or max(len(before), len(after)) > MAX_TOKENS:
        return _NONE
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if matcher.quick_ratio() < _LIKE or matcher.ratio() < _LIKE:
        return _NONE
    changes = [op for op in matcher.get_opcodes() if op[0] != "equal"]
    return (
        _ranges(before, [(i, i_end) for _, i, i_end, _, _ in changes]),
        _ranges(after, [(j, j_end) for _, _, _, j, j_end in changes]),
    )


def _ranges(tokens: list[str], pieces: list[Range]) -> tuple[Range, ...]:
    begins = [0]
    for token in tokens:
        begins.append(begins[-1] + len(token))
    return tuple((begins[a], begins[b]) for a, b in pieces if a < b)
