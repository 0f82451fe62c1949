"""The profile of a source: every workload counted, with the resources of what it launches."""

from __future__ import annotations

from math import prod

from astra_tui.lab.check.counting import count, workload_case
from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.emulator.device import Emulator
from astra_tui.lab.explain.occupancy import occupancy
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.launch import Refused, ResolvedPlan
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.verdict import KernelUse, Profile, WorkloadProfile

ELEMENTS = 1 << 17
"""About how many elements of a workload are emulated; rows beyond that would only repeat."""


def profile_on_emulator(task: KernelTask, source: Source, compiler: Compiler) -> Profile:
    """Counts all workloads of a source. Raises UserError when it does not compile or run."""
    device = Emulator(budget=1 << 40)
    workloads = []
    kernels: dict[str, KernelUse] = {}
    for workload in task.workloads:
        case = workload_case(task, workload.name, _rows(task, workload))
        counted = count(task, source, case, compiler, device)
        if not counted.compilation.ok or counted.faults:
            why = counted.faults[0].describe() if counted.faults else "it does not compile"
            raise UserError(f"workload {workload.name} cannot be counted: {why}", file=source.file)
        whole = _resolved(task, source, workload)
        for launch in whole.launches:
            kernels.setdefault(
                launch.kernel, _use(counted.compilation, launch.kernel, prod(launch.block),
                                    launch.shared_bytes)
            )  # fmt: skip
        workloads.append(
            WorkloadProfile(
                workload=workload.name,
                dims=dict(case.dims),
                dtype=workload.dtype,
                kernels=counted.kernels,
                counters=counted.counters,
                blocks=sum(prod(launch.grid) for launch in whole.launches),
                threads=max(prod(launch.block) for launch in whole.launches),
                compulsory_bytes=task.compulsory_bytes(workload.dims, workload.dtype),
            )
        )
    return Profile(device.name, tuple(workloads), tuple(kernels.values()))


def _rows(task: KernelTask, workload: Workload) -> int | None:
    if not task.rows:
        return None
    rows = workload.dims[task.rows]
    elements = task.elements(workload.dims, workload.dtype)
    return max(1, min(rows, rows * ELEMENTS // max(elements, 1)))


def _resolved(task: KernelTask, source: Source, workload: Workload) -> ResolvedPlan:
    case = Case(workload.name, "", workload.dtype, dict(workload.dims))
    resolved = resolve_case(task, source, case, scalars_of(task, case))
    if isinstance(resolved, Refused):
        raise UserError(
            f"the launch plan refuses workload {workload.name}: {resolved.reason}",
            file=source.file,
            place=resolved.place,
        )
    return resolved


def _use(compilation: Compilation, name: str, threads: int, dynamic_shared: int) -> KernelUse:
    resources = compilation.kernel(name).resources
    shared = resources.static_shared + dynamic_shared
    return KernelUse(
        kernel=name,
        registers=resources.registers,
        spill_bytes=resources.spill_loads + resources.spill_stores,
        shared_bytes=shared,
        occupancy=occupancy(compilation.arch, threads, resources.registers, shared),
    )
