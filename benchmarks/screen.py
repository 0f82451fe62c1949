"""How quick the screen is: start-up, key to paint under a full stream, memory over an hour.

    python benchmarks/screen.py            # everything, about 3 minutes
    python benchmarks/screen.py startup    # or: keys, memory

Start-up is from exec until the words are on a real terminal of 140x40; key to paint is from the
key until its letter is written while events stream at full rate: 10 test results, 20 pieces of
text, 50 timing samples and 4 NVML readings a second. Memory is of the process that draws, after
the events of a minute, of an hour and of three; every 20 seconds there is another candidate. The
source of events is a journal, made here; the app is the one that users have.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

from terminal import Terminal

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "screen.json"
STREAM = [sys.executable, str(ROOT / "benchmarks" / "screen_stream.py")]
COMMAND = [sys.executable, "-m", "astra_tui"]
STARTS = 15
KEYS = 120


def main(chosen: list[str]) -> None:
    """Runs the chosen measurements and keeps their results."""
    parts = {"startup": startup, "keys": keys, "memory": memory}
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept["machine"] = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    for name in chosen or list(parts):
        kept[name] = parts[name]()
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


def _starts(command: list[str], folder: Path, words: tuple[str, ...]) -> dict[str, float]:
    taken, resident = [], []
    for _ in range(STARTS):
        with Terminal(command, folder, _environment(folder)) as terminal:
            taken.append(1000 * terminal.wait_for(*words))
            resident.append(terminal.resident_mib())
    return {
        "median ms": round(statistics.median(taken)),
        "min ms": round(min(taken)),
        "max ms": round(max(taken)),
        "MiB": round(max(resident), 1),
    }


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
            _drain(terminal, 0.15 + 0.1 * (number % 3))
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
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
    return {**kept, "TERM": "xterm-256color", "XDG_RUNTIME_DIR": str(folder)}


if __name__ == "__main__":
    main(sys.argv[1:])
