"""What workers are at, from one model: folded on the screen and in lines."""

from __future__ import annotations

from msgspec.structs import replace

from astra_tui.model.events import SessionOpened, WorkersSeen
from astra_tui.model.fold import fold
from astra_tui.model.state import SessionState
from astra_tui.model.workers import WorkersStatus, WorkerStatus
from astra_tui.plain.run import RunLines
from astra_tui.present.devices import gpu_blocks, gpu_line, status_lines
from astra_tui.present.layout import line_text
from astra_tui.tui.text_layout import Page
from tests.sessions.samples import whole_session

FIRST = WorkerStatus(
    "gpu0", "NVIDIA H200", "GPU-3f2a1b9c-0000", ("timing a vs b",), 14, 61.2, "0.11%"
)
SECOND = WorkerStatus("gpu1", "NVIDIA H100", "GPU-77aa1b9c-0000")
NOISY = WorkerStatus("gpu2", trouble="its A/A timing tells no less than 3.84%", left_out=True)
STATUS = WorkersStatus((FIRST, SECOND, NOISY), {"alone": 2, "cpu": 14})
SUMMARY = "2 workers, 2 GPUs, 1 running, 16 waiting, 1 left out"


def test_lines_say_who_does_what_and_who_is_left_out() -> None:
    assert status_lines(STATUS) == (
        SUMMARY,
        "  gpu0 (NVIDIA H200, GPU-3f2a1b9c): timing a vs b; 14 jobs in 1 min 1 s; A/A tells 0.11%",
        "  gpu1 (NVIDIA H100, GPU-77aa1b9c): idle",
        "  gpu2: left out: its A/A timing tells no less than 3.84%",
    )


def test_the_screen_has_them_in_a_line_and_a_line_each() -> None:
    events = [e for e in whole_session() if isinstance(e, SessionOpened)]
    state = fold(events)
    assert line_text(gpu_line(state, (), STATUS)) == SUMMARY
    page = Page(76)
    page.blocks(gpu_blocks(state, (), STATUS, 76))
    rows = [" ".join(line_text(line).split()) for line in page.lines]
    text = " ".join(rows)
    assert "gpu0 (NVIDIA H200, GPU-3f2a1b9c): timing a vs b; 14 jobs in 1 min 1 s; A/A" in text
    assert "A/A tells 0.11%" in text
    assert "gpu1 (NVIDIA H100, GPU-77aa1b9c): idle" in rows
    assert "Waiting: 2 to be timed, 14 for a processor." in rows
    assert any(row.startswith("gpu2: left out: its A/A timing") for row in rows)


def test_a_run_in_lines_tells_what_changes_for_good() -> None:
    """Not what each is at: that changes several times a second."""
    written: list[str] = []
    lines = RunLines(written.append, progress=False)
    at_work = replace(SECOND, doing=("checking c",), done=3)
    proven = replace(SECOND, proven="0.20%")
    for second in (SECOND, at_work, proven, replace(proven, trouble="it is lost")):
        lines.show(WorkersSeen(WorkersStatus((FIRST, second))), SessionState)
    assert [each.count("\n") for each in written] == [1, 0, 0]
    assert "A/A tells 0.20%" in written[1]
    assert "it is lost" in written[2]
