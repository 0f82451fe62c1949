"""Planted differences: a kernel that spins for 10 us and more, lengthened by 0.5, 1 and 3 %.

    python benchmarks/gpu_planted.py [--out FILE] [--trials N] [--seconds S]

Each trial has to read SLOWER. The lengthening is a share of the time that the unchanged kernel
takes, in cycles of the clock that was measured under load.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.lab.on_gpu.bench import Bench
from astra_tui.lab.on_gpu.measuring import Options
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.dtypes import DType
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import Timing, TimingVerdict, WorkloadTiming
from benchmarks import gpu

SHARES = (0.005, 0.01, 0.03)
CYCLES = 20_000
WORKLOAD = Workload("64x8192", {"tokens": 64, "d": 8192}, DType.FLOAT16)

SOURCE = """
/* @launch
   spinning<T> grid=tokens block=1024 args=(out, input, d)
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void spinning(T* out, const T* input, int d) {
    const long long start = clock64();
    const T* row = input + 2ll * blockIdx.x * d;
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
        const float gate = float(row[i]), up = float(row[d + i]);
        out[1ll * blockIdx.x * d + i] = T(gate / (1.0f + __expf(-gate)) * up);
    }
    while (clock64() - start < CYCLES) {}
}
"""


def main() -> None:
    """Runs the trials of each share and prints how many read SLOWER."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("planted.json"))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=200.0)
    options = parser.parse_args()
    task = gpu.task_named("silu_and_mul")
    with gpu.open_machine() as machine:
        result: dict[str, Any] = {"environment": gpu.environment(machine)}
        with machine.bench(task, Options(warm=False)) as bench:
            fill(machine, task, bench, options.trials, options.seconds, result)
            gpu.save(options.out, result)
    for share, found in result["shares"].items():
        print(share, found)


def fill(
    machine: gpu.Machine,
    task: KernelTask,
    bench: Bench,
    count: int,
    seconds: float,
    result: dict[str, Any],
) -> None:
    """Adds what up to `count` trials of each share come to, in so many seconds for all."""
    base = machine.compiled(task, source(CYCLES), "spinning")
    alone = _time(bench, base, base)
    result["unchanged_us"], result["sm_mhz"] = alone.cold.base_us, alone.sm_mhz
    result["shares"] = {}
    ends = time.monotonic() + seconds
    for number, share in enumerate(SHARES, 1):
        added = round(share * alone.cold.base_us * alone.sm_mhz)
        longer = machine.compiled(task, source(CYCLES + added), f"spinning {share:.1%} longer")
        until = ends - seconds * (1 - number / len(SHARES))
        trials: list[WorkloadTiming] = []
        while len(trials) < count and time.monotonic() < until:
            trials.append(_time(bench, base, longer))
        result["shares"][f"{share:.1%}"] = summary(trials, added)


def _time(bench: Bench, base: Compiled, candidate: Compiled) -> WorkloadTiming:
    for event in bench.time([WORKLOAD], base, [candidate]):
        if isinstance(event, Timing):
            return event.workloads[0]
    raise AssertionError("a bench ends with a timing")


def source(cycles: int) -> str:
    """The kernel that takes about so many cycles."""
    return SOURCE.replace("CYCLES", str(cycles))


def summary(trials: list[WorkloadTiming], added: int) -> dict[str, Any]:
    """What the trials of one share amount to."""
    ratios = [t.cold.speedup for t in trials]
    return {
        "cycles_added": added,
        "trials": len(trials),
        "slower": sum(t.verdict is TimingVerdict.SLOWER for t in trials),
        "verdicts": {v.value: sum(t.verdict is v for t in trials) for v in TimingVerdict},
        "median_ratio": statistics.median(r.value for r in ratios),
        "largest_half_width": max(r.half_width for r in ratios),
        "largest_threshold": max(t.threshold for t in trials),
        "rounds": sorted({r.rounds for r in ratios}),
        "median_seconds": statistics.median(t.seconds for t in trials),
    }


if __name__ == "__main__":
    main()
