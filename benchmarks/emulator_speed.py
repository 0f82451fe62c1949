"""Times emulated runs of six kernels at 16 x 4096 halves (merge: 512 heads of 128 bfloat16).

    python benchmarks/emulator_speed.py [--repeat N]

The times are those of the emulator on this machine's CPU, not of a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from environment import RESULTS, describe

from astra_tui.emulator.device import Emulator
from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import BufferUse, DeviceBuffer, PackedLaunch

TOKENS, WIDTH = 16, 4096
HEADS, HEAD_DIM = 512, 128
SOURCE = Path(__file__).parent / "kernels" / "rows.cu"


@dataclass(frozen=True)
class Kernel:
    """One kernel with its arguments: buffers with their use, and numbers."""

    name: str
    grid: int
    block: int
    buffers: tuple[tuple[str, BufferUse, Any], ...]
    numbers: tuple[int | float, ...]
    shared_bytes: int = 0


def kernels() -> list[Kernel]:
    """The six kernels on random data."""
    random = np.random.Generator(np.random.Philox(0))

    def halves(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float16)

    undefined, read, both = BufferUse.OUT, BufferUse.IN, BufferUse.INOUT
    activation = (
        ("out", undefined, np.zeros((TOKENS, WIDTH), np.float16)),
        ("in", read, halves(TOKENS, 2 * WIDTH)),
    )
    norm = (
        ("x", both, halves(TOKENS, WIDTH)),
        ("residual", both, halves(TOKENS, WIDTH)),
        ("weight", read, halves(WIDTH)),
    )
    values = random.standard_normal((HEADS, HEAD_DIM)).astype(np.float32)
    bfloats = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    scores = random.standard_normal(HEADS).astype(np.float32)
    merge = (
        ("out", undefined, np.zeros_like(bfloats)),
        ("s_out", undefined, np.zeros_like(scores)),
        ("a", read, bfloats),
        ("s_a", read, scores),
        ("b", read, bfloats[::-1].copy()),
        ("s_b", read, scores[::-1].copy()),
    )
    pieces = HEAD_DIM // 8
    return [
        Kernel("silu_scalar", TOKENS, 256, activation, (WIDTH,)),
        Kernel("silu_half2", TOKENS, 256, activation, (WIDTH // 2,)),
        Kernel("silu_128bit", TOKENS, 256, activation, (WIDTH // 8,)),
        Kernel("norm_tree", TOKENS, 256, norm, (WIDTH, 1e-6)),
        Kernel("norm_shuffle", TOKENS, 256, norm, (WIDTH // 2, 1e-6), WIDTH * 4),
        Kernel("merge", HEADS * pieces // 128, 128, merge, (HEADS, pieces)),
    ]


def launch_of(kernel: Kernel, compilation: Any) -> tuple[PackedLaunch, tuple[DeviceBuffer, ...]]:
    """The packed launch and buffers of a kernel."""
    compiled = compilation.kernel(kernel.name)
    packed = bytearray(compiled.parameter_bytes)
    names, numbers, pointers = [b[0] for b in kernel.buffers], list(kernel.numbers), []
    for parameter in compiled.parameters:
        if parameter.kind == "pointer":
            pointers.append((parameter.offset, names.pop(0)))
        else:
            code = "<f" if parameter.kind == "float" else "<i"
            data = struct.pack(code, numbers.pop(0))
            packed[parameter.offset : parameter.offset + parameter.size] = data
    grid, block = (kernel.grid, 1, 1), (kernel.block, 1, 1)
    launch = PackedLaunch(
        compiled, grid, block, kernel.shared_bytes, bytes(packed), tuple(pointers), 0
    )
    buffers = tuple(
        DeviceBuffer(n, use, np.frombuffer(x.tobytes(), np.uint8)) for n, use, x in kernel.buffers
    )
    return launch, buffers


def main() -> None:
    """Prints a table and writes results/emulator_speed.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with Compiler() as compiler:
        all_kernels = kernels()
        compilation = compiler.compile(SOURCE.read_text(), tuple(k.name for k in all_kernels))
    assert compilation.ok, compilation.errors
    rows = []
    print(f"{'kernel':<14} {'checked':>9} {'bare':>9}   (median ms)")
    for kernel in all_kernels:
        launch, buffers = launch_of(kernel, compilation)
        row: dict[str, Any] = {"kernel": kernel.name}
        for name, checked in (("checked", True), ("bare", False)):
            emulator = Emulator()
            times = []
            for _ in range(repeat + 1):
                begin = time.perf_counter()
                outcome = emulator.run(
                    compilation, (launch,), buffers, checked=checked, counted=checked
                )
                times.append((time.perf_counter() - begin) * 1e3)
            assert not outcome.findings, outcome.findings[0].describe()
            row[name] = {
                "median_ms": round(statistics.median(times[1:]), 2),
                "min_ms": round(min(times[1:]), 2),
                "first_ms": round(times[0], 2),
            }
            if checked:
                row["warp_instructions"] = outcome.counters.warp_instructions
        rows.append(row)
        checked_ms, bare_ms = row["checked"]["median_ms"], row["bare"]["median_ms"]
        print(f"{kernel.name:<14} {checked_ms:9.2f} {bare_ms:9.2f}")
    result = {"environment": describe(), "repeat": repeat, "kernels": rows}
    (RESULTS / "emulator_speed.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
