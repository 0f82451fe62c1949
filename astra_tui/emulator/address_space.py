"""How generic addresses are laid out: one window for each state space."""

from __future__ import annotations

from typing import Any

import numpy as np

SHARED = 0x0100_0000_0000
LOCAL = 0x0200_0000_0000
GLOBAL = 0x7F00_0000_0000
"""Windows of generic addresses. Shared and local addresses proper are offsets from these; a
global address is the generic one."""

_PAGE = 2 << 20


def elsewhere(seed: int) -> int:
    """Another address where global memory may begin: up to 512 GiB below GLOBAL."""
    return GLOBAL - _PAGE * (1 + (seed * 0x9E37_79B1 >> 7) % (1 << 18))


_WINDOW = 1 << 32


def to_generic(space: str, offset: int) -> int:
    """The generic address of an offset in a state space."""
    return offset + {"shared": SHARED, "local": LOCAL}.get(space, 0)


def space_of(address: Any) -> Any:
    """SHARED, LOCAL or 0 (global) for each generic address."""
    shared = (address >= np.uint64(SHARED)) & (address < np.uint64(SHARED + _WINDOW))
    local = (address >= np.uint64(LOCAL)) & (address < np.uint64(LOCAL + _WINDOW))
    return np.where(shared, SHARED, np.where(local, LOCAL, 0))
