"""The yardsticks of the bundled tasks, from the real packages, where the user's cache has them.

Nothing is fetched here. `astra-tui yardstick update` brings the packages.
"""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.execution import Source, resolve_case, run_case
from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import WorkloadBuffers
from astra_tui.lab.upstream import user_packages
from astra_tui.lab.yardsticks import Shipped, open_yardstick
from astra_tui.lab.yardsticks.machine_code import tool_pin
from astra_tui.model.launch import DEVICE_ATTRIBUTES, Refused
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.task.yardstick import Yardstick
from astra_tui.model.task.yardstick_file import load_yardsticks
from astra_tui.packages import Packages

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
YARDSTICKS = [
    (folder.name, yardstick)
    for folder in sorted(KERNELS.iterdir())
    for yardstick in load_yardsticks(load_task(folder))
]
NAMES = [
    (task, yardstick.name) for task, yardstick in YARDSTICKS if yardstick.kind != "out of reach"
]
IN_SOURCE = [(task, yardstick.name) for task, yardstick in YARDSTICKS if yardstick.kind == "source"]
CASES = 12


def _packages() -> Packages:
    """Those of the tests' own cache, or of the user's."""
    own = user_packages()
    users = Packages(Path(platformdirs.user_cache_dir("astra-tui")) / "packages")
    return own if own.folder.is_dir() else users


def _open(task: KernelTask, name: str, compiler: Compiler) -> Shipped:
    packages = _packages()
    yardstick = next(y for y in load_yardsticks(task) if y.name == name)
    for pin in _pins(yardstick):
        if not packages.has(pin):
            pytest.skip(f"{pin} is not in the cache; say: astra-tui yardstick update {task.name}")
    found = open_yardstick(task, yardstick, compiler, yardstick.arch, packages)
    assert isinstance(found, Shipped), found
    return found


def _pins(yardstick: Yardstick) -> list:
    return [yardstick.package, *([tool_pin()] if yardstick.kind == "machine code" else [])]


@pytest.mark.parametrize(("task_name", "name"), NAMES)
def test_it_opens_and_serves_every_workload(tasks, compiler, task_name: str, name: str) -> None:
    task = tasks[task_name]
    shipped = _open(task, name, compiler)
    for workload in task.workloads:
        for pdl in (False, shipped.yardstick.pdl):
            buffers = WorkloadBuffers(task, workload, 1)
            (kernel,) = buffers.bind(shipped.compiled(pdl), DEVICE_ATTRIBUTES).kernels
            assert kernel.pdl is pdl


@pytest.mark.parametrize("pdl", [False, True])
@pytest.mark.parametrize(("task_name", "name"), IN_SOURCE)
def test_it_is_right_on_the_emulator(tasks, compiler, task_name: str, name: str, pdl) -> None:
    task = tasks[task_name]
    shipped = _open(task, name, compiler)
    device = Emulator()
    compiled = shipped.compiled(pdl)
    source: Source = compiled.source
    ran = 0
    with Oracle(task) as oracle:
        checker = Checker(task, device, compiler, oracle)
        for case in build_suite(task):
            inputs = draw_inputs(task, case)
            resolved = resolve_case(task, source, case, inputs.scalars, device.attributes)
            if isinstance(resolved, Refused) or ran == CASES:
                continue
            run = run_case(task, source, compiled.compilation, resolved, case, inputs, device)
            assert run.findings == (), case.id
            judged = checker.judge(case, inputs, run, None)
            assert all(output.ok for output in judged), (case.id, judged)
            ran += 1
    assert ran == CASES
