"""The one way in which each kind of number is written, on the screen, in lines and in reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from astra_tui.model.timing import Ratio


def count(value: int) -> str:
    """With commas between thousands."""
    return f"{value:,}"


def pluralised(number: int, what: str) -> str:
    """As in "1 workload" or "7 workloads"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def decimal(value: float, decimals: int = 1) -> str:
    """A plain number with a fixed number of decimals."""
    return _finite(value) or f"{value:,.{decimals}f}"


def significant(value: float) -> str:
    """A measure of any size in three significant digits."""
    return _finite(value) or f"{value:.3g}"


def microseconds(value: float) -> str:
    """Two decimals, one from 100 on, without the unit, for a column that has it."""
    return _finite(value) or (f"{value:.2f}" if value < 100 else f"{value:,.1f}")


def time(value_us: float) -> str:
    """A kernel's time, from microseconds, as in "12.34 us"."""
    return f"{microseconds(value_us)} us"


def times(base_us: float, candidate_us: float) -> str:
    """The times of a pair, as in "12.34 to 5.60 us"."""
    return f"{microseconds(base_us)} to {time(candidate_us)}"


def ratio(value: float, unit: str = "x") -> str:
    """A speedup, old time over new, as in "1.234x"; `unit` is "" in a column that says it."""
    return _finite(value) or (f"{value:.3f}{unit}" if value < 100 else f"{value:,.1f}{unit}")


def speedup(found: Ratio) -> str:
    """A speedup with its 95 % interval, where it has one, as in "1.234x [1.230, 1.238]"."""
    if not math.isfinite(found.high):
        return ratio(found.value)
    return f"{ratio(found.value)} [{ratio(found.low, '')}, {ratio(found.high, '')}]"


def percent(share: float, decimals: int = 0) -> str:
    """A share of 1, as in "75 %"."""
    return _finite(share) or f"{100 * share:,.{decimals}f} %"


def change(new_over_old: float) -> str:
    """How much a counter changed, from its ratio: 0.5 is "-50.0 %"."""
    return _finite(new_over_old) or f"{100 * (new_over_old - 1):+,.1f} %"


def points(difference: float) -> str:
    """A difference of two ratios in percentage points: 0.075 is "7.5 points"."""
    return _finite(difference) or f"{100 * difference:,.1f} points"


def seconds(value: float) -> str:
    """How long something took, as in "4.2 s", "12 min 5 s" or "1 h 2 min"."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest if not hours else 0, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def rough_duration(seconds: float) -> str:
    """In one unit, as in "42 s" or "3 h"."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def clock(value: float) -> str:
    """Seconds that are running, as in "0:07" or "1:02:45"."""
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def minute(timestamp: str) -> str:
    """A UTC timestamp to the minute, as in "2026-01-31 12:00"; as it is where it is none."""
    moment = _moment(timestamp)
    return timestamp if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def age(timestamp: str, now: datetime) -> str:
    """How long ago a UTC timestamp is, as in "3 h"; empty where it is none."""
    then = _moment(timestamp)
    return rough_duration((now - then).total_seconds()) if then else ""


def size(bytes_: float) -> str:
    """Bytes, as in "512 B" or "80.0 GiB"."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if bytes_ >= scale:
            return f"{bytes_ / scale:,.1f} {unit}"
    return f"{bytes_:.0f} B"


def dollars(value: float) -> str:
    """A price, as in "$0.0123"."""
    return f"${value:,.4f}"


def dimensions(dims: Mapping[str, int]) -> str:
    """Sizes of a workload or case, as in "tokens=16, d=4096"."""
    return ", ".join(f"{name}={value}" for name, value in dims.items())


def _moment(timestamp: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _finite(value: float) -> str:
    """What stands for a value that is no number or has no end; "" where it has one."""
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    return ""
