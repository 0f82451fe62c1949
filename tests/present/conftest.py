"""Sessions to report on: written event by event, and a real one on the emulator."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import pytest

from astra_tui.model.dtypes import DType
from astra_tui.model.events import Event, TimingFinished
from astra_tui.model.timing import (
    Caveat,
    Floor,
    PairedTime,
    PaperTime,
    Ratio,
    Timing,
    TimingVerdict,
    WorkloadTiming,
)
from astra_tui.present.files import as_html, as_markdown
from astra_tui.present.report import compose
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_writer import Journal, Redactor
from tests.present.page import Page
from tests.sessions.samples import (
    BASELINE,
    BASELINE_SOURCE,
    BETTER,
    BETTER_SOURCE,
    whole_session,
)

TUNED = "c" * 64
DRIFT = Caveat("drift", "the ratio was 1.2 in the first half of the rounds and 1.4 in the second")
VOID = Caveat("throttled", "the clocks fell to 1,200 MHz", invalidates=True)


def workload(name: str, base: float, best: float, *caveats: Caveat) -> WorkloadTiming:
    found = base / best
    return WorkloadTiming(
        workload=name,
        dims={"tokens": 16, "d": 4096},
        dtype=DType.FLOAT16,
        verdict=TimingVerdict.FASTER,
        cold=PairedTime(base, best, Ratio(found, found * 0.99, found * 1.01, 40)),
        threshold=0.00431,
        warm=PairedTime(base / 2, best / 3, Ratio(found * 1.5, found * 1.4, found * 1.6, 40)),
        paper=PaperTime(base + 3.03, best + 2.01),
        floor=Floor(0.781, 1.0947, 393216),
        launches=62,
        buffer_sets=61,
        offset_us=2.736,
        sm_mhz=1994.9,
        verified_sets=3,
        caveats=caveats,
    )


def final(base: str, factor: float) -> TimingFinished:
    timing = Timing(
        device="cuda:0",
        gpu="NVIDIA H100",
        base=base,
        candidate=BETTER,
        workloads=(
            workload("16x4096", 2.4137 * factor, 1.5071, DRIFT),
            workload("4096x14336", 1093.77 * factor, 301.218, DRIFT, VOID),
        ),
        speedup=Ratio(2.4137 * factor, 2.4 * factor, 2.5 * factor, 40),
        control=Ratio(1.0, 0.999, 1.001, 40),
        verdict=TimingVerdict.FASTER,
        reasons=("geometric mean above the threshold", "16x4096 is faster", "so is 4096x14336"),
        gpu_seconds=1.5,
    )
    return TimingFinished(timing, final=True)


def timed_session() -> list[Event]:
    """The sample with its winner measured again against both other versions."""
    *events, closed = whole_session()
    return [*events, final(BASELINE, 1.1), final(TUNED, 0.9), closed]


Written: TypeAlias = Callable[[Iterable[Event]], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a session of these events and the sample's sources; returns its folder."""

    def write(events: Iterable[Event], *sources: str) -> Path:
        folder = tmp_path / "sessions" / "sample"
        with Journal.create(folder, Redactor(environment={})) as journal:
            for text in sources or (BASELINE_SOURCE, BETTER_SOURCE):
                journal.put_source(text)
            for event in events:
                journal.append(event, sync=False)
        return folder

    return write


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory, three_rounds: Path) -> Path:
    """A real session on the emulator: a better, a wrong and a worse candidate."""
    return shutil.copytree(three_rounds, tmp_path_factory.mktemp("sessions") / "emulated")


def html_of(folder: Path) -> str:
    return as_html(compose(read_session(folder)))


def page_of(folder: Path) -> Page:
    return Page(html_of(folder))


def markdown_of(folder: Path) -> str:
    return as_markdown(compose(read_session(folder)))
