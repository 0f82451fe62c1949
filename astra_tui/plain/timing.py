"""Timings in words and tables, for `bench` and for the end of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from astra_tui.model.events import RoundsTimed
from astra_tui.model.gpu import EnergyUse
from astra_tui.model.timing import (
    BEHIND_PRODUCER,
    Caveat,
    PairedEnergy,
    Timing,
    WorkloadTiming,
)
from astra_tui.plain.console import console, indented, print_table, table, toned
from astra_tui.plain.output import visible
from astra_tui.present.numbers import (
    geometric_mean,
    microseconds,
    percent,
    ratio,
    seconds,
    significant,
    speedup,
    times,
)
from astra_tui.present.tones import Tone
from astra_tui.present.words import phrase_of, timing_verdict, words_of

PAIRED_COLUMNS = (
    "workload", "base us", "cand. us", "speedup", "verdict", "floor", "warm", "paper",
)  # fmt: skip
_PAPER_COLUMNS = ("workload", "base us", "cand. us", "speedup")

_PAIRED = "paired graph replay, every launch with its data outside the L2 cache (docs/timing.md)"
_PAPER = "the Astra paper's protocol: 100 launches from the host, arithmetic mean"
_PROTOCOLS = {
    "paired": f"measured by {_PAIRED}",
    "paper": f"measured by {_PAPER}",
    "both": f'measured by {_PAIRED}; "paper" is {_PAPER}',
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


# -- tables ----------------------------------------------------------------------------------------


def paired_table() -> Table:
    """An empty table for `done_cells` and `underway_cells`."""
    made = table(*PAIRED_COLUMNS)
    for name, column in zip(PAIRED_COLUMNS, made.columns, strict=True):
        if name not in ("workload", "speedup", "verdict"):
            column.justify = "right"
        column.no_wrap = name != "verdict"  # Its marks may go below it on a narrow terminal.
    return made


def done_cells(timing: WorkloadTiming, marks: CaveatMarks) -> tuple[str | Text, ...]:
    """The row of a workload that was measured."""
    verdict = Text.assemble(
        toned(*phrase_of(timing.verdict)), toned(marks.of(timing.caveats), Tone.CAUTION)
    )
    return (
        visible(timing.workload),
        microseconds(timing.cold.base_us),
        microseconds(timing.cold.candidate_us),
        speedup(timing.cold.speedup, ""),
        verdict,
        percent(timing.of_floor) if timing.of_floor is not None else "",
        ratio(timing.warm.speedup.value, "") if timing.warm else "",
        ratio(timing.paper.speedup, "") if timing.paper else "",
    )


def underway_cells(event: RoundsTimed) -> tuple[str | Text, ...]:
    """The row of a workload whose rounds are coming in."""
    return (
        visible(event.workload),
        microseconds(event.base_us),
        microseconds(event.candidate_us),
        speedup(event.speedup, ""),
        toned(f"{event.rounds} rounds", Tone.DIM),
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
    verdict = timing_verdict(timing)
    out.print(toned(": ".join([verdict.words, *timing.reasons[:1]]), verdict.tone))
    for reason in timing.reasons[1:]:
        indented(out, reason, 2)
    if detectable is not None:
        indented(out, f"differences down to {percent(detectable, 2)} can be told apart here", 2)


def _print_chained(out: Console, timing: Timing) -> None:
    if any(workload.producer for workload in timing.workloads):
        indented(out, BEHIND_PRODUCER, 2)
    for workload in timing.workloads:
        if workload.chained is not None:
            alone = workload.chained
            shown = f"{speedup(alone.speedup)}, {times(alone.base_us, alone.candidate_us)}"
            indented(out, f"{visible(workload.workload)} after itself alone: {shown}", 2)


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
    return f"{significant(1e3 * use.joules_per_launch)} mJ at {use.watts:.0f} W"


def _mean_cells(timing: Timing) -> tuple[str | Text, ...]:
    """The row of geometric means over the workloads."""
    warm = _mean([w.warm.speedup.value if w.warm else None for w in timing.workloads])
    paper = _mean([w.paper.speedup if w.paper else None for w in timing.workloads])
    verdict = toned(words_of(timing.verdict), timing_verdict(timing).tone)
    return ("mean", "", "", speedup(timing.speedup, ""), verdict, "", warm, paper)


def print_paper_timing(timing: Timing, *, base: str, candidate: str) -> None:
    """The same by the paper's protocol alone, which has no interval and so no verdict."""
    out, marks = console(), CaveatMarks()
    _print_title(out, timing, base, candidate)
    rows = table(*_PAPER_COLUMNS)
    for workload in timing.workloads:
        paper = workload.paper
        if paper is not None:
            both = microseconds(paper.base_us), microseconds(paper.candidate_us)
            found = f"{ratio(paper.speedup, '')}{marks.of(workload.caveats)}"
            rows.add_row(visible(workload.workload), *both, found)
    print_table(out, rows)
    _print_caveats(out, marks)
    _print_energy(out, timing)
    mean = _mean([w.paper.speedup if w.paper else None for w in timing.workloads])
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
    out.print(f"  ({timing.device}{clock}, {seconds(timing.seconds)})")


def _print_caveats(out: Console, marks: CaveatMarks) -> None:
    for line in marks.lines():
        indented(out, line, 2)


def _mean(ratios: Sequence[float | None]) -> str:
    """Of speedups; "" unless every workload has one."""
    mean = geometric_mean(ratios)
    return "" if mean is None else ratio(mean, "")
