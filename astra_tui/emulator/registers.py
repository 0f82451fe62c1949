"""Register files: one slot a register, one vector element a thread, a scalar where all agree.

Operations never change an array in place, so a value may be shared between slots, and the
identity of an array tells whether a slot was written.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Registers = dict[int, Any]


def spread(value: Any, width: int) -> Any:
    """The value of every thread as a vector, where a register may hold a scalar."""
    return value if value.ndim else np.full(width, value)


class HomeRegisters(Registers):
    """The registers of all threads of a chunk.

    PTX leaves undefined what a slot holds that was never written, so a result that depends on it
    is to show. It reads as all ones, which is a NaN for floats, or, if `finite`, as a number.
    """

    def __init__(self, width: int, dtypes: list[np.dtype[Any]], finite: bool = False):
        super().__init__()
        self.width = width
        self.dtypes = dtypes
        self.finite = finite

    def __missing__(self, slot: int) -> Any:
        value = self[slot] = _undefined(self.dtypes[slot], self.finite)
        return value


@cache
def _undefined(dtype: np.dtype[Any], finite: bool) -> Any:
    if dtype.kind == "b":
        return np.full((), finite, dtype)[()]
    return np.frombuffer((b"\x5a" if finite else b"\xff") * dtype.itemsize, dtype)[0]


class GroupRegisters(Registers):
    """The registers of some threads: fetched when first read, written back by `flush`."""

    def __init__(self, parent: Registers, parent_width: int, positions: Any):
        super().__init__()
        self.parent = parent
        self.parent_width = parent_width
        self.positions = positions
        self.fetched: Registers = {}

    def __missing__(self, slot: int) -> Any:
        value = self.parent[slot]
        if value.ndim:
            value = value[self.positions]
        self.fetched[slot] = self[slot] = value
        return value

    def flush(self, needed: int = -1) -> None:
        """Writes the changed registers back to the parent: those whose bits are set in `needed`."""
        fetched = self.fetched
        for slot, value in self.items():
            if fetched.get(slot) is value or not needed >> slot & 1:
                continue
            old = self.parent[slot]
            if old.dtype != value.dtype:
                old = old.view(value.dtype)
            merged = old.copy() if old.ndim else np.full(self.parent_width, old)
            merged[self.positions] = value
            self.parent[slot] = merged
