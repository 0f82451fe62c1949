"""What each part may import: proven by importing it in a fresh process and looking."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

from astra_tui.cli.commands import SUMMARIES

HEAVY = ("torch", "cuda", "openai", "textual", "numpy", "rich", "tree_sitter", "pygments", "z3")

ALLOWED = {
    "astra_tui": (),
    "astra_tui.model": (),
    "astra_tui.model.task": (),
    "astra_tui.model.launch": (),
    "astra_tui.model.check": (),
    "astra_tui.emulator.opcode_table": (),
    "astra_tui.cli": (),
    "astra_tui.cli.commands": (),
    "astra_tui.cli.json_answers": (),
    "astra_tui.cli.commands.check": ("rich",),
    "astra_tui.cli.commands.run": ("rich",),
    "astra_tui.cli.commands.attach": ("rich",),
    "astra_tui.cli.commands.resume": ("rich",),
    "astra_tui.cli.commands.fork": ("rich",),
    "astra_tui.cli.commands.replay": ("rich",),
    "astra_tui.sessions.timeline": (),
    "astra_tui.sessions.integrity": (),
    "astra_tui.plain": ("rich",),
    "astra_tui.cli.attending.follow": ("rich",),
    "astra_tui.sessions.client": (),
    "astra_tui.sessions.engines": (),
    "astra_tui.export": (),
    "astra_tui.lab.compiler": (),
    "astra_tui.emulator.device": ("numpy",),
    "astra_tui.lab.check.runner": ("numpy", "tree_sitter"),
    "astra_tui.drafting": ("tree_sitter",),
    "astra_tui.lab.devices": (),
    "astra_tui.lab.doctor": (),
    "astra_tui.engine.process": ("tree_sitter",),
    "astra_tui.tui": (),
    "astra_tui.tui.source": (),
    "astra_tui.tui.view": ("rich",),
    "astra_tui.tui.screens.home": ("rich", "textual"),
    "astra_tui.tui.screens.session": ("rich", "textual"),
}
"""Which of the heavy packages an import may bring in."""

MAX_MODULES = {"astra_tui.cli.commands": 75, "astra_tui.model.task": 120}
"""Bounds on what starting a command costs, counted in modules."""

MAX_FOR_HELP = 165
"""The same for the help on any command: half of them are click's and Python's own."""


_ASKED = """
import sys, json, os
before = set(sys.modules)
def tell():
    print(json.dumps(sorted(set(sys.modules) - before)), flush=True)
"""


def told_by(script: str) -> list[set[str]]:
    """Sets of modules that a fresh process tells of: those beyond Python's own."""
    answer = subprocess.run(
        [sys.executable, "-c", _ASKED + script], capture_output=True, text=True, check=True
    )
    return [set(json.loads(line)) for line in answer.stdout.splitlines()]


def modules_after(statement: str) -> list[str]:
    """The modules loaded in a fresh process by a statement, beyond those of Python itself."""
    (loaded,) = told_by(f"{statement}\ntell()\n")
    return sorted(loaded)


@pytest.mark.parametrize("allowed", dict.fromkeys(ALLOWED.values()), ids=" ".join)
def test_import_brings_in_only_what_it_may(allowed: tuple[str, ...]) -> None:
    """Modules that may bring in the same share a process, which looks after each."""
    modules = [module for module, may in ALLOWED.items() if may == allowed]
    told = told_by("".join(f"import {module}; tell()\n" for module in modules))
    for module, loaded in zip(modules, told, strict=True):
        assert {m.partition(".")[0] for m in loaded} & {*HEAVY} <= {*allowed}, module


@pytest.mark.parametrize("module", MAX_MODULES)
def test_import_stays_small(module: str) -> None:
    (loaded,) = told_by(f"import {module}; tell()")
    assert len(loaded) <= MAX_MODULES[module]


def modules_of(*command_lines: Sequence[str]) -> list[set[str]]:
    """The modules that each command line loads in a process of its own, forked where `cli` has been
    imported, which is how all begin.
    """
    return told_by(f"""
import contextlib, io
from astra_tui.cli import main
for arguments in {[[*line] for line in command_lines]}:
    if not os.fork():
        with contextlib.redirect_stdout(io.StringIO()):
            main(arguments)
        tell()
        os._exit(0)
    assert os.wait()[1] == 0, arguments
""")


def test_help_loads_no_command() -> None:
    (loaded,) = modules_of(["--help"])
    assert not [m for m in loaded if m.startswith(("astra_tui.lab", "astra_tui.plain"))]


def test_help_on_a_command_loads_little_of_what_it_does() -> None:
    told = modules_of(*((command, "--help") for command in SUMMARIES))
    for command, loaded in zip(SUMMARIES, told, strict=True):
        assert len(loaded) <= MAX_FOR_HELP, command
        rooms = {name.split(".")[1] for name in loaded if name.startswith("astra_tui.")}
        assert rooms <= {"cli", "plain", "model", "processes"}, command


def test_a_warm_check_loads_neither_torch_nor_cuda_in_its_own_process() -> None:
    (loaded,) = modules_of(["check", "silu_and_mul", "--case", "float16/typical"])
    assert not {name.partition(".")[0] for name in loaded} & {"torch", "cuda", "openai", "textual"}


def test_no_module_imports_itself_through_others() -> None:
    """Late imports and those for types count as well."""
    graph = grimp.build_graph("astra_tui", cache_dir=None)
    order = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    try:
        TopologicalSorter(order).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' <- '.join(error.args[1])}")
