"""Compiles the kernels that a workload launches, at the workload's own size."""

from __future__ import annotations

from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.launch import Refused
from astra_tui.model.task import KernelTask, Workload


def compile_workload(
    task: KernelTask, source: Source, workload: Workload, compiler: Compiler
) -> Compilation:
    """The compilation of the kernels that the plan launches, in the order of their launches.

    Raises UserError where the plan refuses the workload.
    """
    case = Case(workload.name, "", workload.dtype, dict(workload.dims))
    resolved = resolve_case(task, source, case, scalars_of(task, case))
    if isinstance(resolved, Refused):
        raise UserError(
            f"the launch plan refuses workload {workload.name}: {resolved.reason}",
            file=source.file,
            place=resolved.place,
        )
    return compiler.compile(source.text, tuple(launch.kernel for launch in resolved.launches))
