"""Times how a long session opens, and how its state at any place is found and drawn.

    python benchmarks/replay_seek.py [--rounds N] [--cases N] [--seeks N] [--write]

The session is synthetic: every round has a plan, two decisions, code, a check of all cases, a
profile and a verdict. "Open" reads the journal from the disk and folds it; "seek" is the state at a
random event; "screen" is from the wish to see a random event to the picture of it, on the session
screen at 140x40 without a terminal, 20 ms of which gather what else may come. Memory is what the
process holds more than before it was opened. `--write` stores results/replay_seek.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from environment import RESULTS, ROOT, describe

sys.path.insert(0, str(ROOT))
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.timeline import Timeline
from astra_tui.tui.app import AstraApp
from astra_tui.tui.source import open_saved
from astra_tui.tui.widgets.status_line import StatusLine
from tests.sessions.synthetic import write_session

PAGE_BYTES = 4096
SIZE = (140, 40)
SCREEN_SEEKS = 40


def resident_bytes() -> int:
    """What this process has in memory (proc_pid_statm(5))."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def seek_seconds(timeline: Timeline, seeks: int, seed: int = 1) -> list[float]:
    """How long each of so many random seeks takes."""
    draw, taken = random.Random(seed), []
    for _ in range(seeks):
        position = draw.randrange(len(timeline) + 1)
        begin = time.perf_counter()
        timeline.state(position)
        taken.append(time.perf_counter() - begin)
    return taken


async def screen_seconds(session: Path, seeks: int, seed: int = 2) -> list[float]:
    """How long the screen takes to show each of so many random places."""
    draw, taken = random.Random(seed), []
    app = AstraApp(partial(open_saved, session), tick=0.0)
    async with app.run_test(size=SIZE) as pilot:
        while getattr(app.screen, "view", None) is None:
            await pilot.pause()
        screen = app.screen
        for _ in range(seeks):
            position = draw.randrange(1, screen.player.length)
            words = f"event {position} of"
            begin = time.perf_counter()
            screen.player.seek(position)
            while words not in screen.query_one(StatusLine).text:
                await asyncio.sleep(0)
            taken.append(time.perf_counter() - begin)
    return taken


def measure(rounds: int, cases: int, seeks: int) -> dict[str, float]:
    """One session, opened once in this process."""
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "session"
        events = write_session(session, rounds, cases)
        size = (session / "journal.jsonl").stat().st_size
        before, begin = resident_bytes(), time.perf_counter()
        timeline = read_session(session).timeline
        opened = time.perf_counter() - begin
        held = resident_bytes() - before
        taken = seek_seconds(timeline, seeks)
        shown = asyncio.run(screen_seconds(session, SCREEN_SEEKS))
    return {
        "rounds": rounds,
        "events": events,
        "journal_mb": round(size / 1e6, 1),
        "open_s": round(opened, 3),
        "seek_median_ms": round(1e3 * statistics.median(taken), 3),
        "seek_longest_ms": round(1e3 * max(taken), 3),
        "screen_median_ms": round(1e3 * statistics.median(shown), 1),
        "screen_longest_ms": round(1e3 * max(shown), 1),
        "memory_mb": round(held / 1e6, 1),
    }


def main() -> None:
    """Prints the result, and stores it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seeks", type=int, default=500)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    result = {**describe(), **measure(options.rounds, options.cases, options.seeks)}
    text = json.dumps(result, indent=2) + "\n"
    sys.stdout.write(text)
    if options.write:
        (RESULTS / "replay_seek.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
