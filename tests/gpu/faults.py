"""What can become of a process that holds a GPU, apart from errors of the driver."""

from __future__ import annotations

import os
import signal
import struct
import threading
from collections.abc import Callable

from astra_tui.gpu.messages import Dropped, encode
from astra_tui.processes.frames import write_frame

_FLOOD = b"flood " * (1 << 17)


def wait_for_ever() -> None:
    """Waits for a byte that no one can send."""
    read_end, _write_end = os.pipe()
    os.read(read_end, 1)
    raise AssertionError


def _exit(_reply_fd: int) -> None:
    os.write(2, b"the driver gave up\n")
    os._exit(7)


def _killed(_reply_fd: int) -> None:
    signal.pthread_kill(threading.get_ident(), signal.SIGKILL)  # As a confined process may.


def _garbage(reply_fd: int) -> None:
    os.write(reply_fd, struct.pack("<I", 1) + b"\xc1")  # 0xc1 is no MessagePack.


def _unknown(reply_fd: int) -> None:
    write_frame(reply_fd, {"type": "no such reply"})


def _stray(reply_fd: int) -> None:
    write_frame(reply_fd, encode(Dropped()))


def _oversized(reply_fd: int) -> None:
    os.write(reply_fd, struct.pack("<I", 0xFFFF_FFFF))
    wait_for_ever()


def _trickle(reply_fd: int) -> None:
    """A reply that never ends, though there is always a byte more to read."""
    os.write(reply_fd, struct.pack("<I", 1 << 30))
    while True:
        os.write(reply_fd, b"\0")


def _flood(_reply_fd: int) -> None:
    os.write(1, _FLOOD)
    os.write(2, _FLOOD)


def _flood_and_exit(reply_fd: int) -> None:
    _flood(reply_fd)
    _exit(reply_fd)


TROUBLES: dict[str, Callable[[int], None]] = {
    "exit": _exit,
    "killed": _killed,
    "garbage": _garbage,
    "unknown": _unknown,
    "stray": _stray,
    "oversized": _oversized,
    "trickle": _trickle,
    "flood": _flood,
    "flood_and_exit": _flood_and_exit,
}
"""By name: what happens at the launch, given the descriptor on which replies go out."""
