"""The devices by the names that `--device` gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from astra_tui.gpu.gpu_process import find_devices
from astra_tui.gpu.messages import DeviceFacts
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.opening import Gpu, find_gpu, identify, open_gpu
from astra_tui.model.device import Device
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.settings import AUTO_DEVICE, EMULATOR, check_device_name
from astra_tui.processes.confine import limit_memory

MEMORY_LIMIT = 16 << 30
"""What a process that emulates may allocate. Its children have limits of their own."""


_NO_GPU = GpuIdentity()


@dataclass(frozen=True)
class DeviceChoice:
    """A device that is there: "emulator" or "cuda:N"."""

    name: str = EMULATOR
    facts: DeviceFacts | None = None
    """What CUDA tells of a GPU that is here."""
    far: GpuIdentity | None = None
    """What workers tell of a GPU that they have."""

    @property
    def uuid(self) -> str:
        """That of its GPU; "" on the emulator."""
        return (self.far or self.facts or _NO_GPU).uuid or ""

    @property
    def kind(self) -> str:
        """The name of its GPU; "" on the emulator."""
        return (self.far or self.facts or _NO_GPU).name or ""

    def identify(self) -> GpuIdentity | None:
        """What its GPU is; None on the emulator."""
        return self.far if self.facts is None else identify(self.facts)


def choose_device(name: str) -> DeviceChoice:
    """The device that a name means here: `auto` is the first GPU, else the emulator.

    Raises UserError for a device that is not there.
    """
    check_device_name(name)
    if name == EMULATOR:
        return DeviceChoice()
    if name != AUTO_DEVICE:
        return _choice(find_gpu(name))
    found = find_devices().devices
    return _choice(found[0]) if found else DeviceChoice()


def _choice(facts: DeviceFacts) -> DeviceChoice:
    return DeviceChoice(f"cuda:{facts.ordinal}", facts)


@dataclass(frozen=True)
class Opened:
    """A device that runs cases; `gpu` is there if it can be timed as well."""

    device: Device
    gpu: Gpu | None = None


@contextmanager
def open_device(name: str, compiler: Compiler) -> Iterator[Opened]:
    """Opens a device and makes the compiler compile for it.

    Raises UserError for a device that is not there, CompilerUnavailable.
    """
    limit_memory(MEMORY_LIMIT)
    chosen = choose_device(name)
    if chosen.name == EMULATOR:
        from astra_tui.emulator.device import Emulator

        yield Opened(Emulator())
        return
    from astra_tui.gpu.device import CudaDevice

    gpu = open_gpu(find_gpu(chosen.name), compiler)
    with CudaDevice(gpu.facts, gpu.tools) as device:
        yield Opened(device, gpu)
