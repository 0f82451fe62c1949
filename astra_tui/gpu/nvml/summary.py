"""Sums up the samples around one block."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from astra_tui.model.gpu import GpuCounters, GpuSample, GpuSummary, Spread, ThrottleReason

_NUMBERS = (
    "sm_mhz",
    "mem_mhz",
    "power_w",
    "average_power_w",
    "temperature_c",
    "utilisation_percent",
    "memory_used_bytes",
)


def summarise(
    samples: Sequence[GpuSample],
    before: GpuCounters | None = None,
    after: GpuCounters | None = None,
) -> GpuSummary:
    """Spreads of the readings and the union of reasons; the order of samples does not matter."""
    times = [sample.seconds for sample in samples]
    values: dict[str, Any] = {name: _spread(samples, name) for name in _NUMBERS}
    names = (*_NUMBERS, "throttle_reasons")
    reasons = {name: _why_missing(samples, name) for name in names}
    return GpuSummary(
        samples=len(samples),
        seconds=max(times) - min(times) if times else 0.0,
        **values,
        throttle_reasons=union_of_reasons(samples),
        before=before,
        after=after,
        missing={name: reason for name, reason in reasons.items() if reason},
    )


def union_of_reasons(samples: Sequence[GpuSample]) -> tuple[ThrottleReason, ...] | None:
    """The reasons of any sample, in the order of their definition; None if no sample knows."""
    known = [s.throttle_reasons for s in samples if s.throttle_reasons is not None]
    if not known:
        return None
    seen = {reason for reasons in known for reason in reasons}
    return tuple(reason for reason in ThrottleReason if reason in seen)


def _spread(samples: Sequence[GpuSample], name: str) -> Spread | None:
    values = [value for s in samples if (value := getattr(s, name)) is not None]
    if not values:
        return None
    return Spread(float(min(values)), float(statistics.median(values)), float(max(values)))


def _why_missing(samples: Sequence[GpuSample], name: str) -> str:
    """Why a reading is missing from all samples or from some; "" if it is in each."""
    if not samples:
        return "no sample was taken"
    reasons = Counter(
        sample.missing.get(name, "not read") for sample in samples if getattr(sample, name) is None
    )
    text = "; ".join(sorted(reasons))
    absent = reasons.total()
    return text if absent in (0, len(samples)) else f"{absent} of {len(samples)} samples: {text}"
