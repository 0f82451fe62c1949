"""Every kind of child process tries to get out of its confinement, and so does hostile code in it.

The control is the same tries where nothing is closed: all of them have to work there.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from astra_tui.gpu.gpu_process import GpuProcess
from astra_tui.gpu.messages import Escapes, TryEscapes
from astra_tui.lab import doctor
from astra_tui.lab.cache import ContentCache
from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.oracle import Oracle, ReferenceFailed
from astra_tui.lab.check.suite import build_suite
from astra_tui.model.environment import Health, Probe
from astra_tui.model.task import load_task
from astra_tui.processes.confine import landlock_abi
from astra_tui.processes.containment import layers_of, probe_containment
from astra_tui.processes.escapes import Targets
from tests.conftest import ROOT
from tests.gpu.kernels import LONG, MODULE, scripted_tools
from tests.gpu.script import FACTS

LAYERS = ["files", "network", "environment", "processes"]
NOBODY = 65534

pytestmark = pytest.mark.skipif(
    landlock_abi() < 1, reason="this kernel has no Landlock (Linux 5.13 or newer has)"
)


@pytest.fixture(params=["as ourselves", "as nobody"])
def user(request: pytest.FixtureRequest) -> int:
    """The user to become, or 0 to stay who we are."""
    if request.param == "as ourselves":
        return 0
    if os.geteuid():
        pytest.skip("only the superuser can become another user")
    return NOBODY


@pytest.fixture
def targets() -> Iterator[Targets]:
    """What is there to be reached: a file, a folder, two ports, this process.

    The folder is not one of pytest's, which closes what lies above them to other users.
    """
    here = "127.0.0.1", 0
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(here) as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(here)
        ports = tcp.getsockname()[1], udp.getsockname()[1]
        (Path(folder) / "canary").write_text("secret")
        Path(folder).chmod(0o777)
        yield Targets(f"{folder}/canary", f"{folder}/new", *ports, (os.getpid(),))


def escapes(how: str, targets: Targets, user: int = 0) -> dict[str, str]:
    """What a child that confines itself in some way could do to its owner and around it."""
    command = [sys.executable, str(Path(__file__).with_name("escaping_child.py")), how, str(user)]
    done = subprocess.run(
        [*command, json.dumps(msgspec.to_builtins(targets))],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, str] = json.loads(done.stdout)
    return outcomes


def test_every_try_works_where_nothing_is_closed(targets: Targets, user: int) -> None:
    outcomes = escapes("open", targets, user)
    assert set(outcomes.values()) == {""}
    assert Path(targets.writable).read_bytes() == b"escaped"
    assert [(layer.name, layer.closed) for layer in layers_of(outcomes)] == [
        (name, False) for name in LAYERS
    ]


@pytest.mark.parametrize("how", ["all", "thread"])
def test_no_try_works_once_confined(how: str, targets: Targets, user: int) -> None:
    outcomes = escapes(how, targets, user)
    assert set(outcomes.values()) <= {"EPERM", "EACCES"}
    assert not Path(targets.writable).exists()
    assert all(layer.closed for layer in layers_of(outcomes))


def test_without_landlock_files_are_open_and_the_rest_is_not(targets: Targets) -> None:
    layers = {layer.name: layer for layer in layers_of(escapes("no files", targets))}
    assert not layers["files"].closed
    assert "read a file" in layers["files"].detail
    assert layers["network"].closed
    assert layers["processes"].closed


def test_a_hidden_process_keeps_its_environment(targets: Targets, user: int) -> None:
    outcomes = escapes("hidden owner", targets, user)
    assert outcomes["read the environment of its owners"] in ("EPERM", "EACCES")
    assert not outcomes["read a file"]


@pytest.mark.parametrize(
    "probe",
    [doctor._compiler_contained, doctor._emulator_contained, doctor._reference_contained],
    ids=["compiler", "emulator", "reference"],
)
def test_the_doctor_proves_each_layer(probe: Callable[[], Probe]) -> None:
    found = probe()
    assert found.health is Health.OK, found.detail
    assert [(layer.name, layer.closed) for layer in found.layers] == [(n, True) for n in LAYERS]


def test_the_doctor_says_what_is_open_and_why() -> None:
    found = probe_containment("child", "trust", lambda _: {"fork": "EPERM"})
    assert found.health is Health.MISSING
    assert "OPEN: files: not tried: read a file" in found.detail
    assert "Landlock" in found.remedy


def test_a_gpu_process_is_closed(targets: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    process = GpuProcess(FACTS.uuid, scripted_tools(), MODULE)
    try:
        outcomes = process.ask(TryEscapes(targets), Escapes, LONG).outcomes
    finally:
        process.close()
    assert set(outcomes.values()) <= {"EPERM", "EACCES"}


HOSTILE = """
import os, pathlib, socket, subprocess, sys, urllib.request

def tried(action):
    try:
        action()
    except BaseException as error:
        return type(error).__name__
    return "DONE"

ATLOAD = tried(lambda: pathlib.Path("CANARY").read_text())

def reference(**arguments):
    raise ValueError(" ".join([
        ATLOAD,
        tried(lambda: pathlib.Path("CANARY").read_text()),
        tried(lambda: pathlib.Path("NEW").write_text("x")),
        tried(lambda: pathlib.Path(__file__).write_text("x")),
        tried(lambda: subprocess.run(["true"])),
        tried(lambda: os.system("true") and 1 / 0),
        tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
        tried(lambda: urllib.request.urlopen("http://127.0.0.1:PORT")),
        tried(lambda: os.kill(os.getppid(), 0)),
        tried(lambda: pathlib.Path(f"/proc/{os.getppid()}/environ").read_bytes()),
    ]))

reference.__signature__ = __import__("inspect").Signature()
"""


def test_a_hostile_reference_gets_nowhere(targets: Targets, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(ROOT / "kernels" / "silu_and_mul", folder)
    text = HOSTILE.replace("CANARY", targets.readable).replace("NEW", targets.writable)
    (folder / "reference.py").write_text(text.replace("PORT", str(targets.tcp)))
    task = load_task(folder)
    case = build_suite(task)[0]
    with (
        Oracle(task, ContentCache("oracle", tmp_path / "cache")) as oracle,
        pytest.raises(ReferenceFailed) as caught,
    ):
        oracle.expected(case, draw_inputs(task, case))
    assert "DONE" not in str(caught.value)
    assert str(caught.value).count("PermissionError") >= 7, str(caught.value)
