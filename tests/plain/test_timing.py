"""Timings in words and tables, on values that are made up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.console import Console, Group

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
from astra_tui.plain import print_blocks
from astra_tui.plain.console import TimingProgress, live_display, text_lines
from astra_tui.present.document import Block, Line, Table, phrases
from astra_tui.present.events import describe
from astra_tui.present.layout import Layout, line_text
from astra_tui.present.timing import (
    circumstances_blocks,
    timing_blocks,
)
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


def lines_of(blocks: list[Block], capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_blocks(blocks)
    return capsys.readouterr().out.splitlines()


def blocks_of(timing: Timing, detectable: float | None = None) -> list[Block]:
    return timing_blocks(timing, "baseline.cu", "mine.cu", detectable=detectable)


def by_paper(timing: Timing) -> list[Block]:
    return timing_blocks(timing, "baseline.cu", "mine.cu", by_paper=True)


def test_a_timing_is_a_table_with_marks_for_caveats(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(blocks_of(TIMING, 0.0012), capsys)
    assert lines[:4] == [
        "faster mine.cu against baseline.cu (cuda:0, 1,755 MHz, 3.2 s)",
        "geometric mean 1.2650, above the threshold",
        "",
        "mine.cu against baseline.cu: cold decides",
    ]
    heading, first, second, mean = lines[4:8]
    assert heading.split()[:5] == ["workload", "protocol", "base", "us", "cand."]
    shown = "16x4096 cold 8.00 5.00 1.600x [1.590, 1.610] faster [1] [2] 75 % 0.30 % 3.75 float16"
    assert " ".join(first.split()) == f"{shown} 40"
    assert "1.000x  [0.998, 1.002]  same     [2]" in second
    assert " ".join(mean.split()) == "geometric mean cold 1.265x [1.260, 1.270] faster"
    assert "1.200x  [1.190, 1.210]" in lines[8]
    assert lines[14:] == [
        f"  [1] {THROTTLED.message}",
        f"  [2] {HIDDEN.message}",
        "  16x4096 is 60.0 % faster (cold)",
        "Differences down to 0.12 % can be told apart here.",
    ]


@pytest.mark.parametrize("width", range(20, 140))
def test_a_narrow_terminal_shows_all_columns(width: int) -> None:
    (table,) = [b for b in blocks_of(TIMING) if isinstance(b, Table) and "cold" in b.caption]
    lines = laid_out(table, width)
    assert max(map(len, lines)) <= width
    told = " ".join(lines).split()
    assert {word for name in table.columns[1:] for word in name.split()} <= set(told)
    cells = (word for row in table.rows for cell in row for word in text_of(cell).split())
    assert set(cells) <= set(told)
    is_in_two = told.count("workload") == 2
    assert is_in_two == (77 <= width < 122)


def text_of(cell: Line) -> str:
    return "".join(phrase.text for phrase in phrases(cell))


def laid_out(table: Table, width: int) -> list[str]:
    layout = Layout(width)
    layout.blocks([table])
    return [line_text(line).rstrip() for line in layout.lines]


def test_what_was_not_measured_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    bare = {"warm": None, "paper": None, "floor": None, "caveats": ()}
    workloads = tuple(replace(w, **bare) for w in TIMING.workloads)
    text = "\n".join(lines_of(blocks_of(replace(TIMING, workloads=workloads)), capsys))
    assert not any(word in text for word in ("floor", "warm", "paper", "caveats", "told apart"))
    part = replace(TIMING, workloads=(workloads[0], TIMING.workloads[1]))
    mean = [x for x in lines_of(blocks_of(part), capsys) if x.startswith("geometric mean")][-1]
    assert mean.split() == ["geometric", "mean", "paper"], "no mean of a part"


def test_every_mean_is_by_the_weights_of_the_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    short, long = TIMING.workloads
    slow = replace(long, warm=PairedTime(6.0, 6.0, Ratio(1.0, 0.9, 1.1, 40)), weight=3.0)
    weighted = replace(TIMING, workloads=(short, replace(slow, paper=PaperTime(8.0, 8.0))))
    lines = [*lines_of(blocks_of(weighted), capsys)]
    lines += lines_of(by_paper(weighted), capsys)
    assert any(line.startswith("16x4096 (25.0 %)") for line in lines)
    means = [" ".join(x.split()) for x in lines if x.startswith("weighted geometric mean")]
    warm, paper = f"{1.2**0.25:.3f}x", f"{1.25**0.25:.3f}x"
    assert means == [
        "weighted geometric mean cold 1.265x [1.260, 1.270] faster",
        f"weighted geometric mean warm {warm}",
        f"weighted geometric mean paper {paper}",
        f"weighted geometric mean paper {paper}",
    ]


def test_a_voided_workload_says_that_it_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    void = workload("16x4096", TimingVerdict.INCONCLUSIVE, Ratio(1.6, 1.5, 1.7, 40), DRIFTED)
    timing = replace(TIMING, workloads=(void,), verdict=TimingVerdict.INCONCLUSIVE)
    lines = lines_of(blocks_of(timing), capsys)
    assert lines[0].startswith("inconclusive mine.cu against")
    assert "inconclusive  [1] decides nothing" in lines[5]
    assert "  [1] the two halves disagree" in lines
    assert workload_words(void).endswith("; the two halves disagree (it decides nothing)")


def test_the_paper_s_protocol_has_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(by_paper(TIMING), capsys)
    assert [" ".join(line.split()) for line in lines[3:7]] == [
        "workload protocol base us cand. us speedup caveats",
        "16x4096 paper 10.00 8.00 1.250x [1] [2]",
        "1024x13824 paper 10.00 8.00 1.250x [2]",
        "geometric mean paper 1.250x",
    ]
    assert lines[-1] == "The paper's protocol has no interval, and so no verdict."
    assert "faster" not in "".join(lines)


def test_the_environment_names_gpu_and_protocol() -> None:
    gpu = GpuIdentity(name="NVIDIA H100", driver="580.159.04", max_sm_mhz=1980)
    where = device_words("cuda:0", gpu)
    blocks = circumstances_blocks(where, ["a.cu: 96 cases passed"], "paired")
    first, checks, second = text_lines(blocks)
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
    assert told.text == "16x4096: 1.600x [1.500, 1.700] after 20 rounds, 8.00 to 5.00 us"


def shown(progress: TimingProgress, height: int) -> list[str]:
    """What a terminal of 120 columns shows."""
    console = Console(width=120, highlight=False)
    with console.capture() as captured:
        console.print(Group(*progress(height)))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_live_table_has_the_latest_rows_and_their_caveats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    progress = TimingProgress(["a.cu", "b.cu"])
    event = RoundsTimed("c", "b", "16x4096", 8.0, 5.0, Ratio(1.6, 1.5, 1.7, 20), 20)
    progress.rounds(0, event)
    progress.rounds(1, event)
    _, first, second = shown(progress, 14)
    assert first.startswith("a.cu, 16x4096 ")
    assert second.startswith("b.cu, 16x4096 ")
    assert first.endswith("1.600x  [1.500, 1.700]  20 rounds")
    progress.done(0, TIMING.workloads[0])
    shown_now = shown(progress, 14)
    assert any("faster     [1] [2]" in line for line in shown_now)
    assert any(line.endswith("20 rounds") for line in shown_now)
    assert "  [1] throttled by its power limit for 0.3 s" in shown_now
    _, only = shown(progress, 5)
    assert only.startswith("b.cu, 16x4096 ")


def test_in_a_pipe_every_workload_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TimingProgress(["a.cu"])
    with live_display(progress):
        event = RoundsTimed("c", "b", "16x4096", 8.0, 5.0, Ratio(1.6, 1.5, 1.7, 20), 20)
        progress.rounds(0, event)
        progress.done(0, TIMING.workloads[1])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "1024x13824 float16: 1.000x [0.998, 1.002] same, 8.00 to 8.00 us, 75 % of the floor; "
        f"{HIDDEN.message}\n"
    )


def test_energy_is_a_number_or_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    known = EnergyUse(1000, 2.0, joules=600.0, joules_per_launch=0.6, watts=300.0)
    unknown = EnergyUse(1000, 2.0, missing="no NVIDIA driver")
    measured = replace(TIMING.workloads[0], energy=PairedEnergy(known, unknown))
    lines = lines_of(blocks_of(replace(TIMING, workloads=(measured,))), capsys)
    told = "base 600 mJ at 300 W, candidate not measured (no NVIDIA driver)"
    assert f"  energy of a launch on 16x4096: {told}" in lines
