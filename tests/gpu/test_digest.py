"""`digest` of tools.cu, compiled by the real NVRTC and run on the emulator, against its twin."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.gpu.tools import tools_source
from astra_tui.lab.compiler import Compiler
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch
from tests.gpu.behaviours import digest_of

STRIDE, SETS = 1024, 2
KEY = 0xFEDC_BA98_7654_3210


@pytest.fixture(scope="module")
def tool(compiler: Compiler) -> Compilation:
    compiled = compiler.compile(tools_source(), ("digest",))
    assert compiled.ok, compiled.errors
    return compiled


def by_kernel(tool: Compilation, data: np.ndarray, size: int) -> np.ndarray:
    parameters = struct.pack("<QQQQQ", 0, STRIDE, size, KEY, 0)
    pointers = ((0, "data"), (32, "out"))
    launch = PackedLaunch(
        tool.kernel("digest"), (2, SETS, 1), (256, 1, 1), 0, parameters, pointers, 1
    )
    buffers = (
        DeviceBuffer("data", ArgumentRole.IN, data.reshape(-1)),
        DeviceBuffer("out", ArgumentRole.INOUT, np.zeros(8 * SETS, np.uint8)),
    )
    outcome = Emulator().run(tool, (launch,), buffers, checked=False)
    assert not outcome.faults, outcome.faults
    return np.ascontiguousarray(outcome.contents["out"]).view(np.uint64)


@pytest.mark.parametrize("size", [1, 15, 16, 34, 1024])
def test_kernel_and_twin_agree_and_every_byte_counts(tool: Compilation, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, (SETS, STRIDE), np.uint8)
    found = by_kernel(tool, data, size)
    assert found.tolist() == [int(digest_of(row[:size], KEY)) for row in data]
    changed = data.copy()
    changed[1, size - 1] ^= 1
    again = by_kernel(tool, changed, size)
    assert (again[0], again[1] == found[1]) == (found[0], False)
