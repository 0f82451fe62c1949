"""The yardsticks of the bundled tasks, from the real packages, where the user's cache has them.

Nothing is fetched here. `astra-tui yardstick update` brings the packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.execution import resolve_case, run_case
from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import WorkloadBuffers
from astra_tui.lab.upstream import user_packages
from astra_tui.lab.yardsticks import Shipped, open_yardstick, refusal
from astra_tui.lab.yardsticks.generated import generator_pins
from astra_tui.lab.yardsticks.machine_code import tool_pin
from astra_tui.model.check import Case
from astra_tui.model.launch import DEVICE_ATTRIBUTES, Refused
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.task.yardstick import Generated, MachineCode, Yardstick, load_yardsticks
from astra_tui.packages import Packages

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
YARDSTICKS = [
    (file.parent.name, yardstick)
    for file in sorted(KERNELS.glob("*/yardsticks.toml"))
    for yardstick in load_yardsticks(load_task(file.parent))
]
NAMES = [
    (task, yardstick.name) for task, yardstick in YARDSTICKS if yardstick.kind != "out of reach"
]
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
    match yardstick.code:
        case MachineCode():
            return [yardstick.package, tool_pin()]
        case Generated():
            return [yardstick.package, *generator_pins(yardstick.code.by)]
    return [yardstick.package]


def _cases(task: KernelTask, yardstick: Yardstick) -> Iterator[Case]:
    """Cases of the task's suite; for what is compiled for the workloads' sizes, few of their rows.

    An even number: of two rows that a block of FlashInfer's kernel takes, it also reads the second
    where there is none.
    """
    if not isinstance(yardstick.code, Generated):
        yield from build_suite(task)
        return
    shapes = {yardstick.variant(w.dtype, w.dims): w for w in task.workloads}
    for shape in shapes.values():
        yield Case(shape.name, "typical", shape.dtype, {**shape.dims, task.rows: 4})


@pytest.mark.parametrize(("task_name", "name"), NAMES)
def test_it_serves_workloads_and_is_right_on_the_emulator(
    compiler, task_name: str, name: str
) -> None:
    task = load_task(KERNELS / task_name)
    shipped = _open(task, name, compiler)
    served = [w for w in task.workloads if not refusal(task, shipped.yardstick, w)]
    assert served
    for pdl in sorted({False, shipped.yardstick.pdl}):
        for workload in served:
            buffers = WorkloadBuffers(task, workload, 1)
            (kernel,) = buffers.bind(shipped.compiled(workload, pdl), DEVICE_ATTRIBUTES).kernels
            assert kernel.pdl is pdl
        if not isinstance(shipped.yardstick.code, MachineCode):
            _run_on_the_emulator(task, shipped, compiler, pdl)


def _run_on_the_emulator(task: KernelTask, shipped: Shipped, compiler: Compiler, pdl: bool) -> None:
    device = Emulator()
    ran, cases = 0, list(_cases(task, shipped.yardstick))
    with Oracle(task) as oracle:
        checker = Checker(task, device, compiler, oracle)
        for case in cases:
            inputs = draw_inputs(task, case)
            compiled = shipped.compiled(case, pdl)
            source, compilation = compiled.source, compiled.compilation
            resolved = resolve_case(task, source, case, inputs.scalars, device.attributes)
            if isinstance(resolved, Refused) or ran == CASES:
                continue
            run = run_case(task, source, compilation, resolved, case, inputs, device)
            assert run.findings == (), case.id
            judged = checker.judge(case, inputs, run, None)
            assert all(output.ok for output in judged), (case.id, judged)
            ran += 1
    assert ran == min(CASES, len(cases))
