"""tuned.cu against baseline.cu on a GPU: both protocols, percent of floor, every workload.

python benchmarks/gpu_yardstick.py [--out FILE] [--task NAME ...] [--check]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.gpu.device import CudaDevice
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.on_gpu.measuring import Options
from astra_tui.model.check import CheckReport
from astra_tui.model.timing import Timing
from benchmarks import gpu


def main() -> None:
    """Checks and times the tasks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("yardstick.json"))
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--check", action="store_true", help="check both sources first")
    options = parser.parse_args()
    with gpu.open_machine() as machine:
        result: dict[str, Any] = {"environment": gpu.environment(machine), "tasks": {}}
        for name in options.task or gpu.TASKS:
            result["tasks"][name] = measure(machine, name, options.check)
            gpu.save(options.out, result)


def measure(machine: gpu.Machine, name: str, check: bool) -> dict[str, Any]:
    """One task: its sources checked first if asked for, then timed."""
    task = gpu.task_named(name)
    found: dict[str, Any] = {}
    files = {"baseline": task.baseline_file, "tuned": task.tuned_file}
    if check:
        with (
            CudaDevice(machine.gpu.facts, machine.gpu.tools) as device,
            machine.oracle(task) as oracle,
        ):
            checker = Checker(task, device, machine.compiler, oracle)
            for label, file in files.items():
                report = _check(checker, file)
                found[f"{label}_check"] = [report.verdict.value, report.message, report.seconds]
                failed = [f"{c.case.id}: {c.message}" for c in report.failed_cases[:3]]
                print(name, label, report.verdict.value, f"{report.seconds:.1f} s", *failed)
    sources = {k: machine.compiled(task, f.read_text(), str(f)) for k, f in files.items()}
    with machine.bench(task, Options(paper=True)) as bench:
        for event in bench.time(task.workloads, sources["baseline"], [sources["tuned"]]):
            if isinstance(event, Timing):
                found["timing"] = msgspec.to_builtins(event)
                _print(name, event)
    return found


def _check(checker: Checker, file: Path) -> CheckReport:
    began = time.perf_counter()
    for event in checker.check(file.read_text(), str(file)):
        if isinstance(event, CheckReport):
            return event
    raise AssertionError(f"no report after {time.perf_counter() - began:.1f} s")


def _print(name: str, timing: Timing) -> None:
    print(f"{name}: {timing.speedup.value:.3f} {timing.verdict.value} in {timing.seconds:.1f} s")
    for w in timing.workloads:
        assert w.floor is not None
        assert w.paper is not None
        assert w.warm is not None
        print(
            f"  {w.workload:28} {w.cold.base_us:8.2f} {w.cold.candidate_us:8.2f} us "
            f"{w.cold.speedup.value:6.3f} +-{100 * w.cold.speedup.half_width:.2f} % "
            f"{w.verdict.value:12} floor {w.floor.copy_us:.2f}/{w.floor.launch_us:.2f} "
            f"{100 * (w.of_floor or 0):.0f} % warm {w.warm.candidate_us:.2f} "
            f"paper {w.paper.base_us:.1f}/{w.paper.candidate_us:.1f} N {w.launches} "
            f"n {w.cold.speedup.rounds} {w.sm_mhz:.0f} MHz {w.seconds:.2f} s "
            f"{'; '.join(d.message for d in w.caveats)}"
        )


if __name__ == "__main__":
    main()
