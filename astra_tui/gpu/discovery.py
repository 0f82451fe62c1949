"""Finds the GPUs of this machine without loading CUDA into this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_tui.gpu.gpu_process import GpuFailure, list_devices
from astra_tui.gpu.messages import DeviceFacts

_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""Of NVIDIA's driver on Linux, and of the one that WSL passes through."""


@dataclass(frozen=True)
class Found:
    """The devices, or why there is none."""

    devices: tuple[DeviceFacts, ...]
    problem: str = ""
    has_driver: bool = True


def find_devices() -> Found:
    """The GPUs that CUDA can use here."""
    if not any(Path(file).exists() for file in _DEVICE_FILES):
        return Found((), "no NVIDIA driver is loaded", has_driver=False)
    try:
        devices = list_devices()
    except GpuFailure as error:
        return Found((), str(error))
    return Found(devices, "" if devices else "the driver shows no device")
