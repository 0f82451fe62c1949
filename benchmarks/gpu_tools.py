"""compute-sanitizer and ncu on the repository's kernels and on planted faults.

    python benchmarks/gpu_tools.py [--out FILE] [--seconds S]

Says what each tool found, with the beginning of what it wrote, so that our readers can be checked
against the formats of the versions that are installed. S bounds each run of a tool.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.gpu.launcher.tools import WatchedRun
from astra_tui.gpu.ncu import may_read_counters
from astra_tui.lab.on_gpu.hardware_counters import find_ncu, read_counters
from astra_tui.lab.on_gpu.sanitizing import find_sanitizer, sanitize
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.findings import SanitizerTool
from astra_tui.model.task import KernelTask
from benchmarks import gpu

FAULTS = Path(__file__).parent / "kernels" / "faults"
FAULTY_TASK = "silu_and_mul"
TOOL_OF_FAULT = {
    "out_of_bounds": SanitizerTool.MEMCHECK,
    "shared_race": SanitizerTool.RACECHECK,
    "uninitialised": SanitizerTool.INITCHECK,
    "divergent_barrier": SanitizerTool.SYNCCHECK,
    "bad_mask": SanitizerTool.SYNCCHECK,
}
TEXT = 4_000
HELP = 20_000


def main() -> None:
    """Runs everything and writes its result after every source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu_tools.json"))
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with gpu.open_machine() as machine:
        result: dict[str, Any] = {
            "environment": gpu.environment(machine),
            "permission": may_read_counters().reason,
            "sanitizer_help": _help(find_sanitizer()),
            "ncu_help": _help(find_ncu()),
            "faults": {},
            "sources": {},
        }
        for fault, tool in TOOL_OF_FAULT.items():
            result["faults"][fault] = _fault(machine, fault, tool, options.seconds)
            gpu.save(options.out, result)
        for name in gpu.TASKS:
            task = gpu.task_named(name)
            for file in (task.baseline_file, task.tuned_file):
                label = f"{name}/{file.name}"
                result["sources"][label] = _source(machine, task, file, options.seconds)
                gpu.save(options.out, result)


def _fault(machine: gpu.Machine, fault: str, tool: SanitizerTool, seconds: float) -> dict[str, Any]:
    task = gpu.task_named(FAULTY_TASK)
    compiled = _compiled(machine, task, FAULTS / f"{fault}.cu")
    runs: list[WatchedRun] = []
    reports = sanitize(
        task, compiled, machine.gpu.facts, tools=[tool], seconds=seconds, keep=runs.append
    )
    _tell(fault, reports)
    return {"reports": msgspec.to_builtins(reports), "runs": [_raw(run) for run in runs]}


def _source(machine: gpu.Machine, task: KernelTask, file: Path, seconds: float) -> dict[str, Any]:
    compiled = _compiled(machine, task, file)
    facts = machine.gpu.facts
    runs: list[WatchedRun] = []
    reports = sanitize(task, compiled, facts, seconds=seconds, keep=runs.append)
    _tell(f"{task.name}/{file.name}", reports)
    workload = task.workloads[0]
    counters = read_counters(task, compiled, facts, workload, seconds=seconds, keep=runs.append)
    got = [f"{len(c.metrics)} metrics, {len(c.missing)} missing" for c in counters.launches]
    print(f"  ncu on {workload.name}: {counters.problem or got} in {counters.seconds:.1f} s")
    return {
        "reports": msgspec.to_builtins(reports),
        "counters": msgspec.to_builtins(counters),
        "runs": [_raw(run) for run in runs],
    }


def _compiled(machine: gpu.Machine, task: KernelTask, file: Path) -> Compiled:
    return machine.compiled(task, file.read_text(encoding="utf-8"), str(file))


def _tell(label: str, reports: tuple[Any, ...]) -> None:
    print(label)
    for report in reports:
        print(f"  {report.tool.value}: {report.verdict.value} in {report.seconds:.1f} s")
        for finding in (*report.findings, *report.warnings):
            print(f"    {finding.describe()}")
        for line in (*report.unread, *report.problem.splitlines()):
            print(f"    {line}")


def _raw(run: WatchedRun) -> dict[str, Any]:
    return {
        "log": run.log[:TEXT],
        "words": run.words,
        "code": run.code,
        "answer": msgspec.to_builtins(run.answer),
        "problem": run.problem,
        "seconds": run.seconds,
    }


def _help(program: Path | None) -> str:
    if program is None:
        return "not found"
    text = ""
    for option in ("--version", "--help"):
        done = subprocess.run(
            [str(program), option], capture_output=True, text=True, check=False, timeout=60
        )
        text += done.stdout
    return text[:HELP]


if __name__ == "__main__":
    main()
