"""Results about yardsticks: what they are, which shapes they serve, and their times."""

from __future__ import annotations

import msgspec

from astra_tui.model.dtypes import DType
from astra_tui.model.timing import Caveat, Ratio


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


class ChainTimes(msgspec.Struct, frozen=True):
    """All shapes in one chain: every launch follows a "producer", or "itself".

    `means` are geometric means of the fastest shipped kernel over each source; None where a shape
    has no such comparison.
    """

    chain: str
    shapes: tuple[ShapeTimes, ...]
    means: dict[str, Ratio | None]
