"""Commands that begin with the program imported: python -m tests.cli.warm SOCKET_FD

Importing is most of what a short command does, and the same each time. This process does it once
and forks for each command. What is forked is a process like any other, with the streams, folder
and environment that it was given; it runs its module as `python -m` does, and ends as Python ends.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

_LONGEST = 1 << 17
ROOT = Path(__file__).resolve().parents[2]
IMPORTED = ("engine.opening", "engine.verify", "lab.worker", "lab.doctor", "drafting", "plain")
"""What commands load when they run, of `astra_tui`, besides all that is in `cli`."""


class Command(msgspec.Struct):
    """What is run: `python -m MODULE ARGUMENTS` in a folder, with this environment alone."""

    module: str
    arguments: tuple[str, ...]
    folder: str
    environment: dict[str, str]


class WarmPython:
    """A process of this module, from the outside."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.warm", str(theirs.fileno())],
                cwd=ROOT,
                env={**kept, "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )

    def start(self, command: Command, streams: Sequence[int]) -> None:
        """Starts a command on descriptors for its stdin, stdout and stderr, which the caller may
        close then.
        """
        socket.send_fds(self._socket, [msgspec.json.encode(command)], streams)

    def wait(self, seconds: float) -> int:
        """The exit code of what was started."""
        self._socket.settimeout(seconds)
        answer = self._socket.recv(_LONGEST)
        assert answer, "the process that runs commands is gone"
        return msgspec.json.decode(answer, type=int)

    def run(self, command: Command, seconds: float) -> tuple[int, bytes, bytes]:
        """The exit code of a command, and what it wrote to stdout and stderr."""
        with (
            Path(os.devnull).open("rb") as nothing,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            self.start(command, [stream.fileno() for stream in (nothing, out, err)])
            code = self.wait(seconds)
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def close(self) -> None:
        """Ends the process."""
        self._socket.close()
        self._process.wait()


def main() -> None:
    """Runs commands until nobody asks any more."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    for file in (ROOT / "astra_tui" / "cli").glob("[a-z]*.py"):
        importlib.import_module(f"astra_tui.cli.{file.stem}")
    for name in IMPORTED:
        importlib.import_module(f"astra_tui.{name}")
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Whoever asks ends, and so does this.
    while True:
        data, streams, _, _ = socket.recv_fds(asked, _LONGEST, 3)
        if not data:
            return
        command = msgspec.json.decode(data, type=Command)
        module = importlib.import_module(command.module)
        pid = os.fork()
        if not pid:
            break
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(pid, 0)
        asked.send(msgspec.json.encode(os.waitstatus_to_exitcode(status)))
    asked.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(command.folder)
    os.environ.clear()
    os.environ.update(command.environment)
    sys.path[0] = command.folder
    sys.argv[1:] = command.arguments
    if not hasattr(module, "__path__"):
        del sys.modules[command.module]  # What is imported already, runpy warns of.
    runpy.run_module(command.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
