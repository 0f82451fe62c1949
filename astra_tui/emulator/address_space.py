"""How generic addresses are laid out: one window for each state space."""

from __future__ import annotations

from typing import Any

import numpy as np

SHARED = 0x0100_0000_0000
LOCAL = 0x0200_0000_0000
PARAM = 0x0300_0000_0000
GLOBAL = 0x7F00_0000_0000
"""Windows of generic addresses. Shared and local addresses proper are offsets from these; the
address of a kernel's parameter, or a global one, is the generic one."""

_PAGE = 2 << 20


def other_base(seed: int) -> int:
    """Another address where global memory may begin: up to 512 GiB below GLOBAL."""
    return GLOBAL - _PAGE * (1 + (seed * 0x9E37_79B1 >> 7) % (1 << 18))


PEER_SHIFT = 24
"""Where a shared address says which block of the cluster it is in: 1 + its rank, or 0 (its own)."""
PEER_OFFSET = (1 << PEER_SHIFT) - 1

_WINDOW = 1 << 32
_WINDOWS = {"shared": SHARED, "local": LOCAL, "param": PARAM}


def to_generic(space: str, offset: int) -> int:
    """The generic address of an offset in a state space."""
    return offset + _WINDOWS.get(space, 0)


def all_to_generic(space: str, addresses: Any) -> Any:
    """The generic addresses of addresses in a state space, which may be generic already."""
    if space not in _WINDOWS:
        return addresses
    offsets = addresses & np.uint64(_WINDOW - 1)
    if space == "param":  # That of a kernel, or of a function, which lies in local memory.
        return np.where(space_of(addresses) == PARAM, addresses, offsets + np.uint64(LOCAL))
    return offsets + np.uint64(_WINDOWS[space])


def space_of(address: Any) -> Any:
    """SHARED, LOCAL, PARAM or 0 (global) for each generic address."""
    window = address & ~np.uint64(_WINDOW - 1)
    known = (window == SHARED) | (window == LOCAL) | (window == PARAM)
    return np.where(known, window, np.uint64(0)).astype(np.int64)
