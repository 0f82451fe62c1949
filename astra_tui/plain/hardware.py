"""Hardware counters that ncu read, in words and tables; never its durations."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from astra_tui.model.ncu import ComparedCounter, LaunchCounters, NcuReport
from astra_tui.plain.console import console, indented, print_table, table
from astra_tui.present.numbers import count

_HEADLINE = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput",
    "lts__t_sector_hit_rate.pct": "L2 hits",
    "l1tex__t_sector_hit_rate.pct": "L1 hits",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "active warps",
}
"""What a report shows of the metrics; the JSON has all of them."""


def hardware_words(report: NcuReport) -> str:
    """How many counters were read, or why none."""
    return f"hardware counters: {report.outcome}"


def print_hardware(out: Console, report: NcuReport) -> None:
    """The most telling counters of every launch."""
    indented(out, hardware_words(report), 0)
    if report.remedy:
        indented(out, report.remedy, 2)
    for launch in report.launches:
        indented(out, f"{launch.kernel}: {', '.join(_headline(launch))}", 2)


def _headline(launch: LaunchCounters) -> list[str]:
    shown = [
        f"{label} {launch.metrics[name].value:.1f} %"
        for name, label in _HEADLINE.items()
        if name in launch.metrics
    ]
    if launch.excess_shared_wavefronts is not None:
        shown.append(f"{launch.excess_shared_wavefronts:,.0f} passes lost to bank conflicts")
    return shown


def print_compared(file: str, report: NcuReport, counters: Sequence[ComparedCounter]) -> None:
    """The emulator's counters against the GPU's, with what lies between; or why there are none."""
    out = console()
    out.print()
    if not report.available:
        indented(out, f"{file}: {hardware_words(report)}", 0)
        if report.remedy:
            indented(out, report.remedy, 2)
        return
    version = f" by ncu {report.version}" if report.version else ""
    indented(out, f"{file}: the GPU's own counters{version}, in the same case", 0)
    rows = table("", "emulator", "GPU", "difference", "")
    for column in rows.columns[1:-1]:
        column.justify = "right"
    for counter in counters:
        values = (count(counter.emulator), _number(counter.gpu), _number(counter.difference, "+"))
        remark = "" if counter.gpu is not None else "not read by ncu"
        rows.add_row(counter.counter.replace("_", " "), *values, remark)
    print_table(out, rows)
    for name, why in {
        n: w for launch in report.launches for n, w in launch.missing.items()
    }.items():
        indented(out, f"{name}: {why}", 2)


def _number(value: float | None, sign: str = "") -> str:
    return f"{value:{sign},.0f}" if value is not None else ""
