"""Results about yardsticks: what they are, which shapes they serve, and their times."""

from __future__ import annotations

import msgspec

from astra_tui.model.dtypes import DType
from astra_tui.model.timing import Caveat, Ratio, TimingVerdict


class YardstickEntry(msgspec.Struct, frozen=True):
    """One kernel that others ship, in `yardstick list` and `yardstick update`."""

    task: str
    name: str
    about: str
    kind: str
    package: str
    version: str
    released: str
    age_days: int
    licence: str
    home: str
    arch: str
    pdl: bool
    dtypes: tuple[DType, ...]
    requires: str
    serves: tuple[str, ...]
    refuses: tuple[str, ...]
    cached: bool
    built: bool | None = None
    problem: str = ""
    hint: str = ""
    newer: tuple[str, ...] | None = None


class VersionTimes(msgspec.Struct, frozen=True):
    """One version on one shape: microseconds a launch, and how much faster than the base it is."""

    name: str
    us: float
    speedup: Ratio
    shipped: bool
    caveats: tuple[Caveat, ...] = ()
    """Those that invalidate it."""


class FastestShipped(msgspec.Struct, frozen=True):
    """The fastest shipped kernel of a shape: its time over that of a source.

    It is chosen on one half of the mirror pairs and compared on the other.
    """

    name: str
    speedup: Ratio

    @property
    def verdict(self) -> TimingVerdict:
        """Whether the source is faster, slower, or neither for sure: by the interval alone."""
        if self.speedup.low > 1:
            return TimingVerdict.FASTER
        return TimingVerdict.SLOWER if self.speedup.high < 1 else TimingVerdict.INCONCLUSIVE


class ShapeTimes(msgspec.Struct, frozen=True):
    """All versions on one workload. `fastest` is by source.

    It is empty for a source where a shipped kernel that serves the shape was not timed, or is not
    right: then none can be called the fastest.
    """

    workload: str
    dims: dict[str, int]
    dtype: DType
    floor_us: float | None
    base: str
    base_us: float
    versions: tuple[VersionTimes, ...]
    fastest: dict[str, FastestShipped]
    not_timed: dict[str, str]
    """Shipped kernels that serve the shape, by name, with the reason."""
    gpu_seconds: float = 0.0
    """Seconds in which the GPU was measuring."""
    weight: float = 1.0
    """How much it counts in the means, relative to the others."""


class ChainTimes(msgspec.Struct, frozen=True):
    """All shapes in one chain: every launch follows a "producer", or "itself".

    `means` are geometric means, by the shapes' weights, of the fastest shipped kernel over each
    source; None where a shape has no such comparison.
    """

    chain: str
    shapes: tuple[ShapeTimes, ...]
    means: dict[str, Ratio | None]


BEST = "best"
"""What `ShippedTimes` calls the best candidate of a session."""


class ShippedTimes(msgspec.Struct, frozen=True):
    """The best candidate of a session against the kernels that others ship.

    `times` is None where none of them could be had; `not_timed` has these by name, with the reason.
    """

    times: ChainTimes | None
    not_timed: dict[str, str]

    @property
    def speedup(self) -> Ratio | None:
        """The fastest shipped kernel's time over the best candidate's, geometric mean.

        None where a shape lacks a comparison: then nothing is known of the fastest.
        """
        return self.times.means.get(BEST) if self.times else None

    @property
    def slower(self) -> int:
        """Shapes on which the best is slower than the fastest shipped kernel."""
        fastest = (s.fastest.get(BEST) for s in (self.times.shapes if self.times else ()))
        return sum(found.verdict is TimingVerdict.SLOWER for found in fastest if found)

    @property
    def verdict(self) -> TimingVerdict | None:
        """By the intervals alone; None where there is no mean.

        It is inconclusive also where the mean is faster and a shape is slower: the shapes then
        differ.
        """
        if (mean := self.speedup) is None:
            return None
        if mean.high < 1:
            return TimingVerdict.SLOWER
        clear = mean.low > 1 and not self.slower
        return TimingVerdict.FASTER if clear else TimingVerdict.INCONCLUSIVE

    @property
    def gpu_seconds(self) -> float:
        """Seconds in which the GPU was measuring."""
        return sum(shape.gpu_seconds for shape in self.times.shapes) if self.times else 0.0
