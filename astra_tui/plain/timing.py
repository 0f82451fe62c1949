"""Timings in words and tables, for `bench` and for the end of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from astra_tui.model.events import RoundsTimed
from astra_tui.model.gpu import EnergyUse, GpuIdentity
from astra_tui.model.timing import (
    BEHIND_PRODUCER,
    Caveat,
    PairedEnergy,
    Ratio,
    Timing,
    TimingVerdict,
    WorkloadTiming,
)
from astra_tui.plain.console import console, indented, print_table, table
from astra_tui.plain.output import visible

PAIRED_COLUMNS = (
    "workload", "base us", "cand. us", "ratio", "verdict", "floor", "warm", "paper",
)  # fmt: skip
_PAPER_COLUMNS = ("workload", "base us", "cand. us", "ratio")

_PAIRED = "paired graph replay, every launch with its data outside the L2 cache (docs/timing.md)"
_PAPER = "the Astra paper's protocol: 100 launches from the host, arithmetic mean"
_PROTOCOLS = {
    "paired": f"measured by {_PAIRED}",
    "paper": f"measured by {_PAPER}",
    "both": f'measured by {_PAIRED}; "paper" is {_PAPER}',
}

_STYLES = {
    TimingVerdict.FASTER: "green",
    TimingVerdict.SLOWER: "red",
    TimingVerdict.SAME: "",
    TimingVerdict.INCONCLUSIVE: "yellow",
}


class CaveatMarks:
    """Numbers for caveats, the same number for the same caveat of several workloads."""

    def __init__(self) -> None:
        self._numbers: dict[Caveat, int] = {}

    def of(self, caveats: Iterable[Caveat]) -> str:
        """The mark to put after a verdict, such as " [1,3]"; "" without caveats."""
        numbers = [self._numbers.setdefault(d, len(self._numbers) + 1) for d in caveats]
        return f" [{','.join(map(str, dict.fromkeys(numbers)))}]" if numbers else ""

    def lines(self) -> list[str]:
        """Every caveat that was marked, with its number."""
        return [f"[{n}] {_caveat_words(d)}" for d, n in self._numbers.items()]


def _caveat_words(caveat: Caveat) -> str:
    return f"{caveat.message} (it decides nothing)" if caveat.invalidates else caveat.message


# -- one line --------------------------------------------------------------------------------------


def ratio_words(ratio: Ratio) -> str:
    """1.234 +-0.12 %: the ratio, and half its 95 % interval relative to it."""
    if not math.isfinite(ratio.high):
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} +-{100 * ratio.half_width:.2f} %"


def workload_line(timing: WorkloadTiming) -> str:
    """One workload on one line: caveats by their kind, those that void it in words."""
    cold = timing.cold
    text = (
        f"{timing.workload}: {_us(cold.base_us)} to {_us(cold.candidate_us)} us, "
        f"ratio {ratio_words(cold.speedup)}, {timing.verdict.value}"
    )
    if timing.of_floor is not None:
        text += f", {_percent(timing.of_floor)} of the floor"
    kinds = dict.fromkeys(d.kind for d in timing.caveats if not d.invalidates)
    if kinds:
        text += f"; caveats: {', '.join(kinds)}"
    return text + "".join(f"; {_caveat_words(d)}" for d in timing.caveats if d.invalidates)


def rounds_line(event: RoundsTimed) -> str:
    """How far the measurement of one workload is."""
    return (
        f"{event.workload}: ratio {ratio_words(event.speedup)} after {event.rounds} rounds "
        f"({_us(event.base_us)} to {_us(event.candidate_us)} us)"
    )


def overall_words(timing: Timing) -> str:
    """The verdict and the most important reason for it."""
    return ": ".join([timing.verdict.value, *timing.reasons[:1]])


def gpu_words(device: str, gpu: GpuIdentity | None) -> str:
    """A device with what identifies it, on one line."""
    if gpu is None:
        return device
    parts = [device, gpu.name or "a GPU of unknown name"]
    parts.append(f"driver {gpu.driver}" if gpu.driver else "driver unknown")
    if gpu.max_sm_mhz:
        parts.append(f"SM clock up to {gpu.max_sm_mhz} MHz")
    return ", ".join(parts)


# -- tables ----------------------------------------------------------------------------------------


def paired_table() -> Table:
    """An empty table for `done_cells` and `underway_cells`."""
    made = table(*PAIRED_COLUMNS)
    for name, column in zip(PAIRED_COLUMNS, made.columns, strict=True):
        if name not in ("workload", "ratio", "verdict"):
            column.justify = "right"
        column.no_wrap = name != "verdict"  # Its marks may go below it on a narrow terminal.
    return made


def done_cells(timing: WorkloadTiming, marks: CaveatMarks) -> tuple[str | Text, ...]:
    """The row of a workload that was measured."""
    verdict = Text.assemble(
        (timing.verdict.value, _STYLES[timing.verdict]), (marks.of(timing.caveats), "yellow")
    )
    return (
        visible(timing.workload),
        _us(timing.cold.base_us),
        _us(timing.cold.candidate_us),
        ratio_words(timing.cold.speedup),
        verdict,
        _percent(timing.of_floor) if timing.of_floor is not None else "",
        f"{timing.warm.speedup.value:.3f}" if timing.warm else "",
        f"{timing.paper.speedup:.3f}" if timing.paper else "",
    )


def underway_cells(event: RoundsTimed) -> tuple[str | Text, ...]:
    """The row of a workload whose rounds are coming in."""
    return (
        visible(event.workload),
        _us(event.base_us),
        _us(event.candidate_us),
        ratio_words(event.speedup),
        Text(f"{event.rounds} rounds", style="dim"),
        *("", "", ""),
    )


def print_timing(
    timing: Timing, *, base: str, candidate: str, detectable: float | None = None
) -> None:
    """A paired timing: a row a workload and one of means, the caveats, what it amounts to.

    `base` and `candidate` are how the versions are named here; `detectable` is the smallest
    difference that this measurement could tell, as a fraction.
    """
    out, marks = console(), CaveatMarks()
    _print_title(out, timing, base, candidate)
    rows = paired_table()
    for workload in timing.workloads:
        rows.add_row(*done_cells(workload, marks))
    rows.add_row(*_mean_cells(timing), style="bold")
    print_table(out, rows)
    _print_caveats(out, marks)
    _print_chained(out, timing)
    _print_energy(out, timing)
    out.print(Text(overall_words(timing), style=_STYLES[timing.verdict]))
    for reason in timing.reasons[1:]:
        indented(out, reason, 2)
    if detectable is not None:
        indented(out, f"differences down to {100 * detectable:.2f} % can be told apart here", 2)


def _print_chained(out: Console, timing: Timing) -> None:
    if any(workload.producer for workload in timing.workloads):
        indented(out, BEHIND_PRODUCER, 2)
    for workload in timing.workloads:
        if workload.chained is not None:
            times = f"{_us(workload.chained.base_us)} to {_us(workload.chained.candidate_us)} us"
            words = f"{times}, ratio {ratio_words(workload.chained.speedup)}"
            indented(out, f"{visible(workload.workload)} after itself alone: {words}", 2)


def _print_energy(out: Console, timing: Timing) -> None:
    for workload in timing.workloads:
        if workload.energy is not None:
            indented(out, energy_words(workload.workload, workload.energy), 2)


def energy_words(workload: str, energy: PairedEnergy) -> str:
    """What a launch takes of each version, or why it cannot be told."""
    return (
        f"energy of a launch on {visible(workload)}: base {_energy(energy.base)}, "
        f"candidate {_energy(energy.candidate)}"
    )


def _energy(use: EnergyUse) -> str:
    if use.joules_per_launch is None or use.watts is None:
        return f"not measured ({visible(use.missing)})"
    return f"{1e3 * use.joules_per_launch:.3g} mJ at {use.watts:.0f} W"


def _mean_cells(timing: Timing) -> tuple[str | Text, ...]:
    """The row of geometric means over the workloads."""
    warm = _geometric_mean([w.warm.speedup.value if w.warm else None for w in timing.workloads])
    paper = _geometric_mean([w.paper.speedup if w.paper else None for w in timing.workloads])
    verdict = Text(timing.verdict.value, style=_STYLES[timing.verdict])
    return ("mean", "", "", ratio_words(timing.speedup), verdict, "", warm, paper)


def print_paper_timing(timing: Timing, *, base: str, candidate: str) -> None:
    """The same by the paper's protocol alone, which has no interval and so no verdict."""
    out, marks = console(), CaveatMarks()
    _print_title(out, timing, base, candidate)
    rows = table(*_PAPER_COLUMNS)
    for workload in timing.workloads:
        paper = workload.paper
        if paper is not None:
            ratio = f"{paper.speedup:.3f}{marks.of(workload.caveats)}"
            times = _us(paper.base_us), _us(paper.candidate_us)
            rows.add_row(visible(workload.workload), *times, ratio)
    print_table(out, rows)
    _print_caveats(out, marks)
    _print_energy(out, timing)
    mean = _geometric_mean([w.paper.speedup if w.paper else None for w in timing.workloads])
    out.print(f"geometric mean {mean}; the paper's protocol has no interval, and so no verdict")


def print_environment(where: str, checks: Sequence[str], protocol: str) -> None:
    """On what and how it was measured, and what was checked before; the lines above the tables."""
    out = console()
    indented(out, where, 0)
    indented(out, f"checked on the GPU: {'; '.join(checks)}", 0)
    indented(out, _PROTOCOLS[protocol], 0)


def _print_title(out: Console, timing: Timing, base: str, candidate: str) -> None:
    clocks = [w.sm_mhz for w in timing.workloads if w.sm_mhz]
    clock = ""
    if clocks:
        low, high = min(clocks), max(clocks)
        clock = f", at {low:.0f} MHz" if high - low < 1 else f", at {low:.0f} to {high:.0f} MHz"
    base_name = "itself" if timing.base == timing.candidate else visible(base)
    out.print("")
    out.print(Text(f"{visible(candidate)} against {base_name}", style="bold"), end="")
    out.print(f"  ({timing.device}{clock}, {timing.seconds:.1f} s)")


def _print_caveats(out: Console, marks: CaveatMarks) -> None:
    for line in marks.lines():
        indented(out, line, 2)


def _geometric_mean(ratios: Sequence[float | None]) -> str:
    """The mean in three decimals; "" unless every workload has a ratio."""
    known = [r for r in ratios if r is not None]
    if not known or len(known) < len(ratios):
        return ""
    return f"{math.exp(math.fsum(map(math.log, known)) / len(known)):.3f}"


def _us(time: float) -> str:
    """Three significant digits or more, two decimals at most."""
    return f"{time:.2f}" if time < 100 else f"{time:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
