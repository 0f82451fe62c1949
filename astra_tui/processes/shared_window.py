"""Memory that the judge's children share: bytes of outputs on their way from a GPU to the oracle.

One process writes it at the judge's word and another reads it; neither learns more of the other.
It takes no memory before it is written.
"""

from __future__ import annotations

import functools
import mmap
import os
from typing import Any

WINDOW_BYTES = 1 << 30


@functools.cache
def window_fd() -> int:
    """The descriptor of this process's window, the same number in children that it is passed to."""
    fd = os.memfd_create("outputs")
    os.ftruncate(fd, WINDOW_BYTES)
    return fd


@functools.cache
def window_bytes(fd: int) -> Any:
    """The window as a uint8 array; writing to it is seen by all that share it."""
    import numpy as np

    return np.frombuffer(mmap.mmap(fd, os.fstat(fd).st_size), np.uint8)
