"""Runs the launches of one case on fresh buffers between red zones."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from astra_tui.gpu.messages import LATE_CYCLES, CaseBuffer, CaseRan, Kernel, RunCase
from astra_tui.gpu.process.driver import Driver, Launch
from astra_tui.gpu.process.producer import (
    CHECKED_PIECES,
    PIECE_BYTES,
    ProducedBuffer,
    Producer,
)
from astra_tui.gpu.process.tools import Tools
from astra_tui.model.device import BASE_ALIGNMENT, RED_ZONE_BYTES

_STALE = (0x3C, 0x00, 0xFF)
"""Bytes of stale inputs, in turn: numbers as right ones may be, zeros, NaN."""
_SPARE = 1 << 26
"""The least that is allocated at once: one block serves most cases."""


@dataclass(frozen=True)
class _Placed:
    """Where a buffer lies in the memory of its case."""

    buffer: CaseBuffer
    start: int
    end: int


class CaseRunner:
    """Runs cases one after the other in one block of device memory."""

    def __init__(self, driver: Driver, tools: Tools | None = None):
        self._driver = driver
        self._tools = tools
        self._module = 0
        self._memory = 0
        self._size = 0
        self._random = np.random.Generator(np.random.SFC64())
        self._stale = cycle(_STALE)
        self._stored_early = False

    def run(self, request: RunCase) -> CaseRan:
        """Raises DriverError; after a sticky one this process is of no use."""
        if request.cubin:
            if self._module:
                self._driver.unload(self._module)
            self._module = self._driver.load(request.cubin)
        placed, size = _place(request.buffers)
        self._reserve(size)
        image = self._image(placed, size)
        launches = [self._launch(kernel, placed) for kernel in request.kernels]
        follows_producer = any(launch.pdl for launch in launches)
        written = self._written(placed) if follows_producer else ()
        self._stored_early = False
        first = self._once(image, launches, written, LATE_CYCLES)
        unwaited: tuple[int, ...] = ()
        if request.repeats > 1:
            unwaited = self._unwaited(image, launches, placed, request.may_vary)
        unstable: set[str] = set()
        for number in range(request.repeats - 1):
            again = self._once(image, launches, written, LATE_CYCLES * (number % 2))
            unstable |= {
                p.buffer.name
                for p in placed
                if not np.array_equal(first[p.start : p.end], again[p.start : p.end])
            }
        return CaseRan(
            contents={p.buffer.name: first[p.start : p.end].tobytes() for p in placed},
            overrun=_overruns(placed, image, first),
            unstable=tuple(sorted(unstable)),
            early=self._stored_early,
            unwaited=unwaited,
        )

    def _unwaited(
        self, image: Any, launches: list[Launch], placed: list[_Placed], may_vary: bool
    ) -> tuple[int, ...]:
        """The launches, from the second, that use what those before write before they have waited.

        A producer takes the place of those before: it writes what they wrote, late. Where results
        may vary anyway, early stores alone tell.
        """
        found = []
        for number, launch in enumerate(launches[1:], 1):
            if not launch.pdl:
                continue
            before = self._once(image, launches[:number], (), 0)
            written = self._changed(image, before, placed)
            if not written:
                continue
            self._stored_early, stored_early = False, self._stored_early
            on_time, again, *late = (
                self._once(before, launches[number:], written, cycles)
                for cycles in (0, 0, LATE_CYCLES, LATE_CYCLES)
            )
            differs = any(not np.array_equal(on_time, run) for run in late)
            tells = differs and not may_vary and np.array_equal(on_time, again)
            if self._stored_early or tells:
                found.append(number)
            self._stored_early = stored_early
        return tuple(found)

    def _changed(
        self, before: Any, after: Any, placed: list[_Placed]
    ) -> tuple[ProducedBuffer, ...]:
        """The stretches of whole pieces, within buffers, that differ."""
        found = []
        for p in placed:
            differs = np.flatnonzero(before[p.start : p.end] != after[p.start : p.end])
            pieces = np.unique(differs // PIECE_BYTES)
            for run in np.split(pieces, np.flatnonzero(np.diff(pieces) > 1) + 1):
                if run.size:
                    first, end = int(run[0]) * PIECE_BYTES, (int(run[-1]) + 1) * PIECE_BYTES
                    end = min(end, p.end - p.start)
                    address = self._memory + p.start + first
                    found.append(ProducedBuffer(address, end - first, 0, is_output=False))
        return tuple(found)

    def _once(
        self,
        image: Any,
        launches: list[Launch],
        written: tuple[ProducedBuffer, ...],
        late_cycles: int,
    ) -> Any:
        """One run, after a producer of what is `written`."""
        self._driver.upload(self._memory, image)
        if not written:
            for launch in launches:
                self._driver.launch(launch)
            return self._driver.download(self._memory, image.size)
        assert self._tools is not None
        producer = Producer(self._driver, self._tools, written, 1, CHECKED_PIECES)
        try:
            producer.delay(late_cycles)
            producer.spoil(next(self._stale), 1)
            run_together(self._driver, [producer.before(0), *launches])
            self._stored_early |= producer.touched()
            return self._driver.download(self._memory, image.size)
        finally:
            producer.free()

    def _written(self, placed: list[_Placed]) -> tuple[ProducedBuffer, ...]:
        return tuple(
            ProducedBuffer(self._memory + p.start, p.end - p.start, 0, p.buffer.is_output)
            for p in placed
            if p.buffer.produced
        )

    def _image(self, placed: list[_Placed], size: int) -> Any:
        """The memory before a run: contents, and between them a pattern no one can guess.

        As half, bfloat16 or float every word of the pattern is NaN, so that a kernel that
        computes with what it reads out of bounds gives itself away.
        """
        words = self._random.integers(0xFF81, 0x10000, size // 2, dtype=np.uint16)
        image = words.view(np.uint8)
        for p in placed:
            image[p.start : p.end] = np.frombuffer(p.buffer.content, np.uint8)
        return image

    def _launch(self, kernel: Kernel, placed: list[_Placed]) -> Launch:
        addresses = {p.buffer.name: self._memory + p.start for p in placed}
        return bind(self._driver, self._module, kernel, addresses)

    def _reserve(self, size: int) -> None:
        if size > self._size:
            if self._memory:
                self._driver.free(self._memory)
                self._memory = self._size = 0
            wanted = max(size, _SPARE)
            self._memory = self._driver.allocate(wanted)
            self._size = wanted


def run_together(driver: Driver, launches: list[Launch]) -> None:
    """Runs launches as a graph: a host that queues them one by one would be later than they are."""
    graph = driver.build_graph(launches)
    try:
        driver.run_graph(graph)
        driver.wait()
    finally:
        driver.free_graph(graph)


def bind(driver: Driver, module: int, kernel: Kernel, addresses: dict[str, int]) -> Launch:
    """A launch with the addresses of its buffers filled in."""
    packed = bytearray(kernel.parameters)
    for offset, name in kernel.pointers:
        (distance,) = struct.unpack_from("<q", packed, offset)
        struct.pack_into("<Q", packed, offset, (addresses[name] + distance) % (1 << 64))
    function = driver.function(module, kernel.symbol, kernel.shared_bytes)
    return Launch(
        function,
        kernel.grid,
        kernel.block,
        kernel.shared_bytes,
        bytes(packed),
        kernel.pdl,
        kernel.cluster,
    )


def _place(buffers: tuple[CaseBuffer, ...]) -> tuple[list[_Placed], int]:
    """Buffers one after the other, with a red zone before, between and after them."""
    at = 0
    placed = []
    for buffer in buffers:
        at = _aligned(at + RED_ZONE_BYTES) + buffer.misalignment
        placed.append(_Placed(buffer, at, at + len(buffer.content)))
        at += len(buffer.content)
    return placed, _aligned(at + RED_ZONE_BYTES)


def _aligned(offset: int) -> int:
    return -(-offset // BASE_ALIGNMENT) * BASE_ALIGNMENT


def _overruns(placed: list[_Placed], before: Any, after: Any) -> dict[str, int]:
    """For every changed byte outside the buffers, its distance to the nearest of them."""
    changed = before != after
    for p in placed:
        changed[p.start : p.end] = False
    found: dict[str, int] = {}
    for place in np.flatnonzero(changed)[:4096].tolist():
        name, distance = min(
            ((p.buffer.name, _distance(p, place)) for p in placed), key=lambda pair: abs(pair[1])
        )
        if name not in found or abs(distance) < abs(found[name]):
            found[name] = distance
    return found


def _distance(p: _Placed, place: int) -> int:
    """Bytes before the buffer (negative) or past its last byte (positive, from 1)."""
    return place - p.start if place < p.start else place - p.end + 1
