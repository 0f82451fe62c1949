"""Runs a plain kernel on the emulator: arrays in, arrays and findings out."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.emulator.device import Emulator
from astra_tui.lab.compiler import Compiler
from astra_tui.model.counters import Counters
from astra_tui.model.device import PLAIN, ArgumentRole, DeviceBuffer, PackedLaunch, Variation
from astra_tui.model.findings import Finding
from astra_tui.model.traffic import ArgumentTraffic

_FORMATS = {"int": "<i", "unsigned int": "<I", "long long": "<q", "float": "<f", "double": "<d"}


@dataclass(frozen=True)
class Ran:
    """The result of one kernel: the buffers afterwards, and what was found and counted."""

    arrays: Mapping[str, Any]
    findings: tuple[Finding, ...]
    counters: Counters
    traffic: tuple[ArgumentTraffic, ...]

    def __getitem__(self, name: str) -> Any:
        assert not self.findings, self.findings[0].describe()
        return self.arrays[name]


def run_kernel(
    compiler: Compiler,
    source: str,
    arguments: Sequence[Any],
    *,
    kernel: str = "k",
    grid: int | tuple[int, ...] = 1,
    block: int | tuple[int, ...] = 32,
    shared_bytes: int = 0,
    read_only: Sequence[int] = (),
    undefined: Sequence[int] = (),
    checked: bool = True,
    traffic: bool = False,
    budget: int = 300_000,
    variation: Variation = PLAIN,
    cluster: int | tuple[int, ...] = 1,
) -> Ran:
    """Compiles and runs one kernel. Arrays become buffers a0, a1, ..., numbers are passed by value.

    `read_only` and `undefined` are positions of arrays that are inputs, or outputs that begin
    undefined; the others may be read and written.
    """
    compilation = compiler.compile(source, (kernel,))
    assert compilation.ok, compilation.errors
    compiled = compilation.kernels[0]
    packed = bytearray(max(compiled.parameter_bytes, 1))
    pointers, buffers, shapes = [], [], {}
    for number, (parameter, value) in enumerate(zip(compiled.parameters, arguments, strict=True)):
        if parameter.kind != "pointer":
            data = struct.pack(_FORMATS[parameter.type], value)
            packed[parameter.offset : parameter.offset + parameter.size] = data
            continue
        name = f"a{number}"
        use = ArgumentRole.IN if number in read_only else ArgumentRole.INOUT
        use = ArgumentRole.OUT if number in undefined else use
        array = np.ascontiguousarray(value)
        shapes[name] = array
        pointers.append((parameter.offset, name))
        buffers.append(DeviceBuffer(name, use, array.reshape(-1).view(np.uint8)))
    launch = PackedLaunch(
        compiled,
        _three(grid),
        _three(block),
        shared_bytes,
        bytes(packed),
        tuple(pointers),
        1,
        cluster=_three(cluster),
    )
    outcome = Emulator(budget).run(
        compilation,
        (launch,),
        tuple(buffers),
        checked=checked,
        traffic=traffic,
        variation=variation,
    )
    arrays = {
        name: outcome.contents[name].view(array.dtype).reshape(array.shape)
        for name, array in shapes.items()
    }
    return Ran(arrays, outcome.findings, outcome.counters, outcome.traffic)


def _three(sizes: int | tuple[int, ...]) -> tuple[int, int, int]:
    padded = (*(sizes if isinstance(sizes, tuple) else (sizes,)), 1, 1)
    return padded[0], padded[1], padded[2]


def line_of(source: str, mark: str) -> int:
    """The line of a source that holds a mark."""
    return next(n for n, text in enumerate(source.splitlines(), 1) if mark in text)
