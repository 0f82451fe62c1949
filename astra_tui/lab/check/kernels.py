"""Which kernels of a source are compiled, for cases and for a workload."""

from __future__ import annotations

from collections.abc import Mapping

from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES, PlanError, Refused, ResolvedPlan
from astra_tui.model.task import KernelTask, Workload

MAX_KERNELS = 64


def workload_cases(task: KernelTask) -> tuple[Case, ...]:
    """The task's workloads at their own sizes, as far as a launch plan needs to know them.

    A check compiles their kernels too, so that a timing of the same source compiles nothing.
    """
    return tuple(Case(w.name, "", w.dtype, dict(w.dims)) for w in task.workloads)


def kernels_to_compile(
    task: KernelTask,
    source: Source,
    cases: tuple[Case, ...],
    attributes: Mapping[str, int] = DEVICE_ATTRIBUTES,
) -> tuple[str, ...]:
    """The kernels that the plan needs for these cases, as C++ names.

    A case whose numbers break the plan is left to be reported when its turn comes.
    """
    names: dict[str, None] = {}
    for case in cases:
        try:
            resolved = resolve_case(task, source, case, scalars_of(task, case), attributes)
        except PlanError:
            continue
        if isinstance(resolved, ResolvedPlan):
            names.update(dict.fromkeys(launch.kernel for launch in resolved.launches))
    if len(names) > MAX_KERNELS:
        raise PlanError(
            f"the launch plan asks for {len(names)} different kernels; at most {MAX_KERNELS} are "
            "compiled at once",
            file=source.file,
            place=source.plan.place,
            hint="pass sizes as arguments rather than as template arguments",
        )
    return tuple(names)


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
