"""Timings in words and tables, on values that are made up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.console import Console

from astra_tui.model.dtypes import DType
from astra_tui.model.events import RoundsTimed
from astra_tui.model.gpu import EnergyUse, GpuIdentity
from astra_tui.model.timing import (
    Caveat,
    Floor,
    PairedEnergy,
    PairedTime,
    PaperTime,
    Ratio,
    Timing,
    TimingVerdict,
    WorkloadTiming,
)
from astra_tui.plain.live_timing import TimingProgress
from astra_tui.plain.timing import (
    CaveatMarks,
    done_cells,
    energy_words,
    paired_table,
    print_environment,
    print_paper_timing,
    print_timing,
)
from astra_tui.present.events import describe
from astra_tui.present.words import device_words, workload_words

THROTTLED = Caveat("throttle", "throttled by its power limit for 0.3 s")
HIDDEN = Caveat("processes", "other processes: not visible from this container")
DRIFTED = Caveat("drift", "the two halves disagree", invalidates=True)


def workload(
    name: str, verdict: TimingVerdict, speedup: Ratio, *caveats: Caveat, of_floor: float = 0.75
) -> WorkloadTiming:
    """Of a base that takes 8 us."""
    candidate_us = 8.0 / speedup.value
    return WorkloadTiming(
        workload=name,
        dims={"tokens": 16},
        dtype=DType.FLOAT16,
        verdict=verdict,
        cold=PairedTime(8.0, candidate_us, speedup),
        threshold=0.003,
        warm=PairedTime(6.0, 5.0, Ratio(1.2, 1.19, 1.21, 40)),
        paper=PaperTime(10.0, 8.0),
        floor=Floor(1.0, of_floor * candidate_us, 1024),
        sm_mhz=1755.0,
        caveats=caveats,
    )


TIMING = Timing(
    device="cuda:0",
    gpu="NVIDIA H100",
    base="b" * 64,
    candidate="c" * 64,
    workloads=(
        workload("16x4096", TimingVerdict.FASTER, Ratio(1.6, 1.59, 1.61, 40), THROTTLED, HIDDEN),
        workload("1024x13824", TimingVerdict.SAME, Ratio(1.0, 0.998, 1.002, 60), HIDDEN),
    ),
    speedup=Ratio(1.265, 1.26, 1.27, 100),
    control=Ratio(1.0, 0.999, 1.001, 100),
    verdict=TimingVerdict.FASTER,
    reasons=("geometric mean 1.2650, above the threshold", "16x4096 is 60.0 % faster (cold)"),
    seconds=3.21,
)


def test_a_timing_is_a_table_with_marks_for_caveats(capsys: pytest.CaptureFixture[str]) -> None:
    print_timing(TIMING, base="baseline.cu", candidate="mine.cu", detectable=0.0012)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "",
        "mine.cu against baseline.cu  (cuda:0, at 1755 MHz, 3.2 s)",
        "workload    base us  cand. us  speedup               verdict       floor   warm  paper",
        "16x4096        8.00      5.00  1.600 [1.590, 1.610]  faster [1,2]   75 %  1.200  1.250",
        "1024x13824     8.00      8.00  1.000 [0.998, 1.002]  same [2]       75 %  1.200  1.250",
        "mean                           1.265 [1.260, 1.270]  faster               1.200  1.250",
        "  [1] throttled by its power limit for 0.3 s",
        "  [2] other processes: not visible from this container",
        "faster: geometric mean 1.2650, above the threshold",
        "  16x4096 is 60.0 % faster (cold)",
        "  differences down to 0.12 % can be told apart here",
    ]


def test_on_a_narrow_terminal_only_marks_wrap() -> None:
    made, marks = paired_table(), CaveatMarks()
    made.add_row(*done_cells(TIMING.workloads[0], marks))
    console = Console(width=78, highlight=False)
    with console.capture() as captured:
        console.print(made)
    heading, row, rest = captured.get().splitlines()
    assert heading.endswith(" warm  paper")
    assert row.split()[-6:] == ["1.610]", "faster", "75", "%", "1.200", "1.250"]
    assert rest.split() == ["[1,2]"]


def test_what_was_not_measured_is_left_blank(capsys: pytest.CaptureFixture[str]) -> None:
    first = replace(TIMING.workloads[0], warm=None, paper=None, floor=None, caveats=())
    timing = replace(TIMING, workloads=(first, TIMING.workloads[1]))
    print_timing(timing, base="baseline.cu", candidate="mine.cu")
    lines = capsys.readouterr().out.splitlines()
    row, _, mean = lines[3:6]
    assert row.split() == ["16x4096", "8.00", "5.00", "1.600", "[1.590,", "1.610]", "faster"]
    assert mean.split() == ["mean", "1.265", "[1.260,", "1.270]", "faster"], "no mean of a part"
    assert not any("told apart" in line for line in lines)


def test_a_voided_workload_says_that_it_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    void = workload("16x4096", TimingVerdict.INCONCLUSIVE, Ratio(1.6, 1.5, 1.7, 40), DRIFTED)
    reasons = ("16x4096 may decide nothing: the two halves disagree",)
    timing = replace(TIMING, workloads=(void,), verdict=TimingVerdict.INCONCLUSIVE, reasons=reasons)
    print_timing(timing, base="baseline.cu", candidate="mine.cu")
    out = capsys.readouterr().out
    assert "inconclusive [1]" in out
    assert "  [1] the two halves disagree (it decides nothing)\n" in out
    assert f"inconclusive: {reasons[0]}\n" in out
    assert workload_words(void).endswith("; the two halves disagree (it decides nothing)")


def test_the_same_source_twice_is_beside_itself(capsys: pytest.CaptureFixture[str]) -> None:
    print_timing(replace(TIMING, candidate=TIMING.base), base="a.cu", candidate="a.cu")
    assert capsys.readouterr().out.startswith("\na.cu against itself  (")


def test_the_paper_s_protocol_has_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    print_paper_timing(TIMING, base="baseline.cu", candidate="mine.cu")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == [
        "workload    base us  cand. us  speedup",
        "16x4096     10.00    8.00      1.250 [1,2]",
        "1024x13824  10.00    8.00      1.250 [2]",
    ]
    assert lines[-1].startswith("geometric mean 1.250; ")
    assert "faster" not in "".join(lines)


def test_the_environment_names_gpu_and_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    gpu = GpuIdentity(name="NVIDIA H100", driver="580.159.04", max_sm_mhz=1980)
    print_environment(device_words("cuda:0", gpu), ["a.cu: 96 cases passed"], "paired")
    first, checks, second = capsys.readouterr().out.splitlines()
    assert first == "cuda:0, NVIDIA H100, driver 580.159.04, SM clock up to 1,980 MHz"
    assert checks == "checked on the GPU: a.cu: 96 cases passed"
    assert second.startswith("measured by paired graph replay, ")
    assert device_words("cuda:0", GpuIdentity()) == "cuda:0, a GPU of unknown name, driver unknown"
    assert device_words("emulator", None) == "emulator"


def test_one_line_for_a_workload_and_for_its_rounds() -> None:
    line = "16x4096 float16: 1.600x [1.590, 1.610] faster, 8.00 to 5.00 us, 75 % of the floor"
    caveats = f"; {THROTTLED.message}; {HIDDEN.message}"
    assert workload_words(TIMING.workloads[0]) == line + caveats
    event = RoundsTimed("c", "b", "16x4096", 8.0, 5.0, Ratio(1.6, 1.5, 1.7, 20), 20)
    told = describe(event)
    assert told is not None
    assert told.words == "16x4096: 1.600x [1.500, 1.700] after 20 rounds, 8.00 to 5.00 us"


def shown(progress: TimingProgress, height: int) -> list[str]:
    console = Console(width=120, highlight=False)
    with console.capture() as captured:
        console.print(progress.table(height))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_live_table_has_the_latest_rows_and_their_caveats() -> None:
    progress = TimingProgress(["a.cu", "b.cu"])
    event = RoundsTimed("c", "b", "16x4096", 8.0, 5.0, Ratio(1.6, 1.5, 1.7, 20), 20)
    progress.rounds(0, event)
    progress.rounds(1, event)
    heading, first, second = shown(progress, 10)
    assert heading.startswith("candidate, workload ")
    assert first.startswith("a.cu, 16x4096 ")
    assert second.startswith("b.cu, 16x4096 ")
    assert first.endswith("1.600 [1.500, 1.700]  20 rounds")
    progress.done(0, TIMING.workloads[0])
    _, first, second, caption, *_ = shown(progress, 10)
    assert "faster [1,2]" in first
    assert second.endswith("20 rounds")
    assert caption.startswith("[1] throttled by its power limit for 0.3 s; [2] other processes")
    _, only = shown(progress, 1)
    assert only.startswith("b.cu, 16x4096 ")


def test_in_a_pipe_every_workload_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with TimingProgress(["a.cu"]) as progress:
        event = RoundsTimed("c", "b", "16x4096", 8.0, 5.0, Ratio(1.6, 1.5, 1.7, 20), 20)
        progress.rounds(0, event)
        progress.done(0, TIMING.workloads[1])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "1024x13824 float16: 1.000x [0.998, 1.002] same, 8.00 to 8.00 us, 75 % of the floor; "
        f"{HIDDEN.message}\n"
    )


def test_energy_is_a_number_or_a_reason() -> None:
    known = EnergyUse(1000, 2.0, joules=600.0, joules_per_launch=0.6, watts=300.0)
    unknown = EnergyUse(1000, 2.0, missing="no NVIDIA driver")
    words = energy_words("16x4096", PairedEnergy(known, unknown))
    assert "base 600 mJ at 300 W" in words
    assert "candidate not measured (no NVIDIA driver)" in words
