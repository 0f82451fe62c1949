"""Scripted candidates, and cases to run them on."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from astra_tui.gpu.tools import ToolKernels
from astra_tui.model.compilation import Compilation, CompiledKernel, Resources
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch
from tests.gpu.script import Machine, Script, Scripted

MODULE = "tests.gpu.scripted_process"
LONG = 600.0
"""A deadline that no test reaches."""

COUNT = 64
"""Float32 elements of the buffers here."""

_TOOLS = {
    "draw": Scripted("draw", us=1.0),
    "digest": Scripted("digest", us=1.0),
    "copy16x1": Scripted("copy16", us=20.0),
    "copy16x4": Scripted("copy16", us=25.0),
    "empty": Scripted("nothing", us=2.0),
    "spin": Scripted("nothing", us=200.0),
    "clock_rate": Scripted("clock_rate", us=40.0),
    "stash": Scripted("stash", us=1.0),
    "spoil": Scripted("spoil", us=1.0),
    "produce": Scripted("produce", us=1.0),
    "set_word": Scripted("set_word", us=1.0),
}


def scripted_tools(machine: Machine | None = None) -> ToolKernels:
    """Our own kernels, and the machine on which they and the candidates run."""
    symbols = {name: f"tool_{name}" for name in _TOOLS}
    script = Script({symbols[name]: k for name, k in _TOOLS.items()}, machine or Machine())
    return ToolKernels(script.cubin(), symbols)


def candidate(kernel: Scripted, nonce: str = "") -> Compilation:
    """A source with one scripted kernel, `k`."""
    compiled = CompiledKernel("k", "k", (), 24, Resources(0, 0, 0, 0, 0, 0))
    script = Script({"k": kernel}, nonce=nonce)
    return Compilation((), (compiled,), "", script.cubin(), "sm_90a", "scripted", 0.0)


def launch(
    compilation: Compilation, count: int = COUNT, grid: int = 1, shared_bytes: int = 0
) -> PackedLaunch:
    """k(out, source, count)."""
    parameters = struct.pack("<QQq", 0, 0, count)
    kernel, pointers = compilation.kernel("k"), ((0, "out"), (8, "source"))
    return PackedLaunch(
        kernel, (grid, 1, 1), (32, 1, 1), shared_bytes, parameters, pointers, line=1
    )


def source_values(count: int = COUNT) -> Any:
    """What the input holds."""
    return np.arange(count, dtype=np.float32)


def buffers(count: int = COUNT, misalignment: int = 0) -> tuple[DeviceBuffer, ...]:
    """An output, poisoned, and an input."""
    poison = np.full(4 * count, 0xFF, np.uint8)
    return (
        DeviceBuffer("out", ArgumentRole.OUT, poison, misalignment),
        DeviceBuffer("source", ArgumentRole.IN, source_values(count).view(np.uint8)),
    )
