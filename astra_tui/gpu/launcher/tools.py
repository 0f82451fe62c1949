"""Finds tools of the CUDA toolkit and runs the launcher under them, within limits."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from astra_tui.gpu.launcher.request import (
    WatchAnswer,
    WatchRequest,
    read_answer,
    write_request,
)
from astra_tui.processes.child import child_environment

MODULE = "astra_tui.gpu.process.once"
LOG_LIMIT = 8 << 20
"""Bytes of a tool's log that are read."""
OUTPUT_LIMIT = 1 << 20
"""Bytes on stdout and stderr after which everything is ended."""
VERSION_SECONDS = 20.0

TOOLKITS = (Path("/usr/local/cuda"), Path("/opt/cuda"))
_VERSION = re.compile(r"^Version (\S+)", re.MULTILINE)
_KEPT_WORDS = 2_000
_LOOK_SECONDS = 0.1
"""How often we look whether a process that prints nothing has ended."""


@dataclass(frozen=True)
class WatchedRun:
    """The result of one run under a tool."""

    log: str
    """What the tool itself wrote."""
    words: str
    """The end of what the tool and the launcher printed."""
    code: int | None
    """Exit code of the tool; None when it was ended."""
    answer: WatchAnswer | None
    seconds: float
    problem: str = ""
    """Why the tool did not come to its end; empty when it did."""


def find_tool(name: str, folders: Sequence[Path] = ()) -> Path | None:
    """A program on PATH, else in CUDA_HOME, an installed toolkit, or one of `folders`."""
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path).absolute()  # It is run in another folder.
    named = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    roots = [*map(Path, named), *TOOLKITS]
    own = [folder for root in roots for folder in (root / "bin", root / name)]
    programs = (folder / name for folder in (*own, *folders))
    return next((p for p in programs if p.is_file() and os.access(p, os.X_OK)), None)


def tool_version(path: Path) -> str:
    """What `--version` says, or "" where it says nothing that we can read."""
    output = _Output()
    with _folder() as folder:
        _run([str(path), "--version"], folder, VERSION_SECONDS, output)
    found = _VERSION.search(output.text)
    return found[1] if found else ""


def watch(path: Path, options: Sequence[str], request: WatchRequest) -> WatchedRun:
    """Runs the launcher under a tool that takes `--log-file`. Nothing is raised for what fails."""
    began = time.monotonic()
    try:
        with _folder() as folder:
            return _watch(path, options, request, Path(folder), began)
    except OSError as error:
        text = f"no temporary file can be written: {error.strerror}"
        return WatchedRun("", "", None, None, time.monotonic() - began, text)


def _folder() -> tempfile.TemporaryDirectory[str]:
    """For our files and the tool's own. What was killed may still write while it is removed."""
    return tempfile.TemporaryDirectory(prefix="astra-tui-", ignore_cleanup_errors=True)


def _watch(
    path: Path, options: Sequence[str], request: WatchRequest, folder: Path, began: float
) -> WatchedRun:
    file, log = folder / "cases.request", folder / "tool.log"
    write_request(file, msgspec.structs.replace(request, watcher=os.getpid()))
    launcher = [sys.executable, "-P", "-m", MODULE, str(file)]
    output = _Output()
    command = [str(path), "--log-file", str(log), *options, *launcher]
    code, problem = _run(command, str(folder), request.seconds, output)
    return WatchedRun(
        log=_beginning(log),
        words=output.text[-_KEPT_WORDS:].strip(),
        code=code,
        answer=read_answer(file),
        seconds=time.monotonic() - began,
        problem=f"{path.name} {problem}" if problem else "",
    )


class _Output:
    """What a process printed, up to the limit."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")

    def add(self, piece: bytes) -> bool:
        """Whether there is room for more."""
        self._data += piece
        return len(self._data) < OUTPUT_LIMIT


def _run(
    command: list[str], folder: str, seconds: float, output: _Output
) -> tuple[int | None, str]:
    """Exit code, or None with what ended the process."""
    environment = {**child_environment(), "HOME": folder, "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return None, f"does not start: {error.strerror}"
    with process:
        try:
            problem = _drain(process, seconds, output)
        finally:
            # The whole group: the launcher holds the GPU, not the tool that started it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if problem:
        return None, problem
    if process.returncode < 0:
        return None, f"was ended by a signal: {signal.strsignal(-process.returncode)}"
    return process.returncode, ""


def _drain(process: subprocess.Popen[bytes], seconds: float, output: _Output) -> str:
    """Reads until the process ends; else what it has to be ended for."""
    assert process.stdout is not None
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        # Asked first, so that its last words are read. Whatever it started may hold the pipe open.
        has_ended = process.poll() is not None
        ready = poll.poll(min(left, _LOOK_SECONDS) * 1000)
        piece = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
        if has_ended and not piece:
            return ""
        if ready and not piece:
            poll.unregister(process.stdout)
        if not output.add(piece):
            return f"printed more than {OUTPUT_LIMIT >> 20} MB"
    return f"was not done after {seconds:g} s"


def _beginning(log: Path) -> str:
    try:
        with log.open("rb") as opened:
            return opened.read(LOG_LIMIT).decode(errors="replace")
    except FileNotFoundError:
        return ""
