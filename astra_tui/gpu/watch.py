"""Looks at the GPU through NVML before and after a measurement, and says what to caveat."""

from __future__ import annotations

from collections.abc import Callable, Collection

from astra_tui.gpu.nvml import EnergyMeter, GpuReader
from astra_tui.gpu.timing.validity import caveats_of_block
from astra_tui.model.gpu import GpuCounters, GpuIdentity, GpuSample
from astra_tui.model.timing import Caveat
from astra_tui.processes.shared_device import shared_device


class Watch:
    """The gates of gpu/timing/validity.py on one GPU. `begin`, measure, `end`.

    The process that measures has the GPU alone, so that other processes of this user rest there.
    """

    def __init__(self, uuid: str, own_processes: Callable[[], Collection[int]] = tuple):
        resting = shared_device(uuid).holders
        self.reader = GpuReader(uuid, own_processes=own_processes, resting=resting)
        self.identity: GpuIdentity = self.reader.identity()
        self._before = self._look()

    def begin(self) -> None:
        """Right before the first timed replay."""
        self._before = self._look()

    def end(self, sm_mhz: float | None) -> tuple[Caveat, ...]:
        """Right after the last; `sm_mhz` is the clock that a kernel read under load."""
        counters, sample = self._before
        samples = (sample, self.reader.sample())
        return caveats_of_block(self.identity, samples, sm_mhz, (counters, self.reader.counters()))

    def energy_meter(self) -> EnergyMeter:
        """Measures the energy of blocks on this GPU."""
        return EnergyMeter(self.reader.counters)

    def close(self) -> None:
        """Releases NVML."""
        self.reader.close()

    def _look(self) -> tuple[GpuCounters, GpuSample]:
        return self.reader.counters(), self.reader.sample()
