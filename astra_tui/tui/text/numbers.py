"""Whole numbers that someone types."""

from __future__ import annotations

MAX_DIGITS = 18
"""More are no size, line or count; Python refuses to read some thousands of them."""


def whole_number(text: str) -> int | None:
    """The number from 0 on that a text says in decimal digits; None where it says none."""
    digits = text.strip()
    return int(digits) if digits.isdecimal() and len(digits) <= MAX_DIGITS else None
