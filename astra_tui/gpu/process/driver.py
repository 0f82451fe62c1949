"""The seam between what the process does and the CUDA driver API: what is needed, and no more.

Handles are plain integers. Every call raises DriverError when the driver says no.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from astra_tui.gpu.messages import DeviceFacts, Node
from astra_tui.model.occupancy import NO_CLUSTER

STICKY = frozenset({214, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999})
"""Errors after which the context is dead and its process has to go.

Those of which CUDA 13.0's driver_types.h says that the process must be ended (226 to 911), and
uncorrectable ECC errors (214) and unknown ones (999).
"""


class DriverError(Exception):
    """An error of the CUDA driver, with its number and name."""

    def __init__(self, code: int, name: str, call: str):
        super().__init__(f"{call}: {name} ({code})")
        self.code = code
        self.name = name
        self.call = call

    @property
    def is_sticky(self) -> bool:
        """Whether nothing more can be done in this process."""
        return self.code in STICKY


@dataclass(frozen=True)
class Launch:
    """One launch of a loaded kernel with its parameter buffer complete."""

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: bytes
    pdl: bool = False
    """Whether it may begin before the launch before it has ended."""
    cluster: tuple[int, int, int] = NO_CLUSTER
    """Blocks of a thread block cluster by axis."""


class Driver(Protocol):
    """The CUDA driver API, or a stand-in for it in tests."""

    def devices(self) -> list[DeviceFacts]:
        """All devices that this process may use."""

    def open(self, ordinal: int) -> None:
        """Makes the device's context current and opens a stream that does not block."""

    def load(self, cubin: bytes) -> int:
        """Loads a module."""

    def unload(self, module: int) -> None:
        """Forgets a module and its kernels."""

    def function(self, module: int, symbol: str, shared_bytes: int) -> int:
        """A kernel of a module, allowed to use that much dynamic shared memory."""

    def occupancy(self, function: int, threads: int, shared_bytes: int) -> int:
        """Blocks of a kernel that one multiprocessor holds at once."""

    def allocate(self, size: int) -> int:
        """Device memory; addresses are multiples of 256."""

    def free(self, address: int) -> None:
        """Gives memory back."""

    def free_memory(self) -> int:
        """Bytes of device memory that can be allocated."""

    def upload(self, address: int, data: Any) -> None:
        """Copies a contiguous uint8 array to the device, in stream order."""

    def download(self, address: int, size: int) -> Any:
        """Copies from the device into a new uint8 array, after all work of the stream."""

    def download_into(self, address: int, target: Any) -> None:
        """Copies from the device into a uint8 array, in stream order; it is there after `wait`."""

    def copy(self, target: int, source: int, size: int) -> None:
        """Copies within the device, in stream order."""

    def fill(self, address: int, byte: int, size: int) -> None:
        """Sets bytes, in stream order."""

    def launch(self, launch: Launch) -> None:
        """Runs a kernel, in stream order."""

    def build_graph(self, launches: list[Launch]) -> int:
        """A graph in which every launch waits for the one before, ready to run."""

    def run_graph(self, graph: int) -> None:
        """Runs a graph, in stream order."""

    def graph_nodes(self, graph: int) -> list[Node]:
        """The kernels that a graph runs, in order. Raises DriverError for any other node."""

    def free_graph(self, graph: int) -> None:
        """Forgets a graph."""

    def event(self) -> int:
        """An event that can be timed."""

    def free_event(self, event: int) -> None:
        """Forgets an event."""

    def record(self, event: int) -> None:
        """Marks the point that the stream has reached."""

    def elapsed(self, start: int, end: int) -> float:
        """Microseconds between two events, once the second has happened; waits for it."""

    def wait(self) -> None:
        """Waits for all work of the stream."""
