"""Kernels that others ship, opened from their packages and launched like candidates."""

from astra_tui.lab.yardsticks.opening import (
    NotBuilt,
    Shipped,
    open_yardstick,
    open_yardsticks,
    refusal,
)

__all__ = [
    "NotBuilt",
    "Shipped",
    "open_yardstick",
    "open_yardsticks",
    "refusal",
]
