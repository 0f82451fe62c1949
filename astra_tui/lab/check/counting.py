"""Counts one workload of a source on the emulator, with as many rows as stay quick."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from astra_tui.lab.check.execution import Run, Source, resolve_case, run_case
from astra_tui.lab.check.inputs import Inputs, draw_inputs, scalars_of
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import Counters
from astra_tui.model.device import Device
from astra_tui.model.errors import UserError
from astra_tui.model.findings import Finding
from astra_tui.model.launch import Refused
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.traffic import ArgumentTraffic, WorkloadTraffic

MAX_ELEMENTS = 1 << 19
"""About how many elements of a workload are counted on its own."""

PROFILE_ELEMENTS = 1 << 17
"""The same where all workloads are counted; rows beyond that would only repeat."""

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
    traffic: tuple[ArgumentTraffic, ...] = ()
    problem: str = ""
    """What is wrong with the outputs, where someone has judged them."""


def workload_case(
    task: KernelTask, name: str | None, rows: int | None, elements: int = MAX_ELEMENTS
) -> Case:
    """The case for a workload by name (by default the first), rows reduced to stay quick.

    Raises UserError where the contract does not allow these sizes.
    """
    return shape_case(task, task.workload(name), rows, elements)


def shape_case(task: KernelTask, workload: Workload, rows: int | None, elements: int) -> Case:
    """The same for a shape that need not be one of the task's workloads."""
    dims = dict(workload.dims)
    if task.rows:
        dims[task.rows] = rows if rows is not None else _quick_rows(task, workload, elements)
    broken = task.violated(dims, workload.dtype)
    if broken:
        raise UserError(f"these sizes break the contract of {task.name}: {broken}")
    why = f"workload {workload.name}"
    return Case(name=why, why=why, dtype=workload.dtype, dims=dims)


def _quick_rows(task: KernelTask, workload: Workload, most: int) -> int:
    """As many rows as stay quick; more where the contract does not have so few."""
    all_rows = workload.dims[task.rows]
    elements = task.elements(workload.dims, workload.dtype)
    few = max(1, min(all_rows, all_rows * most // max(elements, 1)))

    def is_allowed(rows: int) -> bool:
        return not task.violated({**workload.dims, task.rows: rows}, workload.dtype)

    if is_allowed(few):
        return few
    return few + bisect_left(range(few, all_rows), True, key=is_allowed)


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
    run = run_case(task, source, compilation, resolved, case, inputs, device, traffic=True)
    faults = tuple(f for f in run.findings if not f.is_warning)
    counters = run.outcome.counters or Counters()
    problem = judge(case, inputs, run) if judge is not None and not faults else ""
    return Count(case, counters, compilation, run.kernels, faults, run.outcome.traffic, problem)


def count_traffic(
    task: KernelTask, source: Source, compiler: Compiler, device: Device
) -> tuple[WorkloadTraffic, ...]:
    """What a source that compiles moves on every workload, with as many rows as a profile has."""
    return tuple(_traffic(task, source, compiler, device, w.name) for w in task.workloads)


def _traffic(
    task: KernelTask, source: Source, compiler: Compiler, device: Device, name: str
) -> WorkloadTraffic:
    try:
        case = workload_case(task, name, None, PROFILE_ELEMENTS)
        counted = count(task, source, case, compiler, device)
    except UserError as error:
        return WorkloadTraffic(name, problem=error.message)
    problem = counted.faults[0].describe() if counted.faults else ""
    return WorkloadTraffic(name, dict(case.dims), counted.traffic, problem)
