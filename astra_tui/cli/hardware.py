"""A GPU's own counters against the emulator's, for `astra-tui counters --hardware`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.devices import open_compiler, open_device
from astra_tui.model.check import Case
from astra_tui.model.counters import Counters
from astra_tui.model.errors import UserError
from astra_tui.model.ncu import ComparedCounter, NcuReport, total
from astra_tui.model.task import KernelTask, Workload

GPU = "cuda"


def read_on_gpu(
    task: KernelTask, case: Case, sources: Sequence[tuple[Path, str]]
) -> list[NcuReport]:
    """What ncu counts when the first GPU runs each source on the case, or why it does not."""
    from astra_tui.gpu.ncu.metrics import COMPARED
    from astra_tui.lab.on_gpu.hardware_counters import read_source_counters

    workload = Workload(case.name, case.dims, case.dtype)
    reports = []
    with open_compiler(task) as compiler:
        try:
            with open_device(GPU, compiler) as opened:
                for file, text in sources:
                    plain.note(f"reading hardware counters of {file.name} ...")
                    reports.append(
                        read_source_counters(
                            task, compiler, opened, text, str(file), workload, COMPARED
                        )
                    )
        except UserError as error:
            left = len(sources) - len(reports)
            reports += [NcuReport(case.name, problem=error.message)] * left
    return reports


def compare_counters(counters: Counters, report: NcuReport) -> tuple[ComparedCounter, ...]:
    """The counters that both have; the GPU's added up over the launches."""
    from astra_tui.gpu.ncu.metrics import REQUESTS, SECTORS

    excess = [launch.excess_shared_wavefronts for launch in report.launches]
    known = [passes for passes in excess if passes is not None]
    conflicts = sum(known) if known and len(known) == len(excess) else None
    return (
        ComparedCounter("requests", counters.requests, total(report.launches, REQUESTS)),
        ComparedCounter("sectors", counters.sectors, total(report.launches, SECTORS)),
        ComparedCounter("bank_conflicts", counters.bank_conflicts, conflicts),
    )
