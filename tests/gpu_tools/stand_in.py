"""Stands in for compute-sanitizer and ncu: takes their command line, runs the real launcher code on
the scripted driver in the place of the GPU, and writes what the test wants the tool to have said.

A `Behaviour` lies as JSON next to the program that the test puts on PATH.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import msgspec

from astra_tui.gpu.launcher.request import (
    WatchAnswer,
    answer_file,
    read_request,
    write_answer,
)
from astra_tui.gpu.process.once import EXIT_FAILED, Launcher
from tests.gpu.scripted_driver import ScriptedDriver


class Behaviour(msgspec.Struct):
    """What the program does with the command line that it is given."""

    version: str = "2025.3.1.0"
    logs: dict[str, str] = {}
    """Its log by the value of --tool ("" without one). "@x+4@" is the address of x and 4 more."""
    faulty_cases: tuple[str, ...] = ()
    """The logs are written only if one of these is among the cases; "" is any."""
    faulty_code: str = ""
    """The logs are written only if this is in the machine code."""
    clean: str = ""
    """The log when none of them is."""
    printed: str = ""
    trouble: str = ""
    """One of "hang", "flood", "die", "nothing", "launch"."""
    exit_code: int = 0
    unknown: tuple[str, ...] = ()
    """Metrics that it refuses to run with."""


def behaviour_file(program: Path) -> Path:
    """Where a program's behaviour is."""
    return program.with_suffix(".json")


def calls_file(program: Path) -> Path:
    """Where it notes the command lines that it was given, one in a line."""
    return program.with_suffix(".calls")


def install(folder: Path, name: str, behaviour: Behaviour) -> Path:
    """Makes a program of that name."""
    program = folder / name
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n"
        "from tests.gpu_tools.stand_in import main\n"
        f"sys.exit(main(Path({str(program)!r})))\n"
    )
    program.chmod(0o755)
    behaviour_file(program).write_bytes(msgspec.json.encode(behaviour))
    return program


def calls(program: Path) -> list[list[str]]:
    """The command lines of all runs, without those that asked for the version."""
    lines = calls_file(program).read_text().splitlines() if calls_file(program).exists() else []
    return [msgspec.json.decode(line, type=list[str]) for line in lines]


def main(program: Path) -> int:
    """The program."""
    behaviour = msgspec.json.decode(behaviour_file(program).read_bytes(), type=Behaviour)
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"Copyright (c) somebody\nVersion {behaviour.version} (build 1)")
        return 0
    with calls_file(program).open("ab") as file:
        file.write(msgspec.json.encode(arguments) + b"\n")
    if behaviour.trouble:
        return _trouble(behaviour.trouble, arguments)
    wanted = _option(arguments, "--metrics").split(",")
    unknown = [name for name in wanted if name in behaviour.unknown]
    if unknown:
        text = "".join(f"==ERROR== Failed to find metric regex:^{name}$\n" for name in unknown)
        Path(_option(arguments, "--log-file")).write_text(text)
        return 1
    print(behaviour.printed)
    return _watch(behaviour, arguments)


def _watch(behaviour: Behaviour, arguments: list[str]) -> int:
    file = Path(arguments[-1])
    request = read_request(file)
    answer = Launcher(ScriptedDriver(), request).run()
    names = {case.name for case in request.cases} | {""}
    tool = _option(arguments, "--tool")
    log = behaviour.logs.get(tool, behaviour.clean)
    code = b"".join(case.run.cubin for case in request.cases)
    if not names & set(behaviour.faulty_cases) or behaviour.faulty_code.encode() not in code:
        log = behaviour.clean
    Path(_option(arguments, "--log-file")).write_text(_with_addresses(log, answer))
    write_answer(file, answer)
    assert answer_file(file).exists()
    if behaviour.exit_code:
        return behaviour.exit_code
    return EXIT_FAILED if answer.failed is not None else 0


def _trouble(trouble: str, arguments: list[str]) -> int:
    if trouble == "hang":
        # As the launcher under a tool: a process of its own, that holds our output.
        if os.fork() == 0:
            _wait_for_ever()
        _wait_for_ever()
    if trouble == "flood":
        while True:
            print("x" * 1000)
    if trouble == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if trouble == "launch":
        at = arguments.index("-P")
        os.execv(arguments[at - 1], arguments[at - 1 :])
    return 0


def _wait_for_ever() -> None:
    while True:
        time.sleep(1000)


def _with_addresses(log: str, answer: WatchAnswer) -> str:

    def address(match: re.Match[str]) -> str:
        return hex(answer.placed[match[1]][0] + int(match[2] or 0))

    return re.sub(r"@(\w+)([+-]\d+)?@", address, log)


def _option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1] if name in arguments else ""
