"""No child process of ours outlives the process that asks it, whatever it is doing."""

from __future__ import annotations

import os
import select
import threading


def end_with_owner(read_fd: int) -> None:
    """Ends this process as soon as nobody holds the other end of its pipe of requests.

    Reading tells as much, but not to a process that computes for long, or for ever.
    """
    threading.Thread(target=_end_on_hang_up, args=(read_fd,), daemon=True).start()


def _end_on_hang_up(read_fd: int) -> None:
    poll = select.poll()
    poll.register(read_fd, 0)  # A hang-up is told always; a request is none of this thread's.
    poll.poll()
    os._exit(1)
