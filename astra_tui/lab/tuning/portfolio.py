"""Which trial serves which sizes: winners of single workloads, joined where they pay.

A branch pays where the whole interval of its gain over the default lies above what counts. Its
condition is the simplest on sizes that holds where it pays and not where it loses; thresholds lie
between measured sizes, and `refined` moves them by what is measured in between.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from astra_tui.model.launch.expression import Binary, Compare, Expression, Integer, Name
from astra_tui.model.timing import mean_ratio
from astra_tui.model.verdict_thresholds import MIN_DIFFERENCE

Dims = Mapping[str, int]


class Gain(Protocol):
    """What a trial gains on a workload over the default: above 1 it is better."""

    @property
    def speedup(self) -> float:
        """The ratio."""
        ...

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        ...

    @property
    def high(self) -> float:
        """The upper end."""
        ...

    @property
    def valid(self) -> bool:
        """Whether it was measured."""
        ...


Gains = Mapping[int, Mapping[str, Gain]]
"""By trial and workload."""


@dataclass(frozen=True)
class Bound:
    """`size <= value` or `size >= value`, where the size is a dimension or a product of them."""

    names: tuple[str, ...]
    below: bool
    value: int
    inside: str = ""
    """The workload next to it for which it holds, and that for which it does not."""
    outside: str = ""

    def size(self, dims: Dims) -> int:
        """The size that it is about."""
        return math.prod(dims[name] for name in self.names)

    def holds(self, dims: Dims) -> bool:
        """Whether sizes are within it."""
        size = self.size(dims)
        return size <= self.value if self.below else size >= self.value

    @property
    def condition(self) -> Expression:
        """As a launch plan has it."""
        first, *rest = (Name(name) for name in self.names)
        size: Expression = first
        for name in rest:
            size = Binary("*", size, name)
        return Compare(size, (("<=" if self.below else ">=", Integer(self.value)),))


@dataclass(frozen=True)
class Part:
    """A trial, and the sizes that it serves in place of the default."""

    trial: int
    bounds: tuple[Bound, ...]
    gains: Mapping[str, Gain]
    """Of the workloads on which it pays."""

    def serves(self, dims: Dims) -> bool:
        """Whether its condition holds."""
        return all(bound.holds(dims) for bound in self.bounds)

    @property
    def condition(self) -> Expression:
        """As a launch plan has it."""
        first, *rest = (bound.condition for bound in self.bounds)
        for other in rest:
            first = Binary("and", first, other)
        return first


@dataclass(frozen=True)
class Portfolio:
    """What serves all sizes: a default, and parts that are tried in order before it."""

    default: int
    parts: tuple[Part, ...]
    dropped: Mapping[int, str]
    """Trials that pay somewhere and have no part, with the reason."""

    def to_try(self, own: int) -> Iterator[Portfolio]:
        """Itself; then, since a branch may be what does not pass a check, with fewer and fewer of
        the parts that gain most, and its default alone.

        Nothing where the default is the source itself, by its number, and stands alone.
        """
        for count in range(len(self.parts), -1, -1):
            if count or self.default != own:
                left_out = {p.trial: "what it was part of did not pass" for p in self.parts[count:]}
                yield Portfolio(self.default, self.parts[:count], {**self.dropped, **left_out})


def best_on_average(times: Gains, own: int, weights: Mapping[str, float]) -> int:
    """The trial with the largest geometric mean of speedups over the source itself, which it is
    unless that of the lower bounds lies above what counts.

    `weights` say how much each workload counts. Only trials that were timed on all of them count.
    """
    every = {w for found in times.values() for w in found}

    def mean(found: Mapping[str, Gain], value: Callable[[Gain], float]) -> float:
        ratios = [max(value(gain), sys.float_info.min) for gain in found.values()]
        return mean_ratio(ratios, [weights[name] for name in found])

    means = {
        trial: mean(found, lambda gain: gain.speedup)
        for trial, found in times.items()
        if found.keys() == every
        and all(t.valid for t in found.values())
        and mean(found, lambda gain: gain.low) > 1 + MIN_DIFFERENCE
    }
    return max(means, key=lambda t: (means[t], -t), default=own)


def portfolio(default: int, sizes: Mapping[str, Dims], gains: Gains) -> Portfolio:
    """The parts that pay over a default on workloads of these sizes, the largest gain first."""
    paying = {w: trial for w in sizes if (trial := _paying(w, default, gains)) is not None}
    parts: list[Part] = []
    dropped: dict[int, str] = {}
    for trial in sorted(set(paying.values()), key=lambda t: (-_gained(t, paying, gains), t)):
        inside = [w for w, chosen in paying.items() if chosen == trial]
        outside = [w for w in sizes if w not in inside and _loses(trial, w, paying, gains)]
        bounds = _separating(inside, outside, sizes)
        if bounds is None:
            names = ", ".join(inside)
            dropped[trial] = f"no condition on sizes tells {names} from where it is slower"
            continue
        parts.append(Part(trial, bounds, {w: gains[trial][w] for w in inside}))
    return Portfolio(default, tuple(parts), dropped)


async def refined(
    part: Part,
    sizes: Mapping[str, Dims],
    gain: Callable[[Dims], Awaitable[Gain | None]],
    steps: int = 2,
) -> Part:
    """The part with thresholds moved by gains that are measured between its workloads and the next.

    `gain` times the part's trial against the default at sizes; None where these cannot be timed,
    which leaves the threshold where it was.
    """
    bounds = []
    for bound in part.bounds:
        inside, outside = sizes.get(bound.inside), sizes.get(bound.outside)
        for _ in range(steps if inside and outside else 0):
            assert inside is not None
            assert outside is not None
            middle = _between(inside, outside)
            found = await gain(middle) if bound.size(middle) != bound.size(inside) else None
            if found is None or not found.valid:
                break
            inside, outside = (middle, outside) if _pays(found) else (inside, middle)
            bound = replace(bound, value=_threshold(bound, inside, outside))
        bounds.append(bound)
    return replace(part, bounds=tuple(bounds))


def _pays(gain: Gain) -> bool:
    return gain.valid and gain.low > 1 + MIN_DIFFERENCE


def _paying(workload: str, default: int, gains: Gains) -> int | None:
    """The trial that gains most on a workload, of those that pay there."""
    found = {
        trial: of[workload]
        for trial, of in gains.items()
        if trial != default and workload in of and _pays(of[workload])
    }
    return max(found, key=lambda t: (found[t].speedup, -t), default=None)


def _gained(trial: int, paying: Mapping[str, int], gains: Gains) -> float:
    return sum(math.log(gains[trial][w].speedup) for w, t in paying.items() if t == trial)


def _loses(trial: int, workload: str, paying: Mapping[str, int], gains: Gains) -> bool:
    """Whether a trial must not serve a workload: it is slower there, or not as fast as another."""
    own = gains[trial].get(workload)
    if own is None or not own.valid or own.low < 1 - MIN_DIFFERENCE:
        return True
    other = gains[paying[workload]][workload] if workload in paying else None
    return other is not None and other.low > own.high


def _separating(
    inside: Sequence[str], outside: Sequence[str], sizes: Mapping[str, Dims]
) -> tuple[Bound, ...] | None:
    """The fewest bounds that hold for some workloads and for none of others; of equally many those
    that read the fewest sizes, then those with the widest gap. One bound even where there is
    nothing to keep out: a part is a branch.

    A bound on a product can stand where one on a single size does, but a check has to find sizes
    on both of its sides, and an engineer to read it.
    """
    every = list(_bounds(inside, [w for w in sizes if w not in inside], sizes))
    for count in (1, 2):
        found = []
        for bounds in itertools.combinations(every, count):
            out = [w for w in outside if all(b.holds(sizes[w]) for b in bounds)]
            if not out:
                gap = min(_gap(b, sizes) for b in bounds)
                found.append((sum(len(b.names) for b in bounds), -gap, bounds))
        if found:
            return min(found, key=lambda f: f[:2])[2]
    return None


def _bounds(
    inside: Sequence[str], others: Sequence[str], sizes: Mapping[str, Dims]
) -> Iterator[Bound]:
    """Bounds that hold for all workloads inside, each up to the next workload that is not."""
    names = list(sizes[inside[0]])
    products = [(n,) for n in names] + ([tuple(names)] if len(names) > 1 else [])
    for product, below in itertools.product(products, (True, False)):
        blank = Bound(product, below, 0)
        ordered = sorted(inside, key=lambda w: (blank.size(sizes[w]), w))
        last = ordered[-1] if below else ordered[0]
        end = blank.size(sizes[last])
        beyond = [
            w
            for w in others
            if (blank.size(sizes[w]) > end) == below and blank.size(sizes[w]) != end
        ]
        if beyond:
            following = min(beyond, key=lambda w: (abs(blank.size(sizes[w]) - end), w))
            value = _threshold(blank, sizes[last], sizes[following])
            yield Bound(product, below, value, last, following)


def _threshold(bound: Bound, inside: Dims, outside: Dims) -> int:
    """The geometric middle of two sizes, rounded to two digits where there is room."""
    low, high = sorted((bound.size(inside), bound.size(outside)))
    middle = math.sqrt(max(1, low) * high)
    digits = max(0, math.floor(math.log10(middle)) - 1)
    rounded = round(middle / 10**digits) * 10**digits
    value = rounded if low < rounded < high else int(middle)
    return value if bound.below else max(value, low + 1)


def _gap(bound: Bound, sizes: Mapping[str, Dims]) -> float:
    inside, outside = (max(1, bound.size(sizes[w])) for w in (bound.inside, bound.outside))
    return abs(math.log(inside / outside))


def _between(inside: Dims, outside: Dims) -> dict[str, int]:
    """Sizes half-way, by ratios."""
    return {name: _middle(inside[name], outside[name]) for name in inside}


def _middle(a: int, b: int) -> int:
    """A multiple of a power of two that both are multiples of, up to 64, where one lies between."""
    common = math.gcd(a, b)
    unit = min(64, common & -common)
    while unit:
        middle = round(math.sqrt(a * b) / unit) * unit
        if middle not in (a, b):
            return middle
        unit //= 2
    return a


def words(part: Part) -> str:
    """What the part gains and where, for the plan: "1.8 % [1.5, 2.1] at 16x4096"."""
    return "; ".join(
        f"{100 * (t.speedup - 1):.1f} % [{100 * (t.low - 1):.1f}, {100 * (t.high - 1):.1f}] at {w}"
        for w, t in part.gains.items()
    )
