"""Where the wrong elements of an output are, in words: the bug is often seen in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Of vectors, warps and blocks, whose remainders are what is most often forgotten."""


def pattern_of(wrong: Any, sizes: Sequence[str]) -> str:
    """Where the true elements of a mask are; `sizes` are its axes' sizes as the task writes them.

    "" where there are none.
    """
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return ""
    if count == wrong.size:
        return "everywhere"
    names = ("rows", "columns") if wrong.ndim == 2 else tuple(f"[{s}]" for s in sizes)
    axes, box = [], 1
    for axis, (name, size) in enumerate(zip(names, sizes, strict=True)):
        others = tuple(a for a in range(wrong.ndim) if a != axis)
        found = np.flatnonzero(wrong.any(axis=others))
        box *= len(found)
        axes.append(_along(name, size, found, wrong.shape[axis]))
    words = ", ".join(reversed(axes))
    return words if box == count else f"at {count / box:.0%} of: {words}"


def _along(name: str, size: str, found: Any, length: int) -> str:
    """The indices of one axis, as in "in columns from d - d % 8 (8) on"."""
    first, last = int(found[0]), int(found[-1])
    if len(found) == length:
        return f"in all {name}"
    if first == last:
        return f"in {name} {_bound(first, size, length)} alone"
    if last - first + 1 == len(found):
        if last == length - 1:
            return f"in {name} from {_bound(first, size, length)} on"
        if first == 0:
            return f"in {name} before {_bound(last + 1, size, length)}"
        return f"in {name} {first} to {last}"
    if regular := _regular(found, length):
        return f"in {name}, {regular}"
    if missing := _regular(np.setdiff1d(np.arange(length), found), length):
        return f"in all {name} but {missing}"
    return f"in {len(found)} of {length} {name} from {first} to {last}"


def _regular(indices: Any, length: int) -> str:
    """Indices of the same remainder, in words; "" where they are not all of it."""
    if len(indices) == 1:
        return str(indices[0])
    steps = np.diff(indices)
    step, first = int(steps[0]), int(indices[0])
    if (steps != step).any() or first >= step or indices[-1] + step < length:
        return ""
    return f"every {step} from {first}"


def _bound(index: int, size: str, length: int) -> str:
    """An index, with what it may be of the axis's size."""
    name = f"({size})" if " " in size else size
    is_of = [
        f"{name} - {name} % {w}" for w in WIDTHS if length % w and index == length - length % w
    ]
    if index == length - 1:
        is_of = [f"{name} - 1"]
    elif 2 * index == length:
        is_of = [f"{name} / 2"]
    return f"{' = '.join(is_of[:2])} ({index})" if is_of and not size.isdigit() else str(index)
