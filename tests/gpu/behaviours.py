"""What scripted kernels do to memory. Parameters are packed as CUDA packs them."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from astra_tui.gpu import drawing
from astra_tui.gpu.messages import Fill
from astra_tui.gpu.process.driver import Launch
from astra_tui.model.dtypes import DType
from tests.gpu.device_memory import DeviceMemory
from tests.gpu.script import Machine, Scripted

_KINDS = ("normal", "uniform", "integers", "constant", "arange")
_TYPES = {drawing.type_code(dtype): dtype for dtype in reversed(DType)}

_KEPT_BYTES = 1 << 16
"""What was computed of so few bytes is kept: a timing launches the same thousands of times."""


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
    first, seed, elements, stride, kind, code, low, high, limit, planted, *pool, group, apart = (
        running.parameters("QQQQiidddi4x8dQQ")
    )
    dtype = _TYPES[code]
    fill = Fill(dtype.value, _KINDS[kind], low, high, limit, tuple(pool[:planted]), group, apart)
    for number in range(running.launch.grid[1]):
        items = elements // dtype.per_item
        drawn = drawing.draw(fill, seed, number, np.arange(items))
        target = running.memory.array(first + number * stride, items, f"u{dtype.size}")
        target[:] = drawn


def digest(running: Running) -> None:
    """`digest` of tools.cu."""
    first, stride, size, key, out = running.parameters("QQQQQ")
    sets = running.launch.grid[1]
    sums = running.memory.array(out, sets, "u8")
    for number in range(sets):
        with np.errstate(over="ignore"):
            data = running.memory.bytes(first + number * stride, size)
            few = size <= _KEPT_BYTES
            sums[number] += _digest_of_few(data.tobytes(), key) if few else digest_of(data, key)


@lru_cache(256)
def _digest_of_few(data: bytes, key: int) -> Any:
    return digest_of(np.frombuffer(data, np.uint8), key)


def digest_of(data: Any, key: int) -> Any:
    """What `digest` of tools.cu makes of some bytes."""
    pairs = data.size // 16 * 16
    words = np.concatenate([data[:pairs].copy().view(np.uint64), data[pairs:].astype(np.uint64)])
    places = np.arange(words.size, dtype=np.uint64)
    places[pairs // 8 :] += np.uint64(pairs)
    with np.errstate(over="ignore"):
        mixed = drawing._mix((words ^ np.uint64(key)) + np.uint64(0xD1342543DE82EF95) * places)
        return mixed.sum(dtype=np.uint64)


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


def stash(running: Running) -> None:
    """`stash` of tools.cu."""
    for buffer in produced(running):
        buffer.copy[buffer.copied] = buffer.data[buffer.written]


def spoil(running: Running) -> None:
    """`spoil` of tools.cu."""
    byte = running.parameters("34Q")[33]
    for buffer in produced(running):
        if not buffer.is_output:
            buffer.data[buffer.written] = byte


def produce(running: Running) -> None:
    """`produce` of tools.cu; the driver sees to it that a late one comes late."""
    (cycles,) = running.memory.array(running.parameters("34Q")[33], 1, "u8").tolist()
    for buffer in produced(running):
        if not buffer.is_output:
            buffer.data[buffer.written] = buffer.copy[buffer.copied]
        elif cycles:
            buffer.data[buffer.written] = 0xFF


class Produced(NamedTuple):
    """The bytes of a buffer of one set that a producer writes, and where it has a copy of them."""

    data: Any
    written: Any
    copy: Any
    copied: Any
    is_output: bool


def produced(running: Running) -> Sequence[Produced]:
    """What `piece_of` of tools.cu gives, buffer by buffer and set by set."""
    views, launch = running.memory.views, running.launch
    key = launch.parameters, launch.grid[1]
    if key not in views:
        views[key] = tuple(_produced(running))
    return views[key]


def _produced(running: Running) -> Iterator[Produced]:
    *spans, pieces, first_set, copies, _ = running.parameters("34Q")
    rows = [spans[i : i + 5] for i in range(0, 30, 5) if spans[i + 2]]
    ends = [*(row[3] for row in rows[1:]), pieces]
    for (address, stride, size, first, group), end in zip(rows, ends, strict=True):
        written, copied = _pieces(first, end, size, group & ~(1 << 63))
        for row in range(running.launch.grid[1]):
            data = running.memory.bytes(address + (first_set + row) * stride, size)
            place = copies + row * pieces * 32
            copy = running.memory.bytes(place, pieces * 32) if copies else None
            yield Produced(data, written, copy, copied, group >> 63 == 1)


@cache
def _pieces(first: int, end: int, size: int, step: int) -> tuple[Any, Any]:
    """Bytes of a buffer that its pieces hold, and the places of these among all pieces."""
    numbers = np.arange(first, end)
    begin = (numbers - first) * step * 32
    drawn = begin + 32 * (drawing._mix(numbers.astype(np.uint64)) % np.uint64(step)).astype(int)
    bytes_ = np.where(drawn < size, drawn, begin)[:, None] + np.arange(32)
    places = (numbers * 32)[:, None] + np.arange(32)
    return bytes_[bytes_ < size], places[bytes_ < size]


def set_word(running: Running) -> None:
    """`set_word` of tools.cu."""
    address, value = running.parameters("QQ")
    running.memory.array(address, 1, "u8")[:] = value


def silu(running: Running) -> None:
    """silu_and_mul of float16 with baseline.cu's parameters: out, input, elements, width.

    Options make it leave out a row, write past its output, or change its input.
    """
    options = running.script.options
    out, source, count, width = running.parameters("QQqq")
    values = running.memory.array(source, 2 * count, "f2")
    few = values.nbytes <= _KEPT_BYTES
    result = _silu_of_few(values.tobytes(), width) if few else _silu_of_many(_Many(values), width)
    target = running.memory.array(out, count, "f2").reshape(-1, width)
    if "leaves_out" in options:
        written = np.arange(len(target)) != options["leaves_out"]
        target[written] = result[written]
    else:
        target[:] = result
    if "writes_past" in options:
        running.memory.bytes(out + 2 * count, 1)[:] += 1
    if "writes_input" in options:
        running.memory.bytes(source, 1)[:] += 1


@lru_cache(256)
def _silu_of_few(data: bytes, width: int) -> Any:
    return _silu_of(np.frombuffer(data, np.float16), width)


class _Many:
    """Elements that their digest tells from others, so that no copy of them is kept."""

    def __init__(self, values: Any):
        self.values = values
        self._digest = hashlib.sha1(values.view(np.uint8), usedforsecurity=False).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Many) and self._digest == other._digest


@lru_cache(16)
def _silu_of_many(many: _Many, width: int) -> Any:
    return _silu_of(many.values, width)


def _silu_of(values: Any, width: int) -> Any:
    rows = values.reshape(-1, 2 * width).astype(np.float32)
    gate, up = rows[:, :width], rows[:, width:]
    with np.errstate(over="ignore", invalid="ignore"):
        return (gate / (1 + np.exp(-gate)) * up).astype(np.float16)


def skipping_silu(running: Running) -> float | None:
    """As `silu`, but leaves alone what is right already; as a share of its time."""
    out, _, count, _ = running.parameters("QQqq")
    before = running.memory.array(out, count, "u2").copy()
    silu(running)
    is_right = np.array_equal(running.memory.array(out, count, "u2"), before)
    return 0.4 if is_right else None


def picky_silu(running: Running) -> None:
    """As `silu`, but one row less from launch `after` on where its set's address says so."""
    out, _, _, width = running.parameters("QQqq")
    silu(running)
    options = running.script.options
    if running.before >= options.get("after", 0) and out // options["of"] % 8 == 5:
        running.memory.array(out + 2 * width, width, "u2")[:] ^= 0x0400


def adding_silu(running: Running) -> None:
    """As `silu`, with last bits that differ from run to run, as those of atomic sums do."""
    out, _, count, _ = running.parameters("QQqq")
    silu(running)
    is_small = np.abs(running.memory.array(out, count, "f2")) < 0.5
    running.memory.array(out, count, "u2")[is_small] ^= running.before * 40503 >> 12 & 1


def lazy_silu(running: Running) -> None:
    """As `silu`, but after `diligent` launches it finds out that no one looks."""
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


BEHAVIOURS: dict[str, Callable[[Running], float | None]] = {
    behaviour.__name__: behaviour
    for behaviour in (
        nothing,
        draw,
        digest,
        copy16,
        clock_rate,
        stash,
        spoil,
        produce,
        set_word,
        silu,
        lazy_silu,
        skipping_silu,
        picky_silu,
        adding_silu,
        add_one,
        copy,
        poke,
        wipe_before,
        read_past,
        unsteady,
        process_id,
    )
}
