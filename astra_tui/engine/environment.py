"""On what this machine works: programs, compiler, GPU.

`python -m astra_tui.engine.environment DEVICE` prints it as JSON: a front end asks in a process of
its own, because looking at a GPU loads what a screen must not.
"""

from __future__ import annotations

import platform
import sys

import msgspec

from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.lab.devices import DeviceChoice, choose_device
from astra_tui.model.environment import Environment, current_versions
from astra_tui.model.errors import UserError
from astra_tui.sessions.engines import NotReady


def current_environment(chosen: DeviceChoice) -> Environment:
    """What this machine is, with a device that it or its workers have."""
    return Environment(
        host=platform.node(),
        device=chosen.name,
        compiler=_compiler(),
        versions=current_versions(),
        gpu=chosen.identify(),
    )


def _compiler() -> str:
    try:
        with Compiler() as compiler:
            return compiler.identify()
    except CompilerUnavailable:
        return ""


def main() -> int:
    """Prints the environment; with exit code 1 the parts of the UserError in its place."""
    try:
        answer, code = msgspec.json.encode(current_environment(choose_device(sys.argv[1]))), 0
    except UserError as error:
        answer, code = msgspec.json.encode(NotReady.of(error)), 1
    sys.stdout.buffer.write(answer)
    return code


if __name__ == "__main__":
    sys.exit(main())
