"""What each PTX opcode does. One module a family; `registry` collects them by name."""

from astra_tui.emulator.ops import (
    approximation,
    arithmetic,
    asynchronous,
    atomics,
    bits,
    bulk,
    control,
    conversion,
    mbarriers,
    memory,
    moves,
    tensor,
    transcendental,
    warp,
)
from astra_tui.emulator.ops.registry import HANDLERS

__all__ = [
    "HANDLERS",
    "approximation",
    "arithmetic",
    "asynchronous",
    "atomics",
    "bits",
    "bulk",
    "control",
    "conversion",
    "mbarriers",
    "memory",
    "moves",
    "tensor",
    "transcendental",
    "warp",
]
