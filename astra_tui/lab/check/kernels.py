"""Which kernels of a source are compiled."""

from __future__ import annotations

from collections.abc import Mapping

from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.model.check import Case
from astra_tui.model.launch import DEVICE_ATTRIBUTES, PlanError, ResolvedPlan
from astra_tui.model.task import KernelTask

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
