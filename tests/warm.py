"""Processes that begin with the program imported: python -m tests.warm REQUESTS ALIVE PATH

Importing, torch above all, is most of what a short process of ours does, and the same each time.
This process does it once, and forks for each that is asked for with a `WarmPopen`. What is forked
is a process like any other, with the streams, descriptors, limits, folder and environment that it
was given; it runs its module as `python -m` does, and ends as Python ends but for destructors of
what is left then. It is just no child of who asked: tests of that start real ones.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import os
import pickle
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab_answers import recall_where_told

ROOT = Path(__file__).resolve().parents[1]
_LONGEST = 1 << 17
_MOST_DESCRIPTORS = 200

_PROGRAM = (
    "engine.opening",
    "engine.verify",
    "lab.worker",
    "lab.doctor",
    "drafting",
    "plain",
    "lab.audit.worker",
)
"""What commands load when they run, of `astra_tui`, besides all that is in `cli`."""

_OF_OTHERS = (
    "astra_tui.lab.compiler.worker",
    "astra_tui.gpu.process.serving",
    "astra_tui.packages.index",
    "pip._internal.cli.main",
    "pip._internal.commands.download",
    "pip._internal.commands.index",
    "pip._internal.resolution.resolvelib.resolver",
)
_WITH_TORCH = ("astra_tui.export.artefact_process", "astra_tui.lab.check.oracle_worker")
_WITHOUT_TORCH = (
    "astra_tui",
    "astra_tui.engine",
    "astra_tui.lab.audit.worker",
    "astra_tui.lab.compiler.worker",
    "astra_tui.lab.worker",
    "astra_tui.packages.index",
    "pip",
    "tests.cli.scripted_gpu",
    "tests.gpu.scripted_process",
    "tests.gpu_tools.scripted_worker",
    "tests.workers.scripted_process",
)
_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
_SAME_THEN = {"LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_PATHS = {str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}


@dataclass(frozen=True)
class _Asked:
    """What is run: `python -m MODULE ARGUMENTS`."""

    module: str
    arguments: tuple[str, ...]
    is_safe: bool
    """Whether it imports nothing from its folder (-P)."""
    folder: str
    environment: dict[str, str]
    numbers: tuple[int, ...]
    """Under which the process knows the descriptors that it gets."""
    own_session: bool
    takes_terminal: bool
    limits: tuple[tuple[int, int], ...]


def take_terminal() -> None:
    """Makes the terminal on stdin that of this session: a `preexec_fn` that can be asked for."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class WarmPopen(subprocess.Popen[Any]):
    """A Popen whose process is forked off this one, where it runs a module that is known here and
    nothing is asked for that Python itself looks at when it starts; else one as any other.
    """

    _answers: int | None = None
    """The socket that tells how the process ended; open as long as this object lives, since
    several threads may wait on it."""

    def _execute_child(self, *given: Any) -> None:
        names = subprocess.Popen._execute_child.__code__.co_varnames[1:]
        how = SimpleNamespace(**dict(zip(names, given, strict=False)))
        asked = _asked(how)
        if asked is None or not self._ask(asked, how):
            super()._execute_child(*given)  # type: ignore[misc]

    def _ask(self, asked: _Asked, how: SimpleNamespace) -> bool:
        streams = (how.p2cread, how.c2pwrite, how.errwrite)
        given = [n if s < 0 else s for n, s in enumerate(streams)] + list(asked.numbers[3:])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as requests:
            descriptors = [theirs.fileno(), *given]
            try:
                requests.connect(str(_requests()))
                socket.send_fds(requests, [pickle.dumps(asked)], descriptors)
            except OSError:  # Who asks is confined, or all is about to end.
                ours.close()
                return False
        self.pid = int(ours.recv(_LONGEST))
        self._child_created, self._answers = True, ours.detach()
        pipes = (how.p2cread, how.p2cwrite, how.c2pread, how.c2pwrite, how.errread, how.errwrite)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        return True

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._answers is None:
            return super()._internal_poll(*given, **named)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._answers is None:
            return super()._wait(timeout)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            with self._waitpid_lock:  # type: ignore[attr-defined]
                self._read_end(self._answers)
        return self.returncode

    def _read_end(self, answers: int) -> None:
        if self.returncode is None:
            answer = os.read(answers, _LONGEST)
            assert answer, "the process that forks is gone"
            self.returncode = int(answer)

    def __del__(self, *given: Any) -> None:
        # Never kept as one to be waited for: a Popen is so that its process does not stay a zombie.
        if self._answers is None:
            super().__del__(*given)  # type: ignore[misc]
        else:
            os.close(self._answers)


def warm(patch: pytest.MonkeyPatch) -> None:
    """From now on this process has those forked that the program starts as its own."""
    from astra_tui.packages import pip
    from astra_tui.processes import child
    from astra_tui.sessions import engines

    for module in (child, engines, pip):
        patch.setattr(module, "subprocess", SimpleNamespace(**vars(subprocess) | _OURS))


_OURS = {"Popen": WarmPopen}


def _asked(how: SimpleNamespace) -> _Asked | None:
    """What is asked for, where it can be forked."""
    program, *rest = how.args if isinstance(how.args, (list, tuple)) else (how.args,)
    is_safe = rest[:1] == ["-P"]
    flag, module, *arguments = [*rest[is_safe:], "", ""]
    environment = dict(os.environ if how.env is None else how.env)
    started_so = (program, flag) == (sys.executable, "-m") and not how.shell
    known = module in _WITH_TORCH or module in _WITHOUT_TORCH
    if not (started_so and known and how.preexec_fn in (None, take_terminal)):
        return None
    if not all(map(_is_as_here, environment.items())):
        return None
    return _Asked(
        module,
        tuple(arguments[: len(arguments) - 2]),
        is_safe,
        os.fspath(how.cwd or Path.cwd()),
        environment,
        (0, 1, 2, *how.pass_fds),
        how.start_new_session,
        how.preexec_fn is take_terminal,
        tuple(map(resource.getrlimit, _LIMITS)),
    )


def _is_as_here(variable: tuple[str, str]) -> bool:
    """Whether it means nothing else to Python, or to a library that is loaded, than here."""
    match variable:
        case ("PYTHONUNBUFFERED" | "PYTHONDONTWRITEBYTECODE", _):
            return True
        case ("PYTHONPATH", paths):
            return _PATHS.issuperset(paths.split(os.pathsep))
        case (name, value) if name.startswith(("LANG", "LC_")):
            return value.lower().replace("-", "").endswith("utf8")
        case (name, value) if name.startswith(("PYTHON", "LD_", "OMP_", "MKL_")):
            return _SAME_THEN.get(name) == value
    return True


@cache
def _requests() -> Path:
    """Where to ask; forked processes know it from who started the first, and ask there too."""
    path = Path(tempfile.mkdtemp(prefix="astra-tui-warm-")) / "requests"
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    asked.bind(str(path))
    alive, _kept_open = os.pipe()  # It ends with this process.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    subprocess.Popen(
        [sys.executable, "-m", "tests.warm", str(asked.fileno()), str(alive), str(path)],
        cwd=ROOT,
        env={**kept, **_SAME_THEN},
        stdin=subprocess.DEVNULL,
        pass_fds=(asked.fileno(), alive),
        start_new_session=True,
    )
    asked.close()
    os.close(alive)
    return path


def main() -> None:
    """Forks until who started this has ended."""
    number, alive, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    for file in (ROOT / "astra_tui" / "cli").rglob("[a-z]*.py"):
        importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    for name in _PROGRAM:
        importlib.import_module(f"astra_tui.{name}")
    for name in (*_WITH_TORCH, *_OF_OTHERS):
        importlib.import_module(name)
    globals()["_requests"] = lambda: path
    warm(pytest.MonkeyPatch())
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    served = _Server(socket.socket(fileno=number), alive, forwards=True).serve()
    if served is None:
        path.unlink(missing_ok=True)
        path.parent.rmdir()
    else:
        _become(*served)


class _Server:
    """Forks for requests; for those that want torch in a process of its own, which has it."""

    def __init__(self, requests: socket.socket, alive: int, *, forwards: bool):
        self._requests = requests
        self._alive = alive
        self._forwards = forwards
        self._with_torch: socket.socket | None = None
        self._running: dict[int, tuple[int, socket.socket]] = {}
        """Process and whom to tell of its end, by the process's handle."""

    def serve(self) -> tuple[_Asked, socket.socket, list[int]] | None:
        """Returns in each process that is forked, and with None once all has ended."""
        (_only_thread,) = Path("/proc/self/task").iterdir()  # A fork would lose the others.
        while True:
            poll = select.poll()
            for number in (self._requests.fileno(), self._alive, *self._running):
                poll.register(number, select.POLLIN)
            for number, _ in poll.poll():
                if number == self._alive:
                    return None
                if number in self._running:
                    self._tell_end(number)
                elif (forked := self._take()) is not None:
                    return forked

    def _take(self) -> tuple[_Asked, socket.socket, list[int]] | None:
        data, descriptors, _, _ = socket.recv_fds(self._requests, _LONGEST, _MOST_DESCRIPTORS)
        asked: _Asked = pickle.loads(data)
        forwards = self._forwards and asked.module in _WITH_TORCH
        if forwards and self._with_torch is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            if not os.fork():
                return self._serve_with_torch(theirs, (ours, *descriptors))
            self._with_torch = ours
            theirs.close()
        if forwards:
            assert self._with_torch is not None
            socket.send_fds(self._with_torch, [data], descriptors)
        else:
            answers = socket.socket(fileno=descriptors.pop(0))
            pid = os.fork()
            if not pid:
                return asked, answers, descriptors
            self._running[os.pidfd_open(pid)] = pid, answers
        for number in descriptors:
            os.close(number)
        return None

    def _serve_with_torch(self, requests: socket.socket, others: Sequence[Any]) -> Any:
        for other in (self._requests, *others, *self._running, *self._answering()):
            os.close(other if isinstance(other, int) else other.detach())
        import torch

        torch.ones(2, dtype=torch.float64).sum()
        gc.freeze()
        server = _Server(requests, self._alive, forwards=False)
        forked = server.serve()
        if forked is None:
            os._exit(0)
        return forked

    def _answering(self) -> list[socket.socket]:
        return [answers for _, answers in self._running.values()]

    def _tell_end(self, number: int) -> None:
        pid, answers = self._running.pop(number)
        os.close(number)
        _, status = os.waitpid(pid, 0)
        with answers, contextlib.suppress(OSError):  # Who asked may be gone.
            answers.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(asked: _Asked, answers: socket.socket, descriptors: Sequence[int]) -> None:
    """Makes this the process that was asked for, and runs it."""
    if asked.own_session:
        os.setsid()
    first_free = max(asked.numbers) + 1
    high = [fcntl.fcntl(d, fcntl.F_DUPFD, first_free) for d in (answers.detach(), *descriptors)]
    for number, other in zip(asked.numbers, high[1:], strict=True):
        os.dup2(other, number)
    if asked.takes_terminal:
        take_terminal()
    os.write(high[0], str(os.getpid()).encode())
    for number in {int(file.name) for file in Path("/proc/self/fd").iterdir()}:
        if number not in asked.numbers:
            with contextlib.suppress(OSError):  # That of the folder itself.
                os.close(number)
    for limit, (soft, hard) in zip(_LIMITS, asked.limits, strict=True):
        if resource.getrlimit(limit) != (soft, hard):
            resource.setrlimit(limit, (soft, hard))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.environment)
    recall_where_told()
    tempfile.tempdir = None
    unbuffered = "PYTHONUNBUFFERED" in asked.environment
    sys.stdout.reconfigure(line_buffering=os.isatty(1), write_through=unbuffered)  # type: ignore[union-attr]
    sys.path[:1] = [] if asked.is_safe else [asked.folder]
    sys.argv[1:] = asked.arguments
    module = sys.modules.get(asked.module)
    if module is not None and not hasattr(module, "__path__"):
        del sys.modules[asked.module]  # What is imported already, runpy warns of.
    try:
        runpy.run_module(asked.module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        code = end.code or 0
    else:
        code = 0
    _end(code)


def _end(code: int) -> None:
    """Ends as Python does, but lets go of no object: that would copy all memory that is shared."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # Python says in its own way that no one reads.
    os._exit(code & 0xFF)


if __name__ == "__main__":
    importlib.import_module("tests.warm").main()  # By the name that forked processes know.
