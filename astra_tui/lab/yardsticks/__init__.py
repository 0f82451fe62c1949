"""Kernels that others ship, opened from their packages and launched like candidates."""

from astra_tui.lab.yardsticks.opening import (
    Entrant,
    NotBuilt,
    Shipped,
    entrants,
    open_yardstick,
    open_yardsticks,
    refusal,
    user_packages,
)

__all__ = [
    "Entrant",
    "NotBuilt",
    "Shipped",
    "entrants",
    "open_yardstick",
    "open_yardsticks",
    "refusal",
    "user_packages",
]
