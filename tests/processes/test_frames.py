"""Frames: what is written is read, and nothing else is ever taken for a message."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.processes.frames import MAX_FRAME, FrameError, read_frame, write_frame
from tests.compiler.helpers import PATIENT

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
MESSAGES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@dataclass
class Pipe:
    read_end: int
    write_end: int

    def close_write(self) -> None:
        os.close(self.write_end)
        self.write_end = -1

    def close_read(self) -> None:
        os.close(self.read_end)
        self.read_end = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(*os.pipe())
    yield made
    for fd in (made.read_end, made.write_end):
        if fd >= 0:
            os.close(fd)


def frame(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


@PATIENT
@given(messages=st.lists(MESSAGES, max_size=3))
def test_messages_come_out_as_they_went_in(messages: list[Any]) -> None:
    read_end, write_end = os.pipe()
    try:
        for message in messages:
            write_frame(write_end, message, seconds=5)
        assert [read_frame(read_end, seconds=5) for _ in messages] == messages
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_message_larger_than_the_pipe_arrives_whole(pipe: Pipe) -> None:
    message = {"source": os.urandom(3 << 20)}
    writer = threading.Thread(target=write_frame, args=(pipe.write_end, message))
    writer.start()
    assert read_frame(pipe.read_end, seconds=20) == message
    writer.join()


def test_a_frame_cut_anywhere_is_an_error() -> None:
    whole = frame(msgspec.msgpack.encode({"ptx": "text", "n": [1, 2]}))
    for length in range(len(whole)):
        read_end, write_end = os.pipe()
        os.write(write_end, whole[:length])
        os.close(write_end)
        with pytest.raises(FrameError, match="gone"):
            read_frame(read_end, seconds=5)
        os.close(read_end)


def test_a_length_over_the_limit_is_refused_before_its_body_comes(pipe: Pipe) -> None:
    os.write(pipe.write_end, struct.pack("<I", MAX_FRAME + 1))
    with pytest.raises(FrameError, match="too large"):
        read_frame(pipe.read_end, seconds=5)


def test_a_message_over_the_limit_is_not_sent(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astra_tui.processes.frames.MAX_FRAME", 100)
    with pytest.raises(FrameError, match="too large"):
        write_frame(pipe.write_end, b"x" * 100)
    os.set_blocking(pipe.read_end, False)
    with pytest.raises(BlockingIOError):
        os.read(pipe.read_end, 1)


@PATIENT
@given(body=st.binary(max_size=40))
def test_any_body_is_a_message_or_an_error(body: bytes) -> None:
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, frame(body))
        with contextlib.suppress(FrameError):
            read_frame(read_end, seconds=5)
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\xa1\xff",
        b"\x91" * 50_000,
        b"\x01\x01",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\x80",
    ],
    ids=["empty", "reserved", "bad UTF-8", "deep", "trailing", "huge map", "map as key"],
)
def test_a_damaged_body_is_an_error(pipe: Pipe, body: bytes) -> None:
    os.write(pipe.write_end, frame(body))
    with pytest.raises(FrameError, match="damaged"):
        read_frame(pipe.read_end, seconds=5)


def test_reading_from_a_closed_pipe_is_an_error(pipe: Pipe) -> None:
    pipe.close_write()
    with pytest.raises(FrameError, match="gone"):
        read_frame(pipe.read_end)


@pytest.mark.parametrize("seconds", [None, 5])
def test_writing_to_a_closed_pipe_is_an_error(pipe: Pipe, seconds: float | None) -> None:
    pipe.close_read()
    with pytest.raises(FrameError, match="gone"):
        write_frame(pipe.write_end, "anyone there?", seconds)


def test_silence_ends_in_a_timeout(pipe: Pipe) -> None:
    with pytest.raises(TimeoutError):
        read_frame(pipe.read_end, seconds=0.05)


def test_half_a_message_ends_in_a_timeout(pipe: Pipe) -> None:
    os.write(pipe.write_end, frame(b"\xc0")[:-1])
    with pytest.raises(TimeoutError):
        read_frame(pipe.read_end, seconds=0.05)


def test_a_reader_that_does_not_read_ends_in_a_timeout(pipe: Pipe) -> None:
    os.set_blocking(pipe.write_end, False)
    with pytest.raises(TimeoutError):
        write_frame(pipe.write_end, b"x" * (1 << 20), seconds=0.05)


def test_descriptors_above_1023_work(pipe: Pipe) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= 1100:
        pytest.skip("this system allows no descriptor above 1023")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    high = fcntl.fcntl(pipe.read_end, fcntl.F_DUPFD_CLOEXEC, 1100)
    try:
        write_frame(pipe.write_end, "far up")
        assert read_frame(high, seconds=5) == "far up"
    finally:
        os.close(high)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
