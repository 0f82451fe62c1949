"""Tries to get out of a confined process, from inside of it; see containment.py."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec


class Targets(msgspec.Struct, frozen=True):
    """What a process is to reach for: files outside of its own, ports of ours, processes."""

    readable: str
    writable: str
    tcp: int
    udp: int
    owners: tuple[int, ...]


def try_escapes(targets: Any) -> dict[str, str]:
    """Every try by its name, with why it was refused; an empty text where it was done.

    `targets` are `Targets` as plain data.
    """
    aim = msgspec.convert(targets, Targets)
    tries: dict[str, Callable[[], Any]] = {
        "read a file": lambda: Path(aim.readable).read_bytes(),
        "write a file": lambda: Path(aim.writable).write_bytes(b"escaped"),
        "connect by TCP": lambda: _connect(aim.tcp),
        "send by UDP": lambda: _send(aim.udp),
        "open a local socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "read the environment of its owners": lambda: _read_environment(aim.owners),
        "fork": _fork,
        "start a program": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
        "signal its owner": lambda: os.kill(aim.owners[0], 0),
    }
    return {name: _outcome(action) for name, action in tries.items()}


def _outcome(action: Callable[[], Any]) -> str:
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error) or type(error).__name__)
    return ""


def _connect(port: int) -> None:
    with socket.socket() as end:
        end.settimeout(5)
        end.connect(("127.0.0.1", port))


def _send(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"escaped", ("127.0.0.1", port))


def _read_environment(owners: tuple[int, ...]) -> None:
    """Succeeds where one of them can be read; otherwise fails as the last one did."""
    refused: OSError | None = None
    for owner in owners:
        try:
            Path(f"/proc/{owner}/environ").read_bytes()
        except OSError as error:
            refused = error
        else:
            return
    if refused is not None:
        raise refused


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)
