"""How quick the screen is: start-up, first plan, long sessions, keys under a full stream, memory.

    python benchmarks/screen.py                                  # everything, about 3 minutes
    python benchmarks/screen.py startup plan long keys panes     # without memory, about 80 seconds

Start-up is from exec until the words are on a real terminal of 140x40. The first plan is of a run
of silu_and_mul, with the processor time of the screen, the engine and all that they started. A
long session has 5,000 rounds and 125,000 events. Key to paint is from the key until its letter is
written while events stream at full rate: 10 test results, 20 pieces of text, 50 timing samples and
4 NVML readings a second; or until the first and the last bytes of another pane. Memory is of the
process that draws, after the events of a minute, of an hour and of three; every 20 seconds there is
another candidate. The source of events is a journal, made here; the app is the one that users have.
Each part is kept with the load before it; processor time is in steps of 10 ms.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from environment import RESULTS as FOLDER
from environment import ROOT
from terminal import Terminal, cpu_seconds_of_all

sys.path.insert(0, str(ROOT))
from tests.sessions.synthetic import write_session

RESULTS = FOLDER / "screen.json"
STREAM = [sys.executable, str(ROOT / "benchmarks" / "screen_stream.py")]
COMMAND = [sys.executable, "-m", "astra_tui"]
STARTS = 5
PLANS = 2
ROUNDS, CASES = 5000, 10
KEYS = 50
PANE_KEYS = 60
KEY_GAP = 0.15
"""Seconds between two keys that bring a pane."""


def main(chosen: list[str]) -> None:
    """Runs the chosen measurements and keeps their results."""
    parts = {
        "startup": startup, "plan": plan, "long": long, "keys": keys, "panes": panes,
        "memory": memory,
    }  # fmt: skip
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept["machine"] = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    for name in chosen or list(parts):
        load = os.getloadavg()[0]
        kept[name] = {**parts[name](), "load before": round(load, 1)}
        print(name, json.dumps(kept[name], indent=2))
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


def startup() -> dict[str, object]:
    """Milliseconds from exec until there is something to read, and memory at that moment."""
    with tempfile.TemporaryDirectory() as folder:
        home = _starts([*COMMAND], Path(folder), ("silu_and_mul",))
        session = _starts([*STREAM, "once"], Path(folder), ("wide loads", "Accept this plan?"))
        bare = _starts([sys.executable, "-c", _BARE], Path(folder), ("ready",))
    return {"home": home, "session": session, "textual alone": bare}


_BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("ready")
Bare().run()
"""


def _starts(
    command: list[str], folder: Path, words: tuple[str, ...], starts: int = STARTS
) -> dict[str, float]:
    taken, spent, resident = [], [], []
    for _ in range(starts):
        with Terminal(command, folder, _environment(folder)) as terminal:
            taken.append(1000 * terminal.wait_for(*words))
            spent.append(terminal.cpu_seconds())
            resident.append(terminal.resident_mib())
    return {
        "median ms": round(statistics.median(taken)),
        "min ms": round(min(taken)),
        "max ms": round(max(taken)),
        "median CPU s": round(statistics.median(spent), 2),
        "MiB": round(max(resident), 1),
    }


def plan() -> dict[str, object]:
    """From exec until a plan of the playbook can be read, and until it is asked about."""
    words = {"read": ("16 bytes a thread",), "asked": ("Accept this plan?",)}
    _plan(words["asked"])  # With what is compiled and drawn once for each machine.
    return {name: _median(_plan(shown) for _ in range(PLANS)) for name, shown in words.items()}


def _plan(words: tuple[str, ...]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [*COMMAND, "run", "silu_and_mul"]
        with Terminal(command, folder, _environment(folder)) as terminal:
            seconds = terminal.wait_for(*words, seconds=120)
            engine = next(_engines(folder))
            spent = terminal.cpu_seconds()
            behind = cpu_seconds_of_all(engine)
            os.kill(engine, signal.SIGKILL)
    return {"s": seconds, "CPU s": spent + behind, "of it the screen's": spent}


def _engines(folder: Path) -> Iterator[int]:
    for journal in folder.glob("sessions/*/journal.jsonl"):
        for line in journal.read_text().splitlines():
            event = json.loads(line)["event"]
            if event["event"] == "engine_started":
                yield event["pid"]


def _median(tries: Iterable[dict[str, float]]) -> dict[str, float]:
    rows = list(tries)
    return {name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}


def long() -> dict[str, float]:
    """A saved session of 5,000 rounds, from exec until its end is shown."""
    with tempfile.TemporaryDirectory() as name:
        session = Path(name) / "long"
        events = write_session(session, ROUNDS, CASES)
        opened = _starts([*COMMAND, "replay", str(session)], Path(name), ("replay, event",), PLANS)
    return {"rounds": ROUNDS, "events": events, **opened}


def keys() -> dict[str, object]:
    """Milliseconds from a key until its letter is painted, idle and under the full stream."""
    with tempfile.TemporaryDirectory() as folder:
        return {load: _keys(load, Path(folder)) for load in ("idle", "full")}


def _keys(load: str, folder: Path) -> dict[str, float]:
    taken = []
    with Terminal([*STREAM, load], folder, _environment(folder)) as terminal:
        terminal.wait_for("round 1")
        terminal.type("n")
        terminal.wait_for("note to the team")
        for number in range(KEYS):
            _drain(terminal, 0.05 + 0.1 * (number % 3))
            letter = "äöüßñçøåéèêëìíîïòóôõùúûÿæœžšđ"[number % 28]
            before = len(terminal.text)
            began = terminal.type(letter)
            while letter not in terminal.text[before:]:
                if not terminal.read(5.0):
                    raise TimeoutError(f"{letter} was never painted")
            taken.append(1000 * (time.perf_counter() - began))
    ordered = sorted(taken)
    return {
        "p50 ms": round(statistics.median(ordered), 1),
        "p95 ms": round(ordered[int(0.95 * len(ordered))], 1),
        "p99 ms": round(ordered[int(0.99 * len(ordered))], 1),
    }


def panes() -> dict[str, object]:
    """A number key that brings another pane: processor time a key, and milliseconds until the
    first and the last bytes of its picture. A bare Textual app that switches as many panes is the
    control.
    """
    session = str(ROOT / "sessions" / "h100-pair-silu")
    opened = {
        "textual alone": ([sys.executable, "-c", _BARE_PANES], "pane 8"),
        "replay": ([*COMMAND, "replay", session], "replay, event"),
        "full stream": ([*STREAM, "full"], "round 1"),
    }
    return {name: _panes(*what) for name, what in opened.items()}


_BARE_PANES = """
from textual.app import App
from textual.containers import VerticalScroll
from textual.widgets import ContentSwitcher, Static
class Bare(App):
    BINDINGS = [(str(n), f"pane({n})") for n in range(1, 9)]
    def compose(self):
        yield Static("the task and what runs")
        with ContentSwitcher(initial="p8"):
            for n in range(1, 9):
                with VerticalScroll(id=f"p{n}"):
                    yield Static("\\n".join(f"pane {n}, line {i}" * 3 for i in range(60)))
        yield Static("the keys")
    def action_pane(self, n):
        self.query_one(ContentSwitcher).current = f"p{n}"
        self.query_one(f"#p{n}").focus()
Bare().run()
"""


def _panes(command: list[str], words: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Terminal(command, folder, _environment(folder)) as terminal:
            terminal.wait_for(words)
            for number in range(2 * 8):  # Every pane was seen before.
                terminal.type(str(number % 8 + 1))
                _drain(terminal, 0.15)
            began, cpu = time.perf_counter(), terminal.cpu_seconds()
            taken = [_switch(terminal, number) for number in range(PANE_KEYS)]
            cpu, wall = terminal.cpu_seconds() - cpu, time.perf_counter() - began
    firsts, lasts, sizes = (sorted(column) for column in zip(*taken, strict=True))
    return {
        "CPU ms a key": round(1000 * cpu / PANE_KEYS, 1),
        "% of a core": round(100 * cpu / wall),
        "first byte p50 ms": round(statistics.median(firsts), 1),
        "first byte p95 ms": round(firsts[int(0.95 * len(firsts))], 1),
        "last byte p50 ms": round(statistics.median(lasts), 1),
        "last byte p95 ms": round(lasts[int(0.95 * len(lasts))], 1),
        "kB a key": round(statistics.mean(sizes) / 1000, 1),
    }


def _switch(terminal: Terminal, number: int) -> tuple[float, float, int]:
    """Brings the next pane but two; milliseconds to the first and last bytes, and how many."""
    before = terminal.bytes
    began = terminal.type(str(number * 3 % 8 + 1))
    first = last = 0.0
    while (left := began + KEY_GAP - time.perf_counter()) > 0:
        if terminal.read(left):
            last = 1000 * (time.perf_counter() - began)
            first = first or last
    return first, last, terminal.bytes - before


def _drain(terminal: Terminal, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        terminal.read(left)


def memory() -> dict[str, float]:
    """MiB after a minute's worth of events, after an hour's and after three."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return _memory(Terminal([*STREAM, "hours"], folder, _environment(folder)))


def _memory(opened: Terminal) -> dict[str, float]:
    resident: dict[str, float] = {}
    with opened as terminal:
        for what, words in _MARKS.items():
            terminal.wait_for(words, seconds=600)
            _drain(terminal, 1.0)
            resident[what] = round(terminal.resident_mib(), 1)
    return resident


_MARKS = {
    "minute MiB": "a minute has passed",
    "hour MiB": "one hour has passed",
    "three hours MiB": "the third hour has passed",
}


def _environment(folder: Path) -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "PYTHONPATH", "XDG_CACHE_HOME")
    kept = {k: v for k, v in os.environ.items() if k in names}
    return {**kept, "TERM": "xterm-256color", "XDG_RUNTIME_DIR": str(folder)}


if __name__ == "__main__":
    main(sys.argv[1:])
