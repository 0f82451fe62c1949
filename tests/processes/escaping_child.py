"""For test_containment.py: becomes a user, and has a child that confines itself try to get out."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from astra_tui.processes.confine import (
    ConfinedThread,
    confine,
    drop_capabilities,
    program_roots,
    refuse_system_calls,
)
from astra_tui.processes.escapes import try_escapes
from astra_tui.processes.exit_with_parent import hide_process

_PR_SET_DUMPABLE = 4
_ROOTS = program_roots()  # While all of Python can still be imported.


def main() -> None:
    """Prints every try with why it was refused. Arguments: how, a user or 0, the targets."""
    how, user, targets = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # As a process that began as theirs.
    if how == "hidden owner":
        hide_process()
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        outcomes = _try(how, {**targets, "owners": [os.getppid()]})
        os.write(writing, json.dumps(outcomes).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        print(answer.read())


def _try(how: str, targets: dict[str, Any]) -> dict[str, str]:
    match how:
        case "all":
            assert confine(_ROOTS)
        case "no files":  # As on a kernel without Landlock.
            drop_capabilities()
            assert refuse_system_calls()
        case "hidden owner":
            drop_capabilities()
        case "thread":
            outcomes = ConfinedThread().run(try_escapes, targets)
            # The control: this process keeps what the thread has given up.
            assert Path(targets["readable"]).read_text()
            assert os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1] == 0
            return outcomes
    return try_escapes(targets)


if __name__ == "__main__":
    main()
