"""Runs a workload's launches under ncu and accounts for every counter that was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from astra_tui.gpu.device import CudaDevice
from astra_tui.gpu.launcher.request import WatchedCase, WatchRequest
from astra_tui.gpu.launcher.tools import WatchedRun, find_tool, tool_version, watch
from astra_tui.gpu.messages import DeviceFacts
from astra_tui.gpu.ncu.metrics import METRICS
from astra_tui.gpu.ncu.permission import REMEDY, may_read_counters
from astra_tui.gpu.ncu.table import NoTable, Row, messages, read_table, unknown_metrics
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.devices import Opened
from astra_tui.lab.on_gpu.watched_case import case_to_watch
from astra_tui.lab.on_gpu.workload import Compiled, compile_source
from astra_tui.model.check import Case
from astra_tui.model.counters import LaunchCounters, NcuReport
from astra_tui.model.device import PackedLaunch
from astra_tui.model.task import KernelTask, Workload
from astra_tui.processes.shared_device import DeviceBusy, shared_device

PROGRAM = "ncu"
SECONDS = 120.0
"""For one run of ncu, which replays every launch many times."""
MAX_BYTES = 1 << 30
"""Of a workload's buffers: they are drawn on the host and pass through a file."""

INSTALLED = Path("/opt/nvidia/nsight-compute")
"""Holds a folder for each version."""

_INSTALL = (
    "install Nsight Compute (with NVIDIA's repository: apt install cuda-nsight-compute-13-0), "
    "or put ncu on PATH"
)

ON_EMULATOR = "hardware counters need a GPU"
_NOT_PERMITTED = "ERR_NVGPUCTRPERM"
_WARM_UPS = 1
_UNKNOWN = "this ncu knows no such metric for this GPU"


def find_ncu() -> Path | None:
    """On PATH, in an installed toolkit, or where its own installer puts it: the newest."""
    own = sorted(INSTALLED.glob("*"), reverse=True)
    return find_tool(PROGRAM, own)


def read_counters(
    task: KernelTask,
    compiled: Compiled,
    facts: DeviceFacts,
    workload: Workload,
    *,
    metrics: Sequence[str] = METRICS,
    seconds: float = SECONDS,
    keep: Callable[[WatchedRun], None] = lambda _run: None,
) -> NcuReport:
    """The counters of every launch of a workload. Raises PlanError where arguments do not fit.

    The compilation has to hold the kernels that the workload launches. `seconds` bounds each run;
    `keep` gets every run with the text of ncu.
    """
    began = time.monotonic()
    program = find_ncu()
    if program is None:
        return NcuReport(workload.name, problem="ncu was not found", remedy=_INSTALL)
    permission = may_read_counters()
    if permission.allowed is False:
        return NcuReport(workload.name, problem=permission.reason, remedy=REMEDY)
    size = task.compulsory_bytes(workload.dims, workload.dtype)
    if size > MAX_BYTES:
        problem = f"its tensors take more than {MAX_BYTES >> 30} GiB"
        return NcuReport(workload.name, problem=problem)
    case = Case(workload.name, "", workload.dtype, dict(workload.dims))
    prepared = case_to_watch(task, compiled, case, facts.attributes)
    if prepared is None:
        return NcuReport(workload.name, problem="the launch plan refuses this workload")
    watched, launches = prepared
    reader = _Reader(program, facts.uuid, watched, launches, seconds, keep)
    try:
        report = reader.read(workload.name, list(metrics))
    except DeviceBusy as error:
        return NcuReport(workload.name, problem=str(error))
    return msgspec.structs.replace(
        report, version=tool_version(program), seconds=time.monotonic() - began
    )


@dataclass(frozen=True)
class _Reader:
    """One workload's launches under one program."""

    program: Path
    uuid: str
    case: WatchedCase
    launches: tuple[PackedLaunch, ...]
    seconds: float
    keep: Callable[[WatchedRun], None]

    def read(self, workload: str, metrics: list[str]) -> NcuReport:
        """Asks again without the metrics that ncu does not know, as long as it names some."""
        missing: dict[str, str] = {}
        while True:
            run = self._run(metrics)
            unknown = [name for name in unknown_metrics(run.log + run.words) if name in metrics]
            if not unknown:
                return report_of(workload, self.launches, metrics, missing, run)
            missing |= dict.fromkeys(unknown, _UNKNOWN)
            metrics = [name for name in metrics if name not in missing]

    def _run(self, metrics: Sequence[str]) -> WatchedRun:
        count = len(self.launches)
        options = [
            "--set", "none",
            "--metrics", ",".join(metrics),
            "--launch-skip", str(_WARM_UPS * count),
            "--launch-count", str(count),
            "--cache-control", "all",
            "--clock-control", "none",
            "--target-processes", "all",
            "--print-units", "base",
            "--csv",
            "--page", "raw",
        ]  # fmt: skip
        request = WatchRequest(self.uuid, (self.case,), _WARM_UPS + 1, self.seconds)
        with shared_device(self.uuid).alone():
            run = watch(self.program, options, request)
        self.keep(run)
        return run


def report_of(
    workload: str,
    launches: Sequence[PackedLaunch],
    metrics: Sequence[str],
    missing: dict[str, str],
    run: WatchedRun,
) -> NcuReport:
    """What one run says; `missing` are metrics that it was not asked for, with the reason."""
    words = "; ".join(messages(run.log + "\n" + run.words)[:3])
    if _NOT_PERMITTED in run.log + run.words:
        return NcuReport(workload, problem=f"ncu may not read counters: {words}", remedy=REMEDY)
    if run.problem:
        return NcuReport(workload, problem=run.problem)
    if run.answer is None:
        return NcuReport(workload, problem=f"the launcher gave no answer: {words or run.words}")
    if run.answer.failed is not None:
        failed = run.answer.failed.message
        return NcuReport(workload, problem=f"the launches did not end well: {failed}")
    try:
        rows = read_table(run.log, metrics)
    except NoTable as error:
        return NcuReport(workload, problem=str(error))
    if len(rows) != len(launches):
        problem = f"ncu watched {len(rows)} launches, not {len(launches)}"
        return NcuReport(workload, problem=problem)
    counters = tuple(_counters(*pair, missing) for pair in zip(launches, rows, strict=True))
    return NcuReport(workload, counters)


def _counters(launch: PackedLaunch, row: Row, missing: dict[str, str]) -> LaunchCounters:
    return LaunchCounters(
        kernel=launch.kernel.expression,
        grid=launch.grid,
        block=launch.block,
        metrics=dict(row.metrics),
        missing={**missing, **row.missing},
    )


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
