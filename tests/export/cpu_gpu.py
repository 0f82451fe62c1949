"""Stands in for a package's _gpu.py: the CPU is device 0, and what is asked is written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

current = 0
stream = 0x77
made_current: list[int] = []


def current_device() -> int:
    """The device that the test says is current."""
    return current


def capturing() -> bool:
    """No CUDA graph is captured here."""
    return False


def ordinal_of(device: torch.device) -> int | None:
    """0 for the CPU."""
    return 0 if device.type == "cpu" else None


@contextmanager
def on(ordinal: int) -> Iterator[None]:
    """Writes down a switch of devices."""
    made_current.append(ordinal)
    yield


def current_stream(ordinal: int) -> int:
    """The stream that the test says is current."""
    return stream + ordinal
