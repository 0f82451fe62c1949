"""What all GPU benchmarks share: opening a device, and the environment that a result needs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from astra_tui.gpu.gpu_process import GpuProcess
from astra_tui.gpu.nvml import GpuReader
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.bench import Bench
from astra_tui.lab.on_gpu.measuring import Options
from astra_tui.lab.on_gpu.opening import Gpu, find_gpu, open_gpu, open_oracle
from astra_tui.lab.on_gpu.workload import Compiled, compile_source
from astra_tui.model.task import KernelTask, find_task

TASKS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse")


@dataclass(frozen=True)
class Machine:
    """An open GPU with its compiler."""

    gpu: Gpu
    compiler: Compiler

    def compiled(self, task: KernelTask, text: str, file: str) -> Compiled:
        """A source, compiled for the task's cases and workloads. Raises UserError."""
        return compile_source(task, self.compiler, self.gpu.facts.attributes, text, file)

    def oracle(self, task: KernelTask) -> Oracle:
        """The reference of a task, on this GPU."""
        return open_oracle(task, self.gpu)

    @contextmanager
    def bench(self, task: KernelTask, options: Options) -> Iterator[Bench]:
        """A bench of a task."""
        with (
            self.oracle(task) as oracle,
            Bench(task, self.gpu.facts, self.gpu.tools, oracle, options) as bench,
        ):
            yield bench


@contextmanager
def open_machine(name: str = "cuda:0") -> Iterator[Machine]:
    """The GPU by name. Raises UserError where there is none."""
    with ExitStack() as stack:
        compiler = stack.enter_context(Compiler())
        yield Machine(open_gpu(find_gpu(name), compiler), compiler)


@contextmanager
def idle_processes(machine: Machine, count: int) -> Iterator[None]:
    """Processes that hold the GPU and do nothing. Raises GpuFailure."""
    with ExitStack() as stack:
        for _ in range(count):
            process = GpuProcess(machine.gpu.facts.uuid, machine.gpu.tools)
            stack.callback(process.close)
            process.settle()
        yield


def task_named(name: str) -> KernelTask:
    """A task of the repository's kernels folder."""
    return find_task(name)


def environment(machine: Machine) -> dict[str, Any]:
    """GPU, driver, compiler, clocks, commit and command of this run."""
    facts = machine.gpu.facts
    with GpuReader(facts.uuid) as reader:
        identity, sample = reader.identity(), reader.sample()
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
        "commit": _commit(),
        "python": platform.python_version(),
        "gpu": facts.name,
        "driver": identity.driver,
        "cuda_driver": identity.cuda_driver,
        "compiler": str(machine.compiler.start()),
        "arch": facts.arch,
        "sm_mhz_max": identity.max_sm_mhz,
        "sm_mhz_now": sample.sm_mhz,
        "power_limit_w": identity.power_limit_w,
        "temperature_c": sample.temperature_c,
    }


def save(path: Path, result: dict[str, Any]) -> None:
    """Writes a result as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _commit() -> str:
    """The commit, or what ASTRA_TUI_COMMIT says where a tree travels without its history."""
    said = os.environ.get("ASTRA_TUI_COMMIT")
    if said:
        return said
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or "unknown"
