"""Sets of all buffers of a workload, drawn on the device, one after the other in memory."""

from __future__ import annotations

import struct

from astra_tui.gpu.drawing import draw_parameters, seed_of
from astra_tui.gpu.messages import Fill, Poison, SetBuffer
from astra_tui.gpu.process.driver import Driver, Launch
from astra_tui.gpu.process.producer import ProducedBuffer
from astra_tui.gpu.process.tools import Tools
from astra_tui.model.device import BASE_ALIGNMENT, ArgumentRole

_DRAW_BLOCKS, _DRAW_THREADS = 1024, 256
_DIGEST_BLOCKS, _DIGEST_BYTES = 4096, 16_384

NAN = Poison()
"""All ones: NaN in every type of floats."""


class BufferSets:
    """`count` sets of buffers. Each use has a slab of its own, so that a restore is one copy.

    A red zone of so many bytes (a multiple of BASE_ALIGNMENT) follows every buffer.
    """

    def __init__(
        self,
        driver: Driver,
        tools: Tools,
        buffers: tuple[SetBuffer, ...],
        count: int,
        seed: int,
        red_zone: int = 0,
    ):
        self._driver = driver
        self._tools = tools
        self.buffers = buffers
        self.count = count
        self.red_zone = red_zone
        self._slabs: dict[ArgumentRole, int] = {}
        self._stride: dict[ArgumentRole, int] = {}
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

    def produced(self) -> tuple[ProducedBuffer, ...]:
        """What a launch before a call may write: its inputs but for stable ones, its outputs."""
        return tuple(
            ProducedBuffer(
                self.address(b, 0), b.size, self._stride[b.use], b.use is ArgumentRole.OUT
            )
            for b in self.buffers
            if not b.stable
        )

    @property
    def restored_bytes(self) -> int:
        """What a restore writes."""
        return self._stride.get(ArgumentRole.INOUT, 0) * self.count

    def restore(self) -> None:
        """Gives arguments that are changed in place their first contents again, in stream order.

        In ascending order, so that the sets that are used first are the first to leave L2.
        """
        if self._pristine:
            self._driver.copy(self._slabs[ArgumentRole.INOUT], self._pristine, self.restored_bytes)

    def poison(self, poison: Poison = NAN) -> None:
        """Fills all outputs, in stream order; by default they become NaN."""
        if ArgumentRole.OUT not in self._slabs:
            return
        slab, stride = self._slabs[ArgumentRole.OUT], self._stride[ArgumentRole.OUT]
        self._driver.fill(slab, poison.byte, stride * self.count)
        first, last = min(poison.first, self.count), min(poison.last, self.count)
        if first < last and poison.other != poison.byte:
            self._driver.fill(slab + first * stride, poison.other, stride * (last - first))

    def fill_red_zones(self, byte: int) -> None:
        """Writes all red zones, in stream order."""
        for buffer in self.buffers if self.red_zone else ():
            for number in range(self.count):
                at = self.address(buffer, number) + slot_bytes(buffer.size)
                self._driver.fill(at, byte, self.red_zone)

    def digest_outputs(self, key: int, target: int, count: int) -> None:
        """Adds a digest of the outputs of each of the first sets to uint64 in device memory."""
        self._digest([b for b in self.buffers if b.use.is_output], key, target, count)

    def digest_inputs(self, key: int, target: int) -> None:
        """Adds a digest of what is only read, of all sets together, to one uint64."""
        for number in range(self.count):
            self._digest(
                [b for b in self.buffers if b.use is ArgumentRole.IN], key, target, 1, number
            )

    def digest_red_zones(self, key: int, target: int) -> None:
        """Adds a digest of all red zones to one uint64."""
        for which, buffer in enumerate(self.buffers if self.red_zone else ()):
            for number in range(self.count):
                at = self.address(buffer, number) + slot_bytes(buffer.size)
                own = _key_of(key, which, number)
                self._digest_bytes(at, 0, self.red_zone, own, target, 1)

    def free(self) -> None:
        """Gives the memory back."""
        for address in (*self._slabs.values(), self._pristine):
            if address:
                self._driver.free(address)
        self._slabs, self._pristine = {}, 0

    def _digest(
        self, buffers: list[SetBuffer], key: int, target: int, count: int, first: int = 0
    ) -> None:
        for which, buffer in enumerate(buffers):
            at, stride = self.address(buffer, first), self._stride[buffer.use]
            own = _key_of(key, which, first)
            self._digest_bytes(at, stride, buffer.size, own, target, count)

    def _digest_bytes(
        self, address: int, stride: int, size: int, key: int, target: int, count: int
    ) -> None:
        if not size or not count:
            return
        blocks = max(1, min(-(-size // _DIGEST_BYTES), _DIGEST_BLOCKS // count))
        parameters = struct.pack("<QQQQQ", address, stride, size, key % 2**64, target)
        grid, block = (blocks, count, 1), (_DRAW_THREADS, 1, 1)
        self._driver.launch(Launch(self._tools.function("digest"), grid, block, 0, parameters))

    def _allocate(self) -> None:
        for buffer in self.buffers:
            at = self._stride.get(buffer.use, 0)
            self._within[buffer.name] = at
            self._stride[buffer.use] = at + slot_bytes(buffer.size) + self.red_zone
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
            self._driver.copy(self._pristine, self._slabs[ArgumentRole.INOUT], self.restored_bytes)
        self.poison()
        self._driver.wait()

    def _draw_buffer(self, buffer: SetBuffer, fill: Fill, seed: int) -> None:
        drawn = draw_parameters(fill, seed, buffer.elements, self._stride[buffer.use])
        pointer = struct.pack("<Q", self.address(buffer, 0))
        blocks = min(-(-buffer.elements // _DRAW_THREADS), _DRAW_BLOCKS)
        grid, block = (blocks, self.count, 1), (_DRAW_THREADS, 1, 1)
        self._driver.launch(Launch(self._tools.function("draw"), grid, block, 0, pointer + drawn))


def _key_of(key: int, which: int, number: int) -> int:
    """The key for one buffer of one set, the same however many sets there are."""
    return key + (which << 32) + number


def slot_bytes(size: int) -> int:
    """What a buffer takes in its slab."""
    return -(-max(size, 1) // BASE_ALIGNMENT) * BASE_ALIGNMENT
