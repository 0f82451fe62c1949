"""Readings of NVML as events of the session, but none while replays are timed."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


def process_tree(pid: int, proc: Path = Path("/proc")) -> frozenset[int]:
    """Ids of the children of a process, of their children and so on; none where /proc is not."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in proc.glob("[0-9]*/stat"):
        try:
            # The name before it is in parentheses, and may hold some itself.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            children[int(fields[1])].append(int(stat.parent.name))
        except (OSError, IndexError, ValueError):  # It has ended meanwhile.
            continue
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in found]
        found.update(new)
        waiting.extend(new)
    return frozenset(found)
