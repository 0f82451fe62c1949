"""A program of others, run once on a file of ours: within limits of time, memory and output."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from astra_tui.processes.child import child_environment

MEMORY_LIMIT = 4 << 30
OUTPUT_LIMIT = 64 << 20
_MAX_WORDS = 2_000


class ToolRun(NamedTuple):
    """What a program wrote to stdout, or the problem, which names it."""

    text: str
    problem: str = ""


def run_tool(command: list[str], folder: Path | str, seconds: float, name: str) -> ToolRun:
    """Runs a command in a folder of ours, where it may leave files of OUTPUT_LIMIT bytes each.

    It sees no secrets, is called `name` in messages, and is gone when this returns. Raises OSError
    where no temporary file can be written.
    """
    with tempfile.TemporaryFile(dir=folder) as out, tempfile.TemporaryFile(dir=folder) as errors:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            return ToolRun("", f"{name} does not start: {error.strerror}")
        with process:
            _limit(process.pid)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                return ToolRun("", f"{name} was not done after {seconds:g} s")
            finally:
                process.kill()  # Also when the wait is interrupted; one that ended is left alone.
        out.seek(0)
        errors.seek(0)
        text = out.read(OUTPUT_LIMIT).decode(errors="replace")
        words = errors.read(_MAX_WORDS).decode(errors="replace").strip()
    if code:
        why = words.splitlines()[0] if words else f"exit code {code}"
        return ToolRun("", f"{name} failed: {why}")
    return ToolRun(text)


def _limit(pid: int) -> None:
    """Bounds the memory and the output of a process that has just started."""
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (OUTPUT_LIMIT, OUTPUT_LIMIT))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
