"""Readings of NVML as events of the session, but none while replays are timed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from astra_tui.gpu.nvml import GpuReader, GpuSampler
from astra_tui.model.events import GpuSampled
from astra_tui.model.gpu import GpuIdentity, GpuSample


class GpuWatch:
    """Samples one GPU four times a second and emits what it reads, on the event loop's thread."""

    def __init__(self, uuid: str, emit: Callable[[GpuSampled], None]):
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._reader = GpuReader(uuid, own_processes=_own_processes, own_are_holders=False)
        self._sampler = GpuSampler(self._reader.sample, self._sampled)

    def start(self) -> GpuIdentity:
        """Begins sampling; what the GPU is."""
        identity = self._reader.identity()
        self._sampler.start()
        return identity

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No reading inside, as round a timed block."""
        with self._sampler.paused():
            yield

    def close(self) -> None:
        """Ends sampling; a reading that hangs is left behind."""
        self._sampler.close()
        self._reader.close()

    def _sampled(self, sample: GpuSample) -> None:
        self._loop.call_soon_threadsafe(self._emit, GpuSampled(sample))


def _own_processes() -> frozenset[int]:
    return process_tree(os.getpid())


def process_tree(pid: int) -> frozenset[int]:
    """Ids of the children of a process, of their children and so on; none where it has ended."""
    import psutil  # Late: on a GPU only.

    try:
        return frozenset(child.pid for child in psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return frozenset()
