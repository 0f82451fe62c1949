"""Our own kernels, loaded."""

from __future__ import annotations

from astra_tui.gpu.process.driver import Driver


class Tools:
    """The kernels of tools.cu by name."""

    def __init__(self, driver: Driver, cubin: bytes, symbols: dict[str, str]):
        self._driver = driver
        self._module = driver.load(cubin)
        self._symbols = symbols

    def function(self, name: str) -> int:
        """A kernel, by the name that tools.cu gives it."""
        return self._driver.function(self._module, self._symbols[name], 0)
