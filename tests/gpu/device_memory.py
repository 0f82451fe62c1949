"""Device memory of the scripted driver: regions at addresses, every access inside one of them."""

from __future__ import annotations

import bisect
from collections.abc import Hashable
from typing import Any

import numpy as np

from astra_tui.gpu.process.driver import DriverError
from tests.gpu.script import ILLEGAL_ADDRESS, INVALID_VALUE, MISALIGNED, NAMES, OUT_OF_MEMORY

_FIRST = 0x7F00_0000_0000
_ALIGNMENT = 256


def failure(code: int, call: str) -> DriverError:
    """An error as the driver gives it."""
    return DriverError(code, NAMES[code], call)


class DeviceMemory:
    """Regions that never touch each other. Fresh memory holds what no one may rely on."""

    def __init__(self, size: int):
        self.size = size
        self._next = _FIRST
        self._regions: dict[int, Any] = {}
        self._starts: list[int] = []
        self.views: dict[Hashable, Any] = {}
        """What was made of views, for who asks again, as long as nothing is freed."""
        self._junk = np.random.default_rng(7).integers(0, 256, (1 << 20) + 3, np.uint8)

    @property
    def used(self) -> int:
        """Bytes that are allocated."""
        return sum(region.size for region in self._regions.values())

    def allocate(self, size: int) -> int:
        """Raises DriverError 2 when there is not so much left."""
        if self.used + size > self.size:
            raise failure(OUT_OF_MEMORY, "cuMemAlloc")
        address = self._next
        self._regions[address] = np.empty(size, np.uint8)
        # Pages of what a flush writes are there once it does.
        self._regions[address][: self._junk.size] = self._junk[:size]
        self._starts.append(address)  # Addresses only grow.
        self._next = -(-(address + size + 1) // _ALIGNMENT) * _ALIGNMENT
        return address

    def free(self, address: int) -> None:
        """Raises DriverError 1 for what is not allocated."""
        if self._regions.pop(address, None) is None:
            raise failure(INVALID_VALUE, "cuMemFree")
        self._starts.remove(address)
        self.views.clear()

    def rank(self, address: int) -> int:
        """How many regions begin before an address or at it."""
        return bisect.bisect_right(self._starts, address)

    def bytes(self, address: int, size: int) -> Any:
        """A view of memory. Raises DriverError 700 outside every region."""
        rank = self.rank(address)
        if rank == 0:
            raise failure(ILLEGAL_ADDRESS, "an access")
        start = self._starts[rank - 1]
        region, first = self._regions[start], address - start
        if first + size > region.size:
            raise failure(ILLEGAL_ADDRESS, "an access")
        return region[first : first + size]

    def array(self, address: int, count: int, dtype: str) -> Any:
        """A view as elements. Raises DriverError 716 where a load of one would not be aligned."""
        size = np.dtype(dtype).itemsize
        if address % size:
            raise failure(MISALIGNED, "an access")
        return self.bytes(address, count * size).view(dtype)
