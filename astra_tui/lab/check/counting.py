"""Counts one workload of a source on the emulator, with as many rows as stay quick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from astra_tui.lab.check.execution import Run, Source, resolve_case, run_case
from astra_tui.lab.check.inputs import Inputs, draw_inputs, scalars_of
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import Counters
from astra_tui.model.device import Device
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.findings import Finding
from astra_tui.model.launch import Refused
from astra_tui.model.task import KernelTask, Workload

MAX_ELEMENTS = 1 << 19

Judge = Callable[[Case, Inputs, Run], str]
"""Says what is wrong with the outputs of a run; nothing where they are right."""


@dataclass(frozen=True)
class Count:
    """The counters of one source on one case, and what went wrong, if anything did."""

    case: Case
    counters: Counters
    compilation: Compilation
    kernels: tuple[str, ...]
    faults: tuple[Finding, ...] = ()
    problem: str = ""
    """What is wrong with the outputs, where someone has judged them."""


def workload_case(task: KernelTask, name: str | None, rows: int | None) -> Case:
    """The case for a workload by name (by default the first), rows reduced to stay quick."""
    workloads = {w.name: w for w in task.workloads}
    if name is not None and name not in workloads:
        raise UserError(f"{task.name} has no workload '{name}'", hint=nearest(name, workloads))
    workload = workloads[name] if name else task.workloads[0]
    dims = dict(workload.dims)
    if task.rows:
        dims[task.rows] = rows if rows is not None else _quick_rows(task, workload)
    broken = task.violated(dims, workload.dtype)
    if broken:
        raise UserError(f"these sizes break the contract of {task.name}: {broken}")
    why = f"workload {workload.name}"
    return Case(name=why, why=why, dtype=workload.dtype, dims=dims)


def _quick_rows(task: KernelTask, workload: Workload) -> int:
    rows = workload.dims[task.rows]
    elements = task.elements(workload.dims, workload.dtype)
    return max(1, min(rows, rows * MAX_ELEMENTS // max(elements, 1)))


def count(
    task: KernelTask,
    source: Source,
    case: Case,
    compiler: Compiler,
    device: Device,
    judge: Judge | None = None,
) -> Count:
    """Compiles and runs a source on a case. Raises UserError when the plan refuses it."""
    resolved = resolve_case(task, source, case, scalars_of(task, case))
    if isinstance(resolved, Refused):
        raise UserError(
            f"the launch plan refuses this case: {resolved.reason}",
            file=source.file,
            place=resolved.place,
        )
    compilation = compiler.compile(
        source.text, tuple(launch.kernel for launch in resolved.launches)
    )
    if not compilation.ok:
        return Count(case, Counters(), compilation, ())
    inputs = draw_inputs(task, case)
    run = run_case(task, source, compilation, resolved, case, inputs, device)
    faults = tuple(f for f in run.findings if not f.is_warning)
    counters = run.outcome.counters or Counters()
    problem = judge(case, inputs, run) if judge is not None and not faults else ""
    return Count(case, counters, compilation, run.kernels, faults, problem)
