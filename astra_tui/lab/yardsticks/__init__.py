"""Kernels that others ship, opened from their packages and launched like candidates."""

from astra_tui.lab.yardsticks.opening import (
    NotBuilt,
    Shipped,
    YardstickVersion,
    open_yardstick,
    open_yardsticks,
    refusal,
    user_packages,
    yardstick_versions,
)

__all__ = [
    "NotBuilt",
    "Shipped",
    "YardstickVersion",
    "open_yardstick",
    "open_yardsticks",
    "refusal",
    "user_packages",
    "yardstick_versions",
]
