"""Sets of all buffers of a workload, drawn on the device, one after the other in memory."""

from __future__ import annotations

import struct

from astra_tui.lab.cuda.drawing import draw_parameters, seed_of
from astra_tui.lab.cuda.messages import Fill, SetBuffer
from astra_tui.lab.cuda.process.driver import Driver, Launch
from astra_tui.lab.device import BASE_ALIGNMENT

_DRAW_BLOCKS, _DRAW_THREADS = 1024, 256


class BufferSets:
    """`count` sets of buffers. Each use has a slab of its own, so that a restore is one copy."""

    def __init__(
        self, driver: Driver, draw: int, buffers: tuple[SetBuffer, ...], count: int, seed: int
    ):
        self._driver = driver
        self._draw = draw
        self.buffers = buffers
        self.count = count
        self._slabs: dict[str, int] = {}
        self._stride: dict[str, int] = {}
        self._within: dict[str, int] = {}
        self._pristine = 0
        try:
            self._allocate()
            self._fill(seed)
        except BaseException:
            self.free()
            raise

    def addresses(self, number: int) -> dict[str, int]:
        """The addresses of one set's buffers."""
        return {b.name: self.address(b, number) for b in self.buffers}

    def address(self, buffer: SetBuffer, number: int) -> int:
        """The address of a buffer of one set."""
        slab, stride = self._slabs[buffer.use], self._stride[buffer.use]
        return slab + number * stride + self._within[buffer.name]

    @property
    def restored_bytes(self) -> int:
        """What a restore writes."""
        return self._stride.get("inout", 0) * self.count

    def restore(self) -> None:
        """Gives arguments that are changed in place their first contents again, in stream order.

        In ascending order, so that the sets that are used first are the first to leave L2.
        """
        if self._pristine:
            self._driver.copy(self._slabs["inout"], self._pristine, self.restored_bytes)

    def poison(self) -> None:
        """Makes all outputs NaN, in stream order."""
        if "out" in self._slabs:
            self._driver.fill(self._slabs["out"], 0xFF, self._stride["out"] * self.count)

    def free(self) -> None:
        """Gives the memory back."""
        for address in (*self._slabs.values(), self._pristine):
            if address:
                self._driver.free(address)
        self._slabs, self._pristine = {}, 0

    def _allocate(self) -> None:
        for buffer in self.buffers:
            at = self._stride.get(buffer.use, 0)
            self._within[buffer.name] = at
            self._stride[buffer.use] = at + slot_bytes(buffer.size)
        for use, stride in self._stride.items():
            self._slabs[use] = self._driver.allocate(stride * self.count)
        if self.restored_bytes:
            self._pristine = self._driver.allocate(self.restored_bytes)

    def _fill(self, seed: int) -> None:
        for buffer in self.buffers:
            if buffer.fill is not None and buffer.elements and self.count:
                self._draw_buffer(buffer, buffer.fill, seed_of(seed, buffer.name))
        self._driver.wait()
        if self._pristine:
            self._driver.copy(self._pristine, self._slabs["inout"], self.restored_bytes)
        self.poison()
        self._driver.wait()

    def _draw_buffer(self, buffer: SetBuffer, fill: Fill, seed: int) -> None:
        drawn = draw_parameters(fill, seed, buffer.elements, self._stride[buffer.use])
        pointer = struct.pack("<Q", self.address(buffer, 0))
        blocks = min(-(-buffer.elements // _DRAW_THREADS), _DRAW_BLOCKS)
        grid, block = (blocks, self.count, 1), (_DRAW_THREADS, 1, 1)
        self._driver.launch(Launch(self._draw, grid, block, 0, pointer + drawn))


def slot_bytes(size: int) -> int:
    """What a buffer takes in its slab."""
    return -(-max(size, 1) // BASE_ALIGNMENT) * BASE_ALIGNMENT
