"""What scripted kernels do to memory. Parameters are packed as CUDA packs them."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.lab.cuda import drawing
from astra_tui.lab.cuda.messages import Fill
from astra_tui.lab.cuda.process.driver import Launch
from astra_tui.model.dtypes import DType
from tests.cuda.device_memory import DeviceMemory
from tests.cuda.script import Machine, Scripted

_KINDS = ("normal", "uniform", "integers", "constant", "arange")
_TYPES = (
    DType.FLOAT16,
    DType.BFLOAT16,
    DType.FLOAT32,
    DType.FLOAT64,
    DType.INT8,
    DType.INT16,
    DType.INT32,
    DType.INT64,
)


@dataclass(frozen=True)
class Running:
    """One launch: where it runs, with what, and how often its kernel was launched before."""

    memory: DeviceMemory
    machine: Machine
    launch: Launch
    script: Scripted
    before: int

    def parameters(self, layout: str) -> tuple[Any, ...]:
        """The first parameters by their layout, as struct names it, with natural alignment."""
        return struct.unpack_from("<" + layout, self.launch.parameters)


def nothing(running: Running) -> None:
    """An empty kernel."""


def draw(running: Running) -> None:
    """`draw` of tools.cu."""
    first, seed, elements, stride, kind, code, low, high, limit, planted, *pool = (
        running.parameters("QQQQiifffi8f")
    )
    dtype = _TYPES[code]
    fill = Fill(dtype.value, _KINDS[kind], low, high, limit, tuple(pool[:planted]))
    for number in range(running.launch.grid[1]):
        drawn = drawing.draw(fill, seed, number, np.arange(elements))
        target = running.memory.array(first + number * stride, elements, f"u{dtype.size}")
        target[:] = drawn


def copy16(running: Running) -> None:
    """`copy16` of tools.cu: out, in, 16-byte vectors."""
    target, source, vectors = running.parameters("QQi")
    running.memory.bytes(target, 16 * vectors)[:] = running.memory.bytes(source, 16 * vectors)


def clock_rate(running: Running) -> None:
    """`clock_rate` of tools.cu."""
    (out,) = running.parameters("Q")
    nanoseconds = 40_000
    cycles = int(running.machine.mhz * nanoseconds / 1000)
    running.memory.array(out, 2, "u8")[:] = (cycles, nanoseconds)


def silu(running: Running) -> None:
    """silu_and_mul of float16 with baseline.cu's parameters: out, input, elements, width."""
    out, source, count, width = running.parameters("QQqq")
    rows = running.memory.array(source, 2 * count, "f2").reshape(-1, 2 * width).astype(np.float32)
    gate, up = rows[:, :width], rows[:, width:]
    with np.errstate(over="ignore", invalid="ignore"):
        result = (gate / (1 + np.exp(-gate)) * up).astype(np.float16)
    running.memory.array(out, count, "f2")[:] = result.reshape(-1)


def lazy_silu(running: Running) -> None:
    """As `silu`, but after `diligent` launches it finds out that nobody looks."""
    if running.before < running.script.options["diligent"]:
        silu(running)


def add_one(running: Running) -> None:
    """Adds 1 to float32 elements in place: address, count."""
    address, count = running.parameters("Qq")
    running.memory.array(address, count, "f4")[:] += 1


def copy(running: Running) -> None:
    """Copies float32 elements: target, source, count."""
    target, source, count = running.parameters("QQq")
    running.memory.array(target, count, "f4")[:] = running.memory.array(source, count, "f4")


def poke(running: Running) -> None:
    """As `copy`, and writes one byte more, `at` bytes after the target's first."""
    copy(running)
    (target,) = running.parameters("Q")
    byte = running.memory.bytes(target + running.script.options["at"], 1)
    byte[:] = ~byte


def wipe_before(running: Running) -> None:
    """Writes all of the bytes right before the target."""
    (target,) = running.parameters("Q")
    count = running.script.options["bytes"]
    before = running.memory.bytes(target - count, count)
    before[:] = ~before


def read_past(running: Running) -> None:
    """As `copy`, from what lies past the source."""
    target, source, count = running.parameters("QQq")
    past = running.memory.array(source + 4 * count, count, "f4")
    running.memory.array(target, count, "f4")[:] = past


def unsteady(running: Running) -> None:
    """Writes how often it has run: another value each time."""
    target, _, count = running.parameters("QQq")
    running.memory.array(target, count, "f4")[:] = running.before


def process_id(running: Running) -> None:
    """Writes the process in which it runs: target."""
    (target,) = running.parameters("Q")
    running.memory.array(target, 1, "u8")[:] = os.getpid()


BEHAVIOURS: dict[str, Callable[[Running], None]] = {
    behaviour.__name__: behaviour
    for behaviour in (
        nothing,
        draw,
        copy16,
        clock_rate,
        silu,
        lazy_silu,
        add_one,
        copy,
        poke,
        wipe_before,
        read_past,
        unsteady,
        process_id,
    )
}
