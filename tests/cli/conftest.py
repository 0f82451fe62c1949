"""A shell for every test, with kernels that are right and wrong in known ways."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Shell
from tests.conftest import ROOT
from tests.lab_answers import VARIABLE, LabAnswers

SILU = ROOT / "kernels" / "silu_and_mul"
SERVER = ROOT / "tests" / "llm" / "server.py"
KEY = "sk-test-0123456789abcdef"
"""What the model's server asks for."""


@pytest.fixture
def shell(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, lab_answers: LabAnswers
) -> Iterator[Shell]:
    """An empty folder; tasks are found among the bundled ones. No engine outlives the test.

    Labs of engines answer what they were asked in an earlier test, unless told `AT_WORK`.
    """
    (tmp_path / "home").mkdir()
    runtime = tmp_path_factory.mktemp("run")
    answers = {VARIABLE: str(lab_answers.folder)}
    shell = Shell(tmp_path, {"XDG_RUNTIME_DIR": str(runtime), **answers})
    yield shell
    if list(shell.runtime.glob("*.sock")):
        shell.run("stop", "--all")


@pytest.fixture
def sources(shell: Shell) -> dict[str, str]:
    """Kernel sources by what is wrong with them, written into the shell's folder."""
    good = (SILU / "baseline.cu").read_text(encoding="utf-8")
    versions = {
        "good.cu": good,
        "tail.cu": good.replace("i < count", "i <= count"),
        "wrong.cu": good.replace("expf(-gate)", "expf(gate)"),
        "no_compile.cu": good.replace("const float up", "const flaot up"),
        "no_plan.cu": good.replace("@launch", "launch"),
        "broken_plan.cu": good.replace("grid=min(ceil_div", "grid=min((ceil_div"),
    }
    assert len(set(versions.values())) == len(versions)
    for name, text in versions.items():
        (shell.folder / name).write_text(text, encoding="utf-8")
    return versions


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A model's server on loopback, which offers two models and has no answers."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"key": KEY, "models": ["small", "large"]}))
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(script)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[1]
        server.terminate()
