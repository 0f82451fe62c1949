"""A child for test_confine.py: locks itself into one folder and says what it can still do."""

from __future__ import annotations

import errno
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from astra_tui.processes.confine import confine_files, limit_resources

MEMORY = 1 << 30


def outcome(action: Callable[[], Any]) -> str:
    """ "done", or the name of the error that stopped it."""
    try:
        action()
    except MemoryError:
        return "MemoryError"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


def main() -> None:
    """Prints the outcomes as JSON. Arguments: the folder, a file outside, a file of our own."""
    inside, outside, scratch = (Path(argument) for argument in sys.argv[1:])
    own = scratch.open("wb", buffering=0)
    limit_resources(MEMORY, file_bytes=100)
    confined = confine_files([inside, inside / "missing"])
    outcomes = {
        "read inside": outcome((inside / "file").read_bytes),
        "read below": outcome((inside / "folder" / "file").read_bytes),
        "list inside": outcome(lambda: list(inside.iterdir())),
        "write inside": outcome(lambda: (inside / "file").write_text("x")),
        "create inside": outcome(lambda: (inside / "new").touch()),
        "remove inside": outcome((inside / "file").unlink),
        "read outside": outcome(outside.read_bytes),
        "read missing": outcome(outside.with_name("missing").read_bytes),
        "read through a link": outcome((inside / "link").read_bytes),
        "read through dots": outcome((inside / ".." / outside.name).read_bytes),
        "list outside": outcome(lambda: list(outside.parent.iterdir())),
        "write outside": outcome(lambda: outside.write_text("x")),
        "create outside": outcome(lambda: outside.with_name("new").touch()),
        "own environment": outcome(Path("/proc/self/environ").read_bytes),
        "parent's environment": outcome(Path(f"/proc/{os.getppid()}/environ").read_bytes),
        "listen": outcome(lambda: socket.socket().bind(("127.0.0.1", 0))),
        "signal the parent": outcome(lambda: os.kill(os.getppid(), 0)),
        "write 100 bytes": outcome(lambda: own.write(b"x" * 100)),
        "write 1 byte more": outcome(lambda: own.write(b"x")),
        "take too much memory": outcome(lambda: bytearray(MEMORY)),
    }
    core = resource.getrlimit(resource.RLIMIT_CORE)
    print(json.dumps({"confined": confined, "core": core, "outcomes": outcomes}))


if __name__ == "__main__":
    main()
