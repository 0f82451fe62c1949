"""How processes of ours hang together: children end with their owners, and owners hide."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable

_PR_SET_DUMPABLE = 4


def exit_with_parent(read_fd: int, at_end: Callable[[], None] = lambda: None) -> None:
    """Ends this process as soon as no one holds the other end of its pipe of requests.

    Reading tells as much, but not to a process that computes for long, or for ever. `at_end` is
    called before, in another thread than the one that computes.
    """
    threading.Thread(target=_end_on_hang_up, args=(read_fd, at_end), daemon=True).start()


def hide_process() -> None:
    """Keeps this user's other processes out of this one's memory and /proc/PID/environ.

    Not those of root with all its capabilities, which is why children drop theirs.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _end_on_hang_up(read_fd: int, at_end: Callable[[], None]) -> None:
    poll = select.poll()
    poll.register(read_fd, 0)  # A hang-up is told always; a request is none of this thread's.
    poll.poll()
    at_end()
    os._exit(1)
