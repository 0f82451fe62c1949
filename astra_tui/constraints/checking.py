"""A source against a list of constraints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from astra_tui.constraints.reading import read
from astra_tui.constraints.rules import apply_rule
from astra_tui.constraints.version import Version, tokens
from astra_tui.model.constraints import Compliance, Constraint, Judge, Origin, Ruling

SHORTEST_HUNK = 4
"""Words and signs of refused lines below which they may stand anywhere without being meant."""
SHORTEST_NAMELESS = 12
"""The same where names are not compared."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_MEANT = frozenset(
    re.findall(
        r"\w+",
        """
        auto bool break case char const constexpr continue default do double else extern float for
        if inline int long return short signed sizeof static struct switch template typename
        unsigned void volatile while true false threadIdx blockIdx blockDim gridDim x y z
        __shared__ __global__ __device__ __restrict__ __syncthreads __half half int64_t uint32_t
        int32_t uint64_t
        """,
    )
)
"""Words that mean something by themselves, which no other name can stand for."""


def check_constraints(
    constraints: Sequence[Constraint], base: Version, new: Version
) -> tuple[Ruling, ...]:
    """What rules say of every constraint, in order; one ruling for each part of one.

    What a later constraint allows again is not broken by rule any more.
    """
    return tuple(_rulings(constraints, base, new))


def _rulings(constraints: Sequence[Constraint], base: Version, new: Version) -> Iterator[Ruling]:
    readings = [read(c.text) if _is_text(c) else None for c in constraints]
    for index, (constraint, reading) in enumerate(zip(constraints, readings, strict=True)):
        if reading is None:
            if constraint.origin is Origin.HUNK:
                yield _of_hunk(constraint, base, new)
            else:
                yield Ruling(constraint, constraint.text, Compliance.UNDECIDED)
            continue
        later = {sort for r in readings[index + 1 :] if r is not None for sort in r.allowed}
        for demand in reading.demands:
            found = apply_rule(demand, base, new)
            if demand.sort in later and found.compliance is Compliance.BROKEN:
                why = f"{found.why}; what was said later allows it"
                yield Ruling(constraint, demand.words, Compliance.UNDECIDED, why=why)
                continue
            decided = found.compliance is not Compliance.UNDECIDED
            judge = Judge.RULE if decided else None
            yield Ruling(constraint, demand.words, found.compliance, judge, found.why, found.line)
        for clause in reading.unread:
            yield Ruling(constraint, clause, Compliance.UNDECIDED)


def _is_text(constraint: Constraint) -> bool:
    return constraint.origin not in (Origin.HUNK, Origin.PLAN)


def _of_hunk(constraint: Constraint, base: Version, new: Version) -> Ruling:
    """Whether refused lines are there again: word for word, or with other names."""
    text = constraint.text.strip()
    refused, before, after = tokens(text), tokens(base.text), tokens(new.text)
    open_ = Ruling(constraint, text, Compliance.UNDECIDED)
    if len(refused) < SHORTEST_HUNK or _find(before, refused) >= 0:
        return open_
    at, why = _find(after, refused), "the refused lines are there again"
    if at < 0 and len(refused) >= SHORTEST_NAMELESS and _find(before, refused, _renamed) < 0:
        at, why = _find(after, refused, _renamed), f"{why}, with other names"
    if at < 0:
        return open_
    line = _line_of_token(new, at)
    return Ruling(constraint, text, Compliance.BROKEN, Judge.RULE, why, line)


def _renamed(words: Sequence[str]) -> tuple[str, ...]:
    """Words with names numbered in the order of their first use; what the language means stays."""
    numbers: dict[str, str] = {}
    return tuple(
        numbers.setdefault(w, f"#{len(numbers)}") if _NAME.fullmatch(w) and w not in _MEANT else w
        for w in words
    )


def _find(
    words: Sequence[str],
    wanted: Sequence[str],
    form: Callable[[Sequence[str]], tuple[str, ...]] = tuple,
) -> int:
    """Where a run of words begins in others, -1 for nowhere; both compared in a form."""
    target, size = form(wanted), len(wanted)
    return next(
        (i for i in range(len(words) - size + 1) if form(words[i : i + size]) == target), -1
    )


def _line_of_token(version: Version, number: int) -> int:
    seen = 0
    for line, text in enumerate(version.code.split("\n"), 1):
        seen += len(tokens(text))
        if seen > number:
            return line
    return 0
