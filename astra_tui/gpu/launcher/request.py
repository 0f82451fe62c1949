"""What the launcher (gpu/process/once.py) reads from its file and writes next to it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from astra_tui.gpu.messages import Failed, RunCase


class WatchedCase(msgspec.Struct, frozen=True):
    """One case. Buffers in `undefined` are left as the allocator gave them."""

    name: str
    run: RunCase
    """Its `repeats` are not used."""
    undefined: tuple[str, ...] = ()


class WatchRequest(msgspec.Struct, frozen=True):
    """Cases to run one after the other on one device."""

    uuid: str
    cases: tuple[WatchedCase, ...]
    rounds: int = 1
    """How often all launches of a case run, each time on inputs uploaded again."""
    seconds: float = 60.0
    """After which the launcher ends itself, should no one else do it."""
    watcher: int = 0
    """The process that waits for the answer; when it is gone, so are the launcher and the tool."""


class WatchAnswer(msgspec.Struct, frozen=True):
    """How far the launcher got. `placed` are the addresses and sizes of the last case begun."""

    done: int
    """Cases that ran to their end."""
    placed: dict[str, tuple[int, int]] = {}
    failed: Failed | None = None


def answer_file(request_file: Path) -> Path:
    """Where the launcher puts its answer. Not on stdout, where kernels can print."""
    return request_file.with_suffix(".answer")


def write_request(file: Path, request: WatchRequest) -> None:
    """Raises OSError."""
    file.write_bytes(msgspec.msgpack.encode(request))


def read_request(file: Path) -> WatchRequest:
    """Raises OSError, msgspec.ValidationError."""
    return msgspec.msgpack.decode(file.read_bytes(), type=WatchRequest)


def write_answer(request_file: Path, answer: WatchAnswer) -> None:
    """Raises OSError."""
    answer_file(request_file).write_bytes(msgspec.msgpack.encode(answer))


def read_answer(request_file: Path) -> WatchAnswer | None:
    """None when the launcher wrote none, or not all of it."""
    try:
        return msgspec.msgpack.decode(answer_file(request_file).read_bytes(), type=WatchAnswer)
    except (OSError, msgspec.MsgspecError):
        return None
