"""Times of versions of a kernel on a GPU, always in pairs, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from astra_tui.model.dtypes import DType
from astra_tui.model.gpu import EnergyUse

Positive = Annotated[float, msgspec.Meta(gt=0)]
"""What is divided by: a journal that holds something else here cannot be read."""


def mean_ratio(ratios: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """The geometric mean of ratios over workloads, all above 0: at least one.

    Every mean over workloads is this one. `weights` say how much each counts, relative to the
    others and above 0; by default all count the same.
    """
    each = weights or [1.0] * len(ratios)
    logs = [w * math.log(r) for w, r in zip(each, ratios, strict=True)]
    return math.exp(math.fsum(logs) / math.fsum(each))


def mean_name(weights: Iterable[float]) -> str:
    """What such a mean is called: one by weights that differ says so."""
    return "weighted geometric mean" if len(set(weights)) > 1 else "geometric mean"


class TimingVerdict(StrEnum):
    """What the interval of a ratio says about a candidate, against its base."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """The whole interval lies within the threshold round 1."""
    INCONCLUSIVE = "inconclusive"


class Ratio(msgspec.Struct, frozen=True):
    """Time of the base over time of the candidate: above 1 the candidate is faster.

    `low` and `high` bound it with 95 % confidence; `rounds` is how many pairs it rests on.
    """

    value: Positive
    low: float
    high: float
    rounds: int

    @property
    def half_width(self) -> float:
        """Half the width of the interval, relative to the ratio."""
        return (self.high - self.low) / (2 * self.value)


class Progress(msgspec.Struct, frozen=True):
    """The state of one candidate's measurement after a block of rounds."""

    workload: str
    candidate: int
    """From 0, in the order in which the candidates were given."""
    base_us: float
    candidate_us: float
    speedup: Ratio
    rounds: int


class PairedTime(msgspec.Struct, frozen=True):
    """One kind of paired measurement of a workload: medians in microseconds, and the ratio."""

    base_us: float
    candidate_us: Positive
    speedup: Ratio


class PaperTime(msgspec.Struct, frozen=True):
    """The protocol of the Astra paper (section 4.1), which times the launch path as well.

    20 warm-ups, 100 launches from the host with an event pair round each, arithmetic mean.
    """

    base_us: float
    candidate_us: Positive

    @property
    def speedup(self) -> float:
        """Mean over mean."""
        return self.base_us / self.candidate_us


class PairedEnergy(msgspec.Struct, frozen=True):
    """Energy of the whole board in blocks of launches without a pause, one version after the other.

    For kernels that change arguments in place, putting these back is part of the block.
    """

    base: EnergyUse
    candidate: EnergyUse


COLD = "cold"
PROTOCOLS = (COLD, "after itself", "warm", "paper")
"""How a workload is timed: the first decides."""


class Floor(msgspec.Struct, frozen=True):
    """What no kernel can go below on this GPU, in microseconds: measured, not from a data sheet."""

    launch_us: float
    """An empty kernel, a graph node."""
    copy_us: float
    """A copy that reads and writes the workload's compulsory bytes, by graph replay, cold."""
    compulsory_bytes: int

    @property
    def us(self) -> float:
        """The higher of both."""
        return max(self.launch_us, self.copy_us)


BEHIND_PRODUCER = (
    "each launch follows a kernel of the judge's that writes part of its inputs, since a plan says "
    "pdl=: the times are of both"
)
"""The caveat about times where `WorkloadTiming.producer`."""

WRONG_OUTPUT = "wrong_output"
"""The kind of caveat that is a certainty: a timed launch gave a wrong result."""


class Caveat(msgspec.Struct, frozen=True, rename={"invalidates": "voids"}):
    """A reason not to trust a measurement, or not fully: it is shown wherever the number is."""

    kind: str
    message: str
    invalidates: bool = False
    """Whether the measurement may decide nothing."""


class WorkloadTiming(msgspec.Struct, frozen=True, omit_defaults=True, rename={"caveats": "doubts"}):
    """A candidate timed against its base on one workload.

    `cold` decides: every launch finds its buffers outside the L2 cache. `control` is the base
    against a copy of itself; `threshold` is the least difference that counts, max(0.3 %, twice
    what the control can detect), as a fraction.
    """

    workload: str
    dims: dict[str, int]
    dtype: DType
    verdict: TimingVerdict
    cold: PairedTime
    threshold: float
    control: Ratio | None = None
    producer: bool = False
    """Whether each launch followed a kernel of the judge's that writes part of its inputs, as the
    launch before it would: `cold` then has the time of both."""
    chained: PairedTime | None = None
    """Cold launches after themselves alone, where `cold` has a producer."""
    warm: PairedTime | None = None
    paper: PaperTime | None = None
    floor: Floor | None = None
    energy: PairedEnergy | None = None
    launches: int = 0
    """Launches in one replayed graph."""
    buffer_sets: int = 0
    offset_us: float = 0.0
    """What an event pair adds to a replay; it is subtracted."""
    sm_mhz: float = 0.0
    """Clock of the multiprocessors while it was measured, by clock64 over globaltimer."""
    verified_sets: int = 0
    """Buffer sets whose outputs of a timed replay were compared with the reference."""
    caveats: tuple[Caveat, ...] = ()
    seconds: float = 0.0
    weight: Positive = 1.0
    """How much it counts in the mean over the workloads, relative to the others."""

    @property
    def pairs(self) -> dict[str, PairedTime | None]:
        """Both times by each protocol, in the order of `PROTOCOLS`; the paper's has no interval."""
        paper = None
        if self.paper is not None:
            mean = Ratio(self.paper.speedup, 0.0, math.inf, 0)
            paper = PairedTime(self.paper.base_us, self.paper.candidate_us, mean)
        found = self.cold, self.chained, self.warm, paper
        return dict(zip(PROTOCOLS, found, strict=True))

    @property
    def of_floor(self) -> float | None:
        """Share of the floor that the candidate reaches: 1 is as fast as a copy."""
        us = (self.chained or self.cold).candidate_us
        return self.floor.us / us if self.floor and us else None

    @property
    def invalidated(self) -> bool:
        """Whether a caveat keeps it from deciding anything."""
        return any(d.invalidates for d in self.caveats)


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A candidate against one other version on all workloads that were timed."""

    device: str
    gpu: str
    """The GPU's name."""
    base: str
    """Hash of the version it is paired with."""
    candidate: str
    workloads: tuple[WorkloadTiming, ...]
    speedup: Ratio
    """Geometric mean over the workloads, by their weights."""
    control: Ratio
    """The same of the base against a copy of itself."""
    verdict: TimingVerdict
    reasons: tuple[str, ...]
    """Why the verdict is what it is, the most important first."""
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    """Of them, those in which replays ran."""
    uuid: str = ""
    """Which GPU measured; "" in older journals."""

    @property
    def weights(self) -> list[float]:
        """Of the workloads, in their order."""
        return [w.weight for w in self.workloads]
