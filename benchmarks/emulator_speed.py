"""Times emulated runs of six kernels at 16 x 4096 halves (merge: 512 heads of 128 bfloat16).

    python benchmarks/emulator_speed.py [--repeat N] [--before CHECKOUT]

The times are CPU times of the emulator, not of a GPU. With another checkout, its emulator runs in
turn with this one's: what else the machine does then slows both.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from environment import RESULTS, ROOT, commit_of, describe

from astra_tui.emulator.device import Emulator
from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch

TOKENS, WIDTH = 16, 4096
HEADS, HEAD_DIM = 512, 128
KINDS = {"profiled": (True, True), "checked": (True, False), "bare": (False, False)}
"""Whether accesses are checked and counted, and whether what is moved again is counted: as a
profile runs workloads, as a check runs its cases, and as a check runs them again."""
SOURCE = Path(__file__).parent / "kernels" / "rows.cu"


@dataclass(frozen=True)
class Kernel:
    """One kernel with its arguments: buffers with their use, and numbers."""

    name: str
    grid: int
    block: int
    buffers: tuple[tuple[str, ArgumentRole, Any], ...]
    numbers: tuple[int | float, ...]
    shared_bytes: int = 0


@dataclass(frozen=True)
class Run:
    """One run of a kernel."""

    cpu_ms: float
    warp_instructions: int


def kernels() -> list[Kernel]:
    """The six kernels on random data."""
    random = np.random.Generator(np.random.Philox(0))

    def halves(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float16)

    undefined, read, both = ArgumentRole.OUT, ArgumentRole.IN, ArgumentRole.INOUT
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


class Side:
    """A process that runs the kernels with the emulator of one checkout."""

    def __init__(self, checkout: Path):
        command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, kernel: str, kind: str) -> Run:
        """Runs one kernel once."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([kernel, kind]) + "\n")
        self.process.stdin.flush()
        return Run(**json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve() -> None:
    """Answers lines of [kernel, kind] with a `Run` each."""
    all_kernels = kernels()
    with Compiler() as compiler:
        compilation = compiler.compile(SOURCE.read_text(), tuple(k.name for k in all_kernels))
    assert compilation.ok, compilation.errors
    ready = {kernel.name: launch_of(kernel, compilation) for kernel in all_kernels}
    emulator = Emulator()
    # Before there was a choice, what was counted came with its traffic.
    chosen = "traffic" in inspect.signature(emulator.run).parameters
    for line in sys.stdin:
        name, kind = json.loads(line)
        checked, traffic = KINDS[kind]
        launch, buffers = ready[name]
        begin = time.process_time()
        outcome = emulator.run(
            compilation,
            (launch,),
            buffers,
            checked=checked,
            counted=checked,
            **({"traffic": traffic} if chosen else {}),
        )
        milliseconds = (time.process_time() - begin) * 1e3
        assert not outcome.findings, outcome.findings[0].describe()
        print(json.dumps(asdict(Run(milliseconds, outcome.counters.warp_instructions))), flush=True)


def summary(runs: list[Run]) -> dict[str, float]:
    """Median and smallest CPU time of all runs but the first."""
    times = [run.cpu_ms for run in runs[1:]]
    return {"median_ms": round(statistics.median(times), 2), "min_ms": round(min(times), 2)}


def main() -> None:
    """Prints a table and writes results/emulator_speed.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--before", type=Path, help="a checkout to compare with")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    checkouts = {"now": ROOT}
    if options.before is not None:
        checkouts = {"before": options.before.resolve(), **checkouts}
    sides = {name: Side(checkout) for name, checkout in checkouts.items()}
    rows = []
    print(f"{'kernel':<14} {'run':<8}" + "".join(f"{name:>9}" for name in sides) + "   (CPU ms)")
    for kernel in kernels():
        row: dict[str, Any] = {"kernel": kernel.name}
        for name, (checked, _) in KINDS.items():
            runs: dict[str, list[Run]] = {side: [] for side in sides}
            for _ in range(options.repeat + 1):
                for side, process in sides.items():
                    runs[side].append(process.run(kernel.name, name))
            row[name] = {side: summary(of_side) for side, of_side in runs.items()}
            counts = {run.warp_instructions for of_side in runs.values() for run in of_side}
            if checked:
                (row["warp_instructions"],) = counts
            medians = [row[name][side]["median_ms"] for side in sides]
            ratio = f"   {medians[0] / medians[-1]:.2f} times" if len(sides) > 1 else ""
            print(f"{kernel.name:<14} {name:<8}" + "".join(f"{m:9.2f}" for m in medians) + ratio)
        rows.append(row)
    for process in sides.values():
        process.close()
    result: dict[str, Any] = {"environment": describe(), "repeat": options.repeat}
    if options.before is not None:
        result["before"] = commit_of(options.before)
    result["kernels"] = rows
    (RESULTS / "emulator_speed.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
