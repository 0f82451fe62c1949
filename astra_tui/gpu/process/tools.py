"""Our own kernels, loaded; among them the clock of the multiprocessors and a delay."""

from __future__ import annotations

import struct

import numpy as np

from astra_tui.gpu.process.driver import Driver, Launch


class Tools:
    """The kernels of tools.cu by name."""

    def __init__(self, driver: Driver, cubin: bytes, symbols: dict[str, str]):
        self._driver = driver
        self._module = driver.load(cubin)
        self._symbols = symbols

    def function(self, name: str) -> int:
        """A kernel, by the name that tools.cu gives it."""
        return self._driver.function(self._module, self._symbols[name], 0)


_ONE = (1, 1, 1)


class ClockProbe:
    """Reads cycles and nanoseconds over the same 40 microseconds."""

    def __init__(self, driver: Driver, tools: Tools):
        self._driver = driver
        self._memory = driver.allocate(16)
        self._launch = Launch(
            tools.function("clock_rate"), _ONE, _ONE, 0, struct.pack("<Q", self._memory)
        )

    def start(self) -> None:
        """Queues a reading, in stream order."""
        self._driver.launch(self._launch)

    def read(self) -> float:
        """Megahertz of the last reading."""
        cycles, nanoseconds = self._driver.download(self._memory, 16).view(np.uint64).tolist()
        return 1000.0 * cycles / nanoseconds if nanoseconds else 0.0

    def free(self) -> None:
        """Gives the memory back."""
        self._driver.free(self._memory)


def queue_delay(driver: Driver, tools: Tools, cycles: int) -> None:
    """Queues a kernel that does nothing for so many cycles."""
    driver.launch(Launch(tools.function("spin"), _ONE, _ONE, 0, struct.pack("<q", cycles)))
