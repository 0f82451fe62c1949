"""Register files: one slot a register, one vector element a thread, a scalar where all agree.

Operations never change an array in place, so a value may be shared between slots, and the
identity of an array tells whether a slot was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from astra_tui.emulator.numerics import all_bits, blend
from astra_tui.model.occupancy import WARP

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


class Selection:
    """Some entries of vectors, by their positions: copied a warp's worth at a time where they are
    entries of whole warps.
    """

    def __init__(self, positions: Any, warps: Any = None, has_all: bool = False):
        self.positions = positions
        self._warps = warps
        self._has_all = has_all

    @classmethod
    def rising(cls, positions: Any, width: int) -> Selection:
        """That of positions in order, each named once, in vectors of some width."""
        if len(positions) == width:
            return cls(positions, has_all=True)
        if len(positions) % WARP or width % WARP:
            return cls(positions)
        first, last = positions[::WARP], positions[WARP - 1 :: WARP]
        if np.count_nonzero(last - first != WARP - 1) or np.count_nonzero(first % WARP):
            return cls(positions)
        return cls(positions, first // WARP)

    def of(self, vector: Any) -> Any:
        """A copy of these entries of a vector."""
        if self._warps is None:
            return vector[self.positions]
        return vector.reshape(-1, WARP).take(self._warps, axis=0).reshape(-1)

    def put(self, vector: Any, values: Any) -> None:
        """Sets these entries of a vector, to one value or to one of the same type for each."""
        if self._has_all:
            vector[:] = values
        elif self._warps is None:
            vector[self.positions] = values
        else:
            if not np.ndim(values):
                values = np.full(WARP, values, vector.dtype)
            whole = np.dtype((np.void, WARP * vector.itemsize))
            vector.view(whole)[self._warps] = np.ascontiguousarray(values).view(whole)


class GroupRegisters(Registers):
    """The registers of some threads: fetched when first read, written back by `flush`."""

    def __init__(self, parent: Registers, parent_width: int, selection: Selection):
        super().__init__()
        self.parent = parent
        self.parent_width = parent_width
        self.selection = selection
        self.fetched: Registers = {}

    def __missing__(self, slot: int) -> Any:
        value = self.parent[slot]
        if value.ndim:
            value = self.selection.of(value)
        self.fetched[slot] = self[slot] = value
        return value

    def flush(self, needed: int = -1) -> None:
        """Writes the changed registers back to the parent: those whose bits are set in `needed`."""
        for slot, old, value in _changed(self, needed):
            merged = old.copy() if old.ndim else np.full(self.parent_width, old)
            self.selection.put(merged, value)
            self.parent[slot] = merged


class MaskedRegisters(Registers):
    """The registers of all threads of a group, of which some alone keep what is written."""

    def __init__(self, parent: Registers, kept: Any):
        super().__init__()
        self.parent = parent
        self.kept = kept
        """A mask of the threads that keep it."""
        self.fetched: Registers = {}
        self._bits: dict[int, Any] = {}
        """By size, the mask as `all_bits`."""

    def __missing__(self, slot: int) -> Any:
        value = self.fetched[slot] = self[slot] = self.parent[slot]
        return value

    def flush(self, needed: int = -1) -> None:
        """As that of `GroupRegisters`."""
        for slot, old, value in _changed(self, needed):
            size = value.itemsize
            if size not in self._bits:
                self._bits[size] = all_bits(self.kept, size)
            self.parent[slot] = blend(self._bits[size], value, old)


def _changed(
    registers: GroupRegisters | MaskedRegisters, needed: int
) -> Iterator[tuple[int, Any, Any]]:
    """Each slot whose bit is set in `needed` and that was written, with its old value, as one of
    the new type, and its new one.
    """
    fetched, parent = registers.fetched, registers.parent
    for slot, value in registers.items():
        if fetched.get(slot) is value or not needed >> slot & 1:
            continue
        old = parent[slot]
        if not (old.ndim or value.ndim) and old.tobytes() == value.tobytes():
            continue
        yield slot, old if old.dtype == value.dtype else old.view(value.dtype), value
