"""A child process of ours that answers requests, under deadlines, and can be killed at any time."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from astra_tui.processes.frames import FrameError, read_frame, write_frame
from astra_tui.rpc import Channel

R = TypeVar("R")

_KEPT_VARIABLES = (
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "ASTRA_TUI_CACHE",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "ASTRA_TUI_NVRTC",
)
_ERROR_TAIL = 4_000
_CLOCK_FACTOR = 10.0


class ChildDied(Exception):
    """The child ended without an answer; the message says how and quotes its last words."""


class ChildTimeout(Exception):
    """The child did not answer in time and was killed."""


class AnyChild(Channel, Protocol):
    """A child process, here (`Child`) or on a worker (`workers/`)."""

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        ...

    def kill(self) -> None:
        """Ends it at once, from any thread; a caller that waits for it gets ChildDied."""
        ...

    def close(self) -> None:
        """Ends it and everything that it started."""
        ...


class Child:
    """`python -m MODULE`, spoken to in frames. It is started on first use, and again after death.

    A death is reported once, by ChildDied, unless `start` is called after it. The child sees an
    environment built from an allow-list: no keys, no tokens. It does not import from the current
    folder, where a file may have the name of a module. Descriptors in `fds` it keeps open under
    their numbers.
    """

    def __init__(
        self,
        module: str,
        arguments: tuple[str, ...] = (),
        name: str = "",
        fds: tuple[int, ...] = (),
    ):
        self.module = module
        self.arguments = arguments
        self.fds = fds
        self.name = name or module.rpartition(".")[2]
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._write_fd = -1
        self._read_fd = -1

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process's id; 0 before it was started and after it was closed."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Starts the process if it does not run; it gets ready while the caller continues."""
        if self.running:
            return
        self.close()
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        command = [sys.executable, "-P", "-m", self.module, str(theirs_in), str(theirs_out)]
        self._process = subprocess.Popen(
            [*command, *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=(theirs_in, theirs_out, *self.fds),
            start_new_session=True,
            env=child_environment(),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(ours_out, False)  # A child that does not read cannot hold us up.
        self._write_fd, self._read_fd = ours_out, ours_in

    def ask(self, message: Any, seconds: float, *, cpu: bool = False) -> Any:
        """Sends one message and returns the answer.

        Raises ChildTimeout after `seconds` and ChildDied when the process ends; it is gone then.
        With `cpu` these are seconds of the process's own CPU time, so that a busy machine ends
        nothing, or ten times as many by the clock: one that waits for ever uses no CPU.
        """
        self.send(message, seconds)
        return self.receive(seconds, cpu=cpu)

    def receive(self, seconds: float, *, cpu: bool = False) -> Any:
        """Waits for a message that the child sends of itself, such as a greeting."""
        self._start_if_new()
        with self._watched(seconds, " of CPU time" if cpu else ""):
            if not cpu:
                return read_frame(self._read_fd, seconds)
            self._wait_in_cpu_time(seconds)
            return read_frame(self._read_fd, seconds * _CLOCK_FACTOR)

    @property
    def cpu_seconds(self) -> float:
        """CPU time that the process has used so far; 0 where it does not run."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return 0.0
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _wait_in_cpu_time(self, seconds: float) -> None:
        """Waits until there is something to read, or the process is gone. Raises TimeoutError."""
        used, ends = self.cpu_seconds, time.monotonic() + seconds * _CLOCK_FACTOR
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        # It cannot have used more CPU time, in one thread, than has passed.
        left = seconds
        while not poll.poll(math.ceil(min(left, ends - time.monotonic()) * 1000)):
            left = seconds - (self.cpu_seconds - used)
            if left <= 0 or time.monotonic() >= ends:
                raise TimeoutError

    def kill(self) -> None:
        """Ends the process at once, from any thread; a caller that waits for it gets ChildDied."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def send(self, message: Any, seconds: float) -> None:
        """Sends one message whose answers `receive` will bring."""
        self._start_if_new()
        with self._watched(seconds):
            write_frame(self._write_fd, message, seconds)

    def close(self) -> None:
        """Ends the process and everything that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        for fd in (self._write_fd, self._read_fd):
            if fd >= 0:
                os.close(fd)
        self._write_fd = self._read_fd = -1
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _start_if_new(self) -> None:
        # Not `start`: a child that died may have had a greeting or a state that the caller needs.
        if self._process is None:
            self.start()

    @contextlib.contextmanager
    def _watched(self, seconds: float, unit: str = "") -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            self.close()
            raise ChildTimeout(f"{self.name} gave no answer in {seconds:g} s{unit}") from None
        except FrameError as error:
            self._raise_died(error)

    def _raise_died(self, error: FrameError) -> NoReturn:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        code = self._process.returncode
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _ERROR_TAIL))
        words = _last_words(self._errors.read().decode(errors="replace").strip())
        self.close()
        how = f"was ended: {error}" if code is None else f"ended with {_exit_text(code)}"
        raise ChildDied(f"{self.name} {how}" + (f": {words}" if words else "")) from None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


StartChild = Callable[[str, tuple[str, ...], str], AnyChild]
"""Makes one by its module, its arguments and its name in messages; as Child does."""


async def in_thread(child: AnyChild, call: Callable[[], R]) -> R:
    """Runs a blocking call of a child; a cancel kills the child and waits for the thread to see."""
    import asyncio

    future = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        child.kill()
        await asyncio.wait([future])
        future.exception()
        raise


def child_environment() -> dict[str, str]:
    """The environment of our children: an allow-list, so that secrets stay out."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {**kept, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _last_words(text: str) -> str:
    """What a child wrote before it died; of a Python trace the last line, which names the error."""
    return text.rpartition("\n")[2] if "Traceback (most recent call last)" in text else text


def _exit_text(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
