"""What a running service spends on an operator, and what a faster one would save."""

from __future__ import annotations

import msgspec

from astra_tui.model.dtypes import DType


class ServiceWorkload(msgspec.Struct, frozen=True):
    """One workload of a service, and how much it counts."""

    dims: dict[str, int]
    dtype: DType
    weight: float
    """Its share of those that were kept."""
    calls: int
    gpu_us: float | None
    """Time of its kernels, all calls together."""


class ExposedTime(msgspec.Struct, frozen=True):
    """How much of a recorded time the GPU spent on an operator alone; all in microseconds."""

    recorded_us: float
    """From the first kernel's begin to the last one's end."""
    operator_us: float
    exposed_us: float
    """While no other kernel ran: what is saved here shortens the whole."""

    @property
    def share(self) -> float:
        """Of the recorded time."""
        return self.exposed_us / self.recorded_us if self.recorded_us else 0.0

    def end_to_end(self, speedup: float) -> float:
        """The speedup of the whole that a speedup of the operator gives at most."""
        return 1 / (1 - self.share * (1 - 1 / speedup))
