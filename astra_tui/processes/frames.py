"""What goes between our processes: messages, and bytes of outputs in memory that they share.

A message is a length, then MessagePack: plain data only, never pickle. The window is for outputs on
their way from a GPU to the oracle: one process writes it at the judge's word, another reads it, and
neither learns more of the other. It takes no memory before it is written.
"""

from __future__ import annotations

import functools
import math
import mmap
import os
import select
import struct
import time
from typing import Any

import msgspec

MAX_FRAME = 1 << 30
LARGE_FRAME = 1 << 20

_LENGTH = struct.Struct("<I")


class FrameError(Exception):
    """The other side closed the stream, or sent something that is no frame."""


def write_frame(fd: int, message: Any, seconds: float | None = None) -> None:
    """Writes one message. Raises FrameError when the other side is gone.

    On a descriptor that does not block, raises TimeoutError when not all was taken in `seconds`.
    """
    body = msgspec.msgpack.encode(message)
    if len(body) > MAX_FRAME:
        raise FrameError(f"a message of {len(body)} bytes is too large")
    deadline = None if seconds is None else time.monotonic() + seconds
    head = _LENGTH.pack(len(body))
    # A message may have a gigabyte, of which no copy is made.
    for part in (head, body) if len(body) > LARGE_FRAME else (head + body,):
        view = memoryview(part)
        while view:
            _wait(fd, select.POLLOUT, deadline)
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise FrameError("the other process is gone") from None


def read_frame(fd: int, seconds: float | None = None) -> Any:
    """Reads one message. Raises TimeoutError when not all of it came in `seconds`."""
    deadline = None if seconds is None else time.monotonic() + seconds
    (length,) = _LENGTH.unpack(_read_exactly(fd, _LENGTH.size, deadline))
    if length > MAX_FRAME:
        raise FrameError(f"a message of {length} bytes is too large")
    body = _read_exactly(fd, length, deadline)
    try:
        return msgspec.msgpack.decode(body)
    except (ValueError, RecursionError) as error:  # ValueError: also text that is not UTF-8.
        raise FrameError(f"a damaged message: {error}") from None


def _read_exactly(fd: int, count: int, deadline: float | None) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        _wait(fd, select.POLLIN, deadline)
        got = os.readv(fd, [view])
        if not got:
            raise FrameError("the other process is gone")
        view = view[got:]
    return data


def _wait(fd: int, event: int, deadline: float | None) -> None:
    """Waits until the descriptor is ready or the other side is gone."""
    milliseconds = None
    if deadline is not None:
        milliseconds = math.ceil((deadline - time.monotonic()) * 1000)
        if milliseconds <= 0:
            raise TimeoutError
    poll = select.poll()  # select.select cannot watch a descriptor above 1023.
    poll.register(fd, event)
    if not poll.poll(milliseconds):
        raise TimeoutError


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
