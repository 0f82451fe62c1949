"""What no kernel goes below on this GPU: an empty launch, and a copy of as many bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec
import numpy as np

from astra_tui.gpu.gpu_process import GpuProcess
from astra_tui.gpu.messages import (
    Block,
    Build,
    Built,
    DeviceFacts,
    Fill,
    Kernel,
    Prepare,
    Prepared,
    Rounds,
    SetBuffer,
    Version,
)
from astra_tui.gpu.timing.pairing import PairedRounds
from astra_tui.gpu.timing.schedule import GraphSize, cold_size, mirrored_orders, takes_single
from astra_tui.gpu.tools import ToolKernels
from astra_tui.lab.cache import ContentCache, content_key
from astra_tui.model.device import ArgumentRole
from astra_tui.model.timing import Caveat, Floor

ROUNDS = 20
_VERSION = "2"
_VECTOR = 16
_THREADS = 256
_NOISE = Fill("float16", "normal", 0.0, 1.0, 0.0, ())
SECONDS = 60.0


MIN_SHARE_OF_LAUNCH = 0.9
"""Of the time of an empty launch that any launch takes, with room for noise."""
MIN_SHARE_OF_PEAK = 0.98
"""Of the time at peak bandwidth; the clock of the memory is known to the megahertz."""


def floor_caveats(
    floor: Floor,
    launch_us: float,
    size: GraphSize,
    facts: DeviceFacts,
    produced_bytes: int = 0,
) -> Iterator[Caveat]:
    """Caveats that void a time that no kernel can reach.

    Launches are cold, so what has to be moved crosses the memory's pins, but for what L2 holds at
    the end of a replay: results that are still to be written back. `produced_bytes` are what a
    producer just before each launch left in L2.
    """
    if launch_us < MIN_SHARE_OF_LAUNCH * floor.launch_us:
        text = f"{launch_us:.2f} us are less than an empty launch takes ({floor.launch_us:.2f} us)"
        yield Caveat("below_floor", text, invalidates=True)
    if facts.peak_bytes_per_us <= 0 or not size.is_cold:
        return
    kept = facts.attributes["l2_cache_bytes"] / (2 * size.launches)
    least = (floor.compulsory_bytes - kept - produced_bytes) / facts.peak_bytes_per_us
    if launch_us < MIN_SHARE_OF_PEAK * least:
        text = (
            f"{launch_us:.2f} us are less than the {floor.compulsory_bytes} bytes that have to be "
            f"moved take at the memory's peak ({least:.2f} us)"
        )
        yield Caveat("below_floor", text, invalidates=True)


class Floors:
    """Floors by compulsory bytes, measured once for each GPU and driver and kept on disk."""

    def __init__(
        self,
        process: GpuProcess,
        facts: DeviceFacts,
        tools: ToolKernels,
        cache: ContentCache | None = None,
    ):
        self._process = process
        self._facts = facts
        self.tools = tools
        self._cache = cache or ContentCache("floors")

    def of(self, compulsory_bytes: int) -> Floor:
        """The floor of a workload that has to move so many bytes. Raises GpuFailure."""
        key = content_key(
            _VERSION, self._facts.uuid, str(self._facts.driver), str(compulsory_bytes)
        )
        stored = self._cache.get(key)
        if stored is not None:
            return msgspec.json.decode(stored, type=Floor)
        floor = self._measure(compulsory_bytes)
        self._cache.put(key, msgspec.json.encode(floor))
        return floor

    def _measure(self, compulsory_bytes: int) -> Floor:
        vectors = max(1, compulsory_bytes // (2 * _VECTOR))
        half = vectors * _VECTOR
        buffers = (
            SetBuffer("in", ArgumentRole.IN, half, half // 2, _NOISE),
            SetBuffer("out", ArgumentRole.OUT, half, half // 2),
        )
        versions = (
            self._copy("copy16x1", 1, vectors),
            self._copy("copy16x4", 4, vectors),
            Version(
                self.tools.cubin,
                (Kernel(self.tools.symbols["empty"], (1, 1, 1), (32, 1, 1), 0, b"", ()),),
            ),
        )
        prepared = self._process.ask(Prepare(buffers, versions, 1), Prepared, SECONDS)
        l2 = self._facts.attributes["l2_cache_bytes"]
        fastest = min(prepared.estimates_us[:2])
        size = cold_size(fastest, 2 * half, l2, prepared.free_bytes)
        build = Build(size.launches, size.sets, size.flush_bytes)
        self._process.ask(build, Built, SECONDS)
        orders = mirrored_orders(len(versions), ROUNDS, np.random.default_rng(1))
        singles = [i for i in range(ROUNDS) if takes_single(i)]
        rows = tuple(tuple(int(v) for v in order) for order in orders)
        request = Rounds(rows, short=tuple(singles))
        self._process.ask(request, Block, SECONDS)  # Clocks come up.
        block = self._process.ask(request, Block, SECONDS)
        rounds = PairedRounds.start(size.launches, len(versions))
        rounds = rounds.add(block.long, block.short, singles)
        copy = min(rounds.launch_us(0), rounds.launch_us(1))
        return Floor(rounds.launch_us(2), copy, compulsory_bytes)

    def _copy(self, name: str, steps: int, vectors: int) -> Version:
        grid = (-(-vectors // (_THREADS * steps)), 1, 1)
        parameters = struct.pack("<QQi", 0, 0, vectors)
        pointers = ((0, "out"), (8, "in"))
        kernel = Kernel(self.tools.symbols[name], grid, (_THREADS, 1, 1), 0, parameters, pointers)
        return Version(self.tools.cubin, (kernel,))
