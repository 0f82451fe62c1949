"""No process of ours outlives the one that asks it, whatever it is doing then."""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from astra_tui.engine.gpu_watch import process_tree
from astra_tui.gpu.gpu_process import GpuProcess
from astra_tui.gpu.messages import Kernel, RunCase, encode
from astra_tui.lab.requests import Check, NamedSource
from astra_tui.model.task import load_task
from astra_tui.processes.child import Child
from astra_tui.rpc import Call
from tests.compiler.test_compile import unread_bytes
from tests.compiler.test_hostile_source import BOMBS
from tests.conftest import ROOT
from tests.gpu.kernels import MODULE, scripted_tools
from tests.gpu.script import FACTS, Script, Scripted

LONG = 30.0
"""A limit that no wait here reaches."""

LOOP = """
import os
with open({fifo!r}, "w") as fifo:
    fifo.write(str(os.getpid()))
while True:
    pass
"""


class Looping:
    """A Python source that never ends, and the process that runs it."""

    def __init__(self, fifo: Path):
        os.mkfifo(fifo)
        self._handle = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.source = LOOP.format(fifo=str(fifo))

    def pid(self) -> int:
        """The process in the loop, once it is there."""
        assert select.select([self._handle], [], [], LONG)[0]
        return int(os.read(self._handle, 20))

    def close(self) -> None:
        os.close(self._handle)


@pytest.fixture
def looping(tmp_path: Path) -> Iterator[Looping]:
    made = Looping(tmp_path / "fifo")
    yield made
    made.close()


@contextmanager
def watched(pid: int) -> Iterator[int]:
    """A handle of a process, which does not outlive the block."""
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)


def has_ended(handle: int) -> bool:
    return bool(select.select([handle], [], [], LONG)[0])


def hang_up(child: Child) -> None:
    """What the kernel does for a process that asks and is killed."""
    os.close(child._write_fd)
    child._write_fd = -1


def wait_until_read(child: Child) -> None:
    """Waits until the process has taken all that was sent."""
    ends = time.monotonic() + LONG
    while unread_bytes(child._write_fd):
        assert time.monotonic() < ends
        time.sleep(0.005)


def wait_until_opened(fifo: Path) -> None:
    """Waits until a process has opened a pipe, which it reads to its end: at once."""
    ends = time.monotonic() + LONG
    while True:
        with suppress(OSError):
            return os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        assert time.monotonic() < ends
        time.sleep(0.005)


def oracle_of(lab: Child) -> int:
    """The process that runs the reference."""
    command = {p: Path(f"/proc/{p}/cmdline").read_bytes() for p in process_tree(lab.pid)}
    (oracle,) = (p for p, words in command.items() if b"oracle_worker" in words)
    return oracle


@pytest.mark.parametrize("end", [Child.kill, hang_up])
def test_a_reference_that_loops_ends_with_the_lab_process(
    tmp_path: Path, end: Callable[[Child], None]
) -> None:
    folder = tmp_path / "silu_and_mul"
    shutil.copytree(ROOT / "kernels" / "silu_and_mul", folder)
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    # It is confined to reading in its task's folder.
    (folder / "reference.py").write_text(
        f"open({str(fifo)!r}).read()\nwhile True:\n    pass\n", encoding="utf-8"
    )
    text = (folder / "baseline.cu").read_text(encoding="utf-8")
    facts = str(folder), "emulator", load_task(folder).hash
    with ExitStack() as stack:
        lab = stack.enter_context(Child("astra_tui.lab.worker", facts))
        Call(lab, Check(NamedSource(text, "baseline.cu"))).begin()
        wait_until_opened(fifo)
        handles = [stack.enter_context(watched(pid)) for pid in (oracle_of(lab), lab.pid)]
        end(lab)
        assert all(map(has_ended, handles))


def test_an_export_that_loops_ends_with_its_owner(looping: Looping, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "_host.py").write_text(looping.source, encoding="utf-8")
    with Child("astra_tui.export.artefact_process", ("plan", str(package), "name", "")) as child:
        child.start()
        with watched(looping.pid()) as handle:
            hang_up(child)
            assert has_ended(handle)


def test_a_compile_that_takes_for_ever_ends_with_its_owner() -> None:
    with Child("astra_tui.lab.compiler.worker") as child:
        child.receive(LONG)
        child.send(
            {
                "source": BOMBS["templates"],
                "name": "kernel.cu",
                "expressions": [],
                "headers": {},
                "options": [],
                "cubin": False,
            },
            LONG,
        )
        wait_until_read(child)
        with watched(child.pid) as handle:
            hang_up(child)
            assert has_ended(handle)


def test_a_kernel_that_hangs_ends_with_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    kernel = Kernel("k", (1, 1, 1), (1, 1, 1), 0, b"", ())
    cubin = Script({"k": Scripted(trouble="hang")}).cubin()
    process = GpuProcess(FACTS.uuid, scripted_tools(), MODULE)
    try:
        process.settle()
        child = process._child
        child.send(encode(RunCase(cubin, (kernel,), ())), LONG)
        wait_until_read(child)
        with watched(child.pid) as handle:
            hang_up(child)
            assert has_ended(handle)
    finally:
        process.close()
