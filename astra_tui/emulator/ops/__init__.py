"""What each PTX opcode does. One module a family; `operands.opcode` collects them by name."""

from astra_tui.emulator.operands import HANDLERS
from astra_tui.emulator.ops import (
    approximation,
    arithmetic,
    asynchronous,
    atomics,
    bits,
    bulk,
    control,
    conversion,
    data_movement,
    mbarriers,
    memory,
    tensor,
    transcendental,
    warp,
)

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
    "data_movement",
    "mbarriers",
    "memory",
    "tensor",
    "transcendental",
    "warp",
]
