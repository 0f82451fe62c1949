"""How numbers are written in reports, each with its exact value."""

from __future__ import annotations

import math

from astra_tui.model.timing import Ratio
from astra_tui.sessions.report.document import Line, Number

_SMALLEST, _LARGEST = 1e-9, 1e9


def microseconds(time: float) -> Number:
    """Two decimals, one from 100 on; the unit is the column's."""
    return _number(time, f"{time:.2f}" if time < 100 else f"{time:,.1f}")


def ratio(value: float) -> Number:
    """Four decimals: differences of a few per mille are told apart."""
    return _number(value, f"{value:.4f}" if value < 100 else f"{value:,.1f}")


def interval(found: Ratio) -> Line:
    """Both ends of the 95 % interval."""
    return ratio(found.low), " to ", ratio(found.high)


def percent(share: float, decimals: int = 0) -> Number:
    """A share of 1 in percent."""
    return _number(share, f"{100 * share:,.{decimals}f} %")


def count(value: int) -> Number:
    """With commas between thousands."""
    return Number(value, f"{value:,}")


def decimal(value: float, decimals: int = 1) -> Number:
    """A plain number with a fixed number of decimals."""
    return _number(value, f"{value:,.{decimals}f}")


def change(before: float, after: float) -> str:
    """By how much a counter changed, in percent; "" where it began at zero."""
    if not before:
        return ""
    return "unchanged" if after == before else f"{100 * (after / before - 1):+.1f} %"


def is_plottable(value: float) -> bool:
    """Whether a value has a place on a logarithmic axis that can still be read."""
    return _SMALLEST <= value <= _LARGEST


def pluralised(number: int, what: str) -> str:
    """As in "1 workload" or "7 workloads"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _number(value: float, text: str) -> Number:
    if math.isnan(value):
        return Number(value, "not a number")
    if math.isinf(value):
        return Number(value, "infinite" if value > 0 else "-infinite")
    return Number(value, text)
