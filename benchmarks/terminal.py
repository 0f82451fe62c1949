"""A program on a terminal of its own: starts it, types, and says when text appears."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_SEQUENCES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_]|[()].)"
)


class Terminal:
    """A process whose terminal we are. Leaving the block kills it."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        columns: int = 140,
        lines: int = 40,
    ):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.text = ""
        """All that was written so far, without escape sequences."""
        self.bytes = 0
        """How many bytes were written so far, escape sequences included."""
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            list(command), cwd=folder, env=dict(environment), stdin=theirs, stdout=theirs,
            stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def wait_for(self, *words: str, seconds: float = 30.0) -> float:
        """Reads until every word was written since the last call; returns seconds since the start.

        Raises TimeoutError with what was written instead.
        """
        seen = len(self.text)
        limit = time.perf_counter() + seconds
        while not all(word in self.text[seen:] for word in words):
            if not self.read(limit - time.perf_counter()):
                raise TimeoutError(f"no {words} in: {self.text[-2000:]}")
        return time.perf_counter() - self.began

    def read(self, seconds: float) -> bool:
        """Takes in what comes within some seconds; whether anything came."""
        ready, _, _ = select.select([self._ours], [], [], max(seconds, 0.0))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:
            return False
        self.bytes += len(data)
        self.text += _SEQUENCES.sub("", data.decode(errors="replace"))
        return bool(data)

    def type(self, keys: str) -> float:
        """Types; returns when."""
        os.write(self._ours, keys.encode())
        return time.perf_counter()

    def cpu_seconds(self) -> float:
        """Processor time of the process so far, in steps of 10 ms."""
        return _seconds(_stat(self.process.pid)[11:13])

    def resident_mib(self) -> float:
        """Memory of the process now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def cpu_seconds_of_all(process: int) -> float:
    """Processor time of a process and of all that it started, ended or not, in steps of 10 ms."""
    family, stats = {process}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                stats[int(folder.name)] = _stat(int(folder.name))
    while more := {p for p, stat in stats.items() if int(stat[1]) in family} - family:
        family |= more
    return sum(_seconds(stats[p][11:15]) for p in family if p in stats)


def _stat(process: int) -> list[str]:
    """The fields from the third on (proc_pid_stat(5))."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()


def _seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
