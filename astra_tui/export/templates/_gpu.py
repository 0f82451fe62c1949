"""What PyTorch says about devices and streams. Devices are named by their ordinals."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

current_device = torch.cuda.current_device
capturing = torch.cuda.is_current_stream_capturing


def ordinal_of(device: torch.device) -> int | None:
    """The ordinal of a GPU, or None for what is none."""
    return device.index if device.type == "cuda" else None


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
