"""Messages between our processes: a length, then MessagePack. Plain data only, never pickle."""

from __future__ import annotations

import os
import select
import struct
import time
from typing import Any

import msgspec

MAX_FRAME = 1 << 30

_LENGTH = struct.Struct("<I")


class FrameError(Exception):
    """The other side closed the stream, sent something that is no frame, or took too long."""


def write_frame(fd: int, message: Any) -> None:
    """Writes one message. Raises FrameError when the other side is gone."""
    body = msgspec.msgpack.encode(message)
    if len(body) > MAX_FRAME:
        raise FrameError(f"a message of {len(body)} bytes is too large")
    view = memoryview(_LENGTH.pack(len(body)) + body)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BrokenPipeError:
        raise FrameError("the other process is gone") from None


def read_frame(fd: int, seconds: float | None = None) -> Any:
    """Reads one message, waiting at most `seconds` for all of it."""
    deadline = None if seconds is None else time.monotonic() + seconds
    (length,) = _LENGTH.unpack(_read_exactly(fd, _LENGTH.size, deadline))
    if length > MAX_FRAME:
        raise FrameError(f"a message of {length} bytes is too large")
    body = _read_exactly(fd, length, deadline)
    try:
        return msgspec.msgpack.decode(body)
    except msgspec.DecodeError as error:
        raise FrameError(f"a damaged message: {error}") from None


def _read_exactly(fd: int, count: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise TimeoutError
        piece = os.read(fd, min(count - len(data), 1 << 20))
        if not piece:
            raise FrameError("the other process is gone")
        data += piece
    return bytes(data)
