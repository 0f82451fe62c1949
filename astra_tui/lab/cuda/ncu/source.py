"""Hardware counters of a source, whatever the device is."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.cuda.device import CudaDevice
from astra_tui.lab.cuda.ncu.counters import read_counters
from astra_tui.lab.cuda.ncu.metrics import METRICS
from astra_tui.lab.cuda.sources import compile_source
from astra_tui.lab.devices import Opened
from astra_tui.model.ncu import NcuReport
from astra_tui.model.task import KernelTask, Workload

ON_EMULATOR = "hardware counters need a GPU"


def read_source_counters(
    task: KernelTask,
    compiler: Compiler,
    opened: Opened,
    text: str,
    file: str,
    workload: Workload,
    metrics: Sequence[str] = METRICS,
) -> NcuReport:
    """The counters of a source on one workload, or why there are none.

    The device's own process leaves the GPU first. Raises UserError for a source that does not
    compile or whose launch plan is wrong.
    """
    if opened.gpu is None:
        return NcuReport(workload.name, problem=ON_EMULATOR)
    if isinstance(opened.device, CudaDevice):
        opened.device.close()
    compiled = compile_source(task, compiler, opened.device.attributes, text, file)
    return read_counters(task, compiled, opened.gpu.facts, workload, metrics=metrics)
