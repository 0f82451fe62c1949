"""Makes of a case what the launcher needs: bound launches and the contents of their buffers."""

from __future__ import annotations

from collections.abc import Mapping

from astra_tui.gpu.device import kernels_of
from astra_tui.gpu.launcher.request import WatchedCase
from astra_tui.gpu.messages import CaseBuffer, RunCase
from astra_tui.lab.check.execution import resolve_case, run_case
from astra_tui.lab.check.inputs import draw_inputs, scalars_of
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import (
    PLAIN,
    Accepts,
    DeviceBuffer,
    PackedLaunch,
    RunOutcome,
    Variation,
    accept_nothing,
)
from astra_tui.model.launch import Refused
from astra_tui.model.launch.resolve import MAX_WORKSPACE_BYTES
from astra_tui.model.task import KernelTask


class _Recorder:
    """A device that runs nothing and keeps what it was asked to run."""

    name = "recorder"
    workspace_bytes = MAX_WORKSPACE_BYTES

    def __init__(self, attributes: Mapping[str, int]):
        self.attributes = attributes
        self.launches: tuple[PackedLaunch, ...] = ()
        self.buffers: tuple[DeviceBuffer, ...] = ()

    def run(
        self,
        compilation: Compilation,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        *,
        checked: bool = True,
        counted: bool = True,
        traffic: bool = False,
        variation: Variation = PLAIN,
        accepts: Accepts = accept_nothing,
    ) -> RunOutcome:
        """Keeps launches and buffers."""
        del compilation, checked, counted, traffic, variation, accepts
        self.launches, self.buffers = launches, buffers
        return RunOutcome({b.name: b.content for b in buffers})


def case_to_watch(
    task: KernelTask, compiled: Compiled, case: Case, attributes: Mapping[str, int]
) -> tuple[WatchedCase, tuple[PackedLaunch, ...]] | None:
    """A case with its launches in order, or None where the launch plan refuses it.

    The compilation has to hold the kernels that the case needs. Raises PlanError.
    """
    scalars = scalars_of(task, case)
    resolved = resolve_case(task, compiled.source, case, scalars, attributes)
    if isinstance(resolved, Refused):
        return None
    recorder = _Recorder(attributes)
    inputs = draw_inputs(task, case)
    run_case(task, compiled.source, compiled.compilation, resolved, case, inputs, recorder)
    buffers = tuple(
        CaseBuffer(b.name, b.content.tobytes(), b.misalignment) for b in recorder.buffers
    )
    run = RunCase(compiled.compilation.cubin, kernels_of(recorder.launches), buffers)
    undefined = tuple(b.name for b in recorder.buffers if b.use.starts_undefined)
    launches = tuple(launch for launch in recorder.launches if all(launch.grid))
    return WatchedCase(case.id, run, undefined), launches
