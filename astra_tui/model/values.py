"""How the elements of an input are drawn."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec


def finite_number(text: str) -> float | None:
    """The number that a text is; None for NaN, an infinity and other texts."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class ValueKind(StrEnum):
    """The distributions and patterns that a task or a case can ask for."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    INTEGERS = "integers"
    CONSTANT = "constant"
    ARANGE = "arange"
    OFFSETS = "offsets"
    DISTRIBUTION = "distribution"
    LONE = "lone"

    @property
    def is_of_rows(self) -> bool:
        """Whether the numbers of each row, along the last axis, follow from each other."""
        return self in (ValueKind.OFFSETS, ValueKind.DISTRIBUTION)


class Distinct(StrEnum):
    """Which elements of a tensor of whole numbers all differ."""

    NONE = ""
    TENSOR = "tensor"
    ROWS = "rows"
    """Those of each row, along the last axis."""


class Values(msgspec.Struct, frozen=True, omit_defaults=True):
    """A distribution and what is planted into it.

    normal: mean `low`, standard deviation `high`. uniform: from `low` to `high`. integers: whole
    numbers from `low` to `high`, both included. constant: `low` everywhere, which may be infinite.
    arange: 0, 1, 2, ... modulo `high` + 1. offsets: whole numbers that never fall, `low` first in
    each row along the last axis and `high` last. distribution: rows of numbers from 0 to 1 that sum
    to 1, before they are rounded to their type. lone: `low`, which may be infinite, but for one
    `high` in every two rows, at a drawn place. `low_text` and `high_text` are expressions over
    dimensions that stand for `low` and `high`; "" where the number does.
    """

    kind: ValueKind = ValueKind.NORMAL
    low: float = 0.0
    high: float = 1.0
    planted: tuple[str, ...] = ()
    """Written over about one element in sixteen: "nan", "inf", "-inf", "-0", "limit".

    Cases that follow from a source also plant plain numbers."""
    low_text: str = ""
    high_text: str = ""
    distinct: Distinct = Distinct.NONE
    """For integers."""
    apart: int = 0
    """For offsets: how far neighbours are apart at least."""
