"""Looks up the numbers that a plan's evidence cites in what was measured of its starting source."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum

import msgspec

from astra_tui.model.counters import Counters, add_counters
from astra_tui.model.plan import Citation, CodePlace, Counter, Observation, places_words
from astra_tui.model.state import CandidateState
from astra_tui.model.timing import WorkloadTiming
from astra_tui.model.verdict import KernelUse, WorkloadProfile

RELATIVE_ROUNDING = 0.01
ABSOLUTE_ROUNDING = 0.005
"""A quoted number agrees within either: 1 %, or half of the second decimal place."""

COUNTED: tuple[str, ...] = (*Counter, "bytes", "shuffles", "sector_efficiency")
"""Properties of Counters; the only metrics that are known line by line."""

_SHARES = ("sector_efficiency", "occupancy", "of_floor")
"""Fractions of 1, which may be quoted in percent as well."""

_SHAPE: dict[str, Callable[[WorkloadProfile], float | None]] = {
    "blocks": lambda w: w.blocks,
    "threads": lambda w: w.threads,
    "compulsory_bytes": lambda w: w.compulsory_bytes,
    "waves": lambda w: w.waves.waves if w.waves else None,
}
_USE: dict[str, Callable[[KernelUse], float | None]] = {
    "registers": lambda k: k.registers,
    "spill_bytes": lambda k: k.spill_bytes,
    "shared_bytes": lambda k: k.shared_bytes,
    "occupancy": lambda k: k.occupancy,
    "resident_blocks": lambda k: k.resident_blocks,
}
_TIMES: dict[str, Callable[[WorkloadTiming], float | None]] = {
    "time_us": lambda t: t.cold.candidate_us,
    "chained_us": lambda t: t.chained.candidate_us if t.chained else None,
    "warm_us": lambda t: t.warm.candidate_us if t.warm else None,
    "paper_us": lambda t: t.paper.candidate_us if t.paper else None,
    "floor_us": lambda t: t.floor.us if t.floor else None,
    "of_floor": lambda t: t.of_floor,
}

METRICS: tuple[str, ...] = (*COUNTED, *_SHAPE, *_USE, *_TIMES)
"""All that can be cited by name, apart from the hardware counters, which have ncu's names."""

TIMES: tuple[str, ...] = tuple(_TIMES)
"""Metrics of a timing, in microseconds but for the share of the floor."""


class CitationStatus(StrEnum):
    """What the measurements say to a cited number."""

    AGREES = "agrees"
    DIFFERS = "differs"
    MISSING = "missing"
    """Nothing of that name was measured there."""


class CheckedCitation(msgspec.Struct, frozen=True):
    """A citation and the number that it is about; `known` is None where there is none."""

    citation: Citation
    known: float | None

    @property
    def standing(self) -> CitationStatus:
        """Whether the quoted number is the measured one, rounding aside."""
        if self.known is None:
            return CitationStatus.MISSING
        return (
            CitationStatus.AGREES if _agrees(self.citation, self.known) else CitationStatus.DIFFERS
        )

    def describe(self) -> str:
        """As in "sectors at line 7: says 5,200; the profile has 4,260"."""
        cited = self.citation
        quoted = number_words(cited.value)
        match self.standing:
            case CitationStatus.AGREES:
                says = f"{quoted}, as in the profile"
            case CitationStatus.DIFFERS:
                assert self.known is not None
                says = f"says {quoted}; the profile has {number_words(self.known)}"
            case CitationStatus.MISSING:
                says = f"says {quoted}; not in the profile"
        return f"{citation_words(cited)}: {says}"


def check_citations(
    observation: Observation, candidate: CandidateState
) -> tuple[CheckedCitation, ...]:
    """Every number that a sentence cites, with the measured one."""
    return tuple(check_citation(citation, candidate) for citation in observation.cites)


def check_citation(citation: Citation, candidate: CandidateState) -> CheckedCitation:
    """The number that a citation is about.

    Where its name fits several, such as one workload in two dtypes or a source that was timed
    twice, it is the first that agrees, else the first of all.
    """
    try:
        known = [float(n) for n in _numbers(citation, candidate) if n is not None]
    except OverflowError:  # Only a made-up journal has integers beyond all floats.
        known = []
    fitting = (n for n in known if _agrees(citation, n))
    return CheckedCitation(citation, next(fitting, known[0] if known else None))


def _agrees(citation: Citation, known: float) -> bool:
    if not math.isfinite(known):
        return citation.value == known
    quoted = [citation.value]
    if citation.metric in _SHARES:
        quoted.append(citation.value / 100)
    rounding = max(ABSOLUTE_ROUNDING, RELATIVE_ROUNDING * abs(known)) * (1 + 1e-9)
    return any(abs(value - known) <= rounding for value in quoted)


def _numbers(cited: Citation, candidate: CandidateState) -> list[float | None]:
    """Every number that the citation may mean; None for those that were not measured."""
    metric, profile = cited.metric, candidate.profile
    if metric in COUNTED:
        return _counted(cited, candidate)
    if cited.lines:
        return []
    if metric in _TIMES:
        timings = (f.timing for f in reversed(candidate.timings))
        times = (t for timing in timings for t in timing.workloads)
        return [_TIMES[metric](t) for t in times if cited.of in ("", t.workload)]
    if metric in _SHAPE and profile is not None:
        shapes = profile.workloads
        return [_SHAPE[metric](w) for w in shapes if cited.of in ("", w.workload)]
    if metric in _USE and profile is not None:
        return [_USE[metric](k) for k in profile.kernels if _is_of(cited, k.kernel)]
    return _read_by_ncu(cited, candidate)


def _counted(cited: Citation, candidate: CandidateState) -> list[float | None]:
    if candidate.profile is None or candidate.profile.uncounted:
        return []
    workloads = candidate.profile.workloads
    counted = [w.counters for w in workloads if cited.of in ("", w.workload)]
    if not cited.of:
        counted = [add_counters(counted)]
    if cited.lines:
        counted = [_at(counters, cited.lines) for counters in counted]
    if cited.metric == "sector_efficiency":
        counted = [counters for counters in counted if counters.sectors]  # Else a share of nothing.
    return [getattr(counters, cited.metric) for counters in counted]


def _at(counters: Counters, places: tuple[CodePlace, ...]) -> Counters:
    files = dict.fromkeys(place.file for place in places)
    return add_counters(
        counters.at(*(range(p.first, p.last + 1) for p in places if p.file == file), file=file)
        for file in files
    )


def _read_by_ncu(cited: Citation, candidate: CandidateState) -> list[float | None]:
    report = candidate.hardware
    if report is None:
        return []
    read_of_it = (
        launch.metrics.get(cited.metric)
        for launch in report.launches
        if cited.of == report.workload or _is_of(cited, launch.kernel)
    )
    return [metric.value for metric in read_of_it if metric is not None]


def _is_of(cited: Citation, kernel: str) -> bool:
    """Whether a kernel is the cited one; its template arguments may be left out."""
    return cited.of in ("", kernel, kernel.partition("<")[0])


def citation_words(citation: Citation) -> str:
    """What a citation is about, as in "warp instructions at lines 7 and 9 of decode"."""
    words = citation.metric
    if words in METRICS:
        words = words.removesuffix("_us").replace("_", " ")
        words += " in us" if citation.metric.endswith("_us") else ""
    if citation.lines:
        words += f" at {places_words(citation.lines)}"
    return f"{words} of {citation.of}" if citation.of else words


def number_words(value: float) -> str:
    """As in "5,200" or "0.75"."""
    is_whole = float(value).is_integer() and abs(value) < 1e15
    return f"{value:,.0f}" if is_whole else f"{value:,.4g}"
