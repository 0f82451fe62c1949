"""A child for test_child.py, which does what the message names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from astra_tui.processes.frames import FrameError, read_frame, write_frame

_HOLD = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), b'x'); os.read(0, 1)"


def hang() -> NoReturn:
    """Waits for ever, for a byte that no one can send."""
    read_end, _write_end = os.pipe()
    os.read(read_end, 1)
    raise AssertionError


def start_grandchild(fifo: str) -> None:
    """Starts a process that writes one byte to the FIFO and then holds it open."""
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    subprocess.Popen([sys.executable, "-c", _HOLD, fifo], stdin=read_end)


def answer(message: dict[str, Any]) -> Any:
    """The answer to one message, unless the message ends this process."""
    if "fifo" in message:
        start_grandchild(message["fifo"])
    if "write" in message:
        os.write(2, message["write"].encode())
    if "exit" in message:
        os._exit(message["exit"])
    if "signal" in message:
        os.kill(os.getpid(), message["signal"])
    if "garbage" in message:
        os.write(int(sys.argv[2]), message["garbage"])
    if "hang" in message:
        hang()
    if "environment" in message:
        return dict(os.environ)
    if "descriptors" in message:
        return sorted(path.name for path in Path("/proc/self/fd").iterdir())
    return {"echo": message, "pid": os.getpid(), "folder": str(Path.cwd())}


def main() -> None:
    """Greets if told to, then answers until the other side is gone."""
    read_fd, write_fd, *words = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    if "deaf" in words:
        hang()
    if "greet" in words:
        write_frame(write_fd, {"greeting": os.getpid()})
    while True:
        try:
            message = read_frame(read_fd)
        except FrameError:
            return
        write_frame(write_fd, answer(message))


if __name__ == "__main__":
    main()
