"""What PyTorch says about devices and streams. Devices are named by their ordinals."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

current_device = torch.cuda.current_device


def holds(device: torch.device) -> bool:
    """Whether tensors on this device are in the memory of a GPU that the driver knows."""
    return bool(device.type == "cuda")


def on(ordinal: int) -> AbstractContextManager[None]:
    """Makes a device current for a while."""
    chosen: AbstractContextManager[None] = torch.cuda.device(ordinal)
    return chosen


def _current_stream(ordinal: int) -> int:
    return int(torch.cuda.current_stream(ordinal).cuda_stream)


current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _current_stream)
"""The handle of the stream that is current on a device, without an object of Python around it.

Not documented, but what the code that torch.compile writes calls before each of its launches.
"""
