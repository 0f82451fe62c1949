"""Real workers: two processes of this machine under a real scheduler, with real jobs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from astra_tui.lab.requests import Check, Compile, Compiled, NamedSource
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import load_task
from astra_tui.processes.child import Child, ChildDied
from astra_tui.rpc import Call
from astra_tui.workers import RemoteChild, Workers, WorkersAsked, open_workers
from astra_tui.workers.jobs import Folder, Job
from astra_tui.workers.roster import Member
from astra_tui.workers.station import placed
from tests.conftest import ROOT, is_alive

FOLDER = ROOT / "kernels" / "silu_and_mul"
TASK = load_task(FOLDER)
LAB = "astra_tui.lab.worker", (str(FOLDER), EMULATOR, TASK.hash), "the lab process"
GOOD = NamedSource(TASK.tuned_file.read_text(), "tuned.cu")


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with open_workers(WorkersAsked(2)) as opened:
        yield opened
        mine = processes()
        assert len(mine) >= 2
    _, alive = psutil.wait_procs(mine, timeout=600)
    assert not alive


def processes() -> list[psutil.Process]:
    """The workers of this process, and all that they started."""
    found = [p for p in psutil.Process().children() if "astra_tui.workers.process" in p.cmdline()]
    return [*found, *(child for p in found for child in p.children(recursive=True))]


def compiled(child: RemoteChild | Child) -> Compiled:
    (reply,) = Call(child, Compile(GOOD), cpu=True).replies()
    return msgspec.structs.replace(reply, seconds=0.0)


def test_a_job_on_a_worker_says_what_it_says_here(workers: Workers) -> None:
    with Child(*LAB) as here:
        assert compiled(workers.start(*LAB)) == compiled(here)


def test_errors_of_a_job_keep_their_place(workers: Workers) -> None:
    with pytest.raises(UserError) as caught:
        list(Call(workers.start(*LAB), Compile(NamedSource("no plan", "bad.cu"))).replies())
    assert caught.value.file == "bad.cu"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_worker_costs_nothing_but_time(workers: Workers, number: int) -> None:
    """One that ended, or that says nothing any more: its job starts over at another."""
    found: list[Compiled] = []
    child = workers.start(*LAB)
    thread = threading.Thread(target=lambda: found.append(compiled(child)))
    names = {m.name: p for p in processes() for m in workers.roster.members.values() if named(p, m)}
    assert len(names) == 2
    thread.start()
    while not (busy := [m for m in workers.roster.members.values() if m.jobs]):
        time.sleep(0.001)
    os.kill(names[busy[0].name].pid, number)
    thread.join()
    assert found == [compiled(workers.start(*LAB))]
    assert child.last is not None
    assert child.last.losses == 1
    assert child.last.worker.address != busy[0].address
    while len(workers.roster.members) < 2:  # It was started again.
        time.sleep(0.05)


def named(process: psutil.Process, member: Member) -> bool:
    """Whether a process is the one that a worker listens in."""
    port = int(member.address.rpartition(":")[2])
    return any(c.laddr.port == port and c.status == "LISTEN" for c in process.net_connections())


def test_what_is_ended_frees_its_worker(workers: Workers) -> None:
    child = workers.start(*LAB)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            list(Call(child, Check(GOOD), cpu=True).replies())
        except ChildDied as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not (busy := [m for m in workers.roster.members.values() if m.jobs]):
        time.sleep(0.001)
    (worker,) = (p for p in processes() if named(p, busy[0]))
    while not (labs := worker.children()):
        time.sleep(0.001)
    child.kill()
    thread.join()
    assert len(ended) == 1
    while any(m.jobs for m in workers.roster.members.values()):
        time.sleep(0.001)
    while all(map(is_alive, labs)):
        time.sleep(0.01)  # Its process ends, and with it what it was at.


def test_a_folder_that_a_worker_lacks_is_made_there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ASTRA_TUI_CACHE", str(tmp_path / "cache"))
    far = msgspec.structs.replace(Folder.of(FOLDER), path="/no/such/silu_and_mul")
    job = Job("", "", *LAB[:1], (far.path, EMULATOR), {"folder": far.path}, far)
    made = Path(placed(job).arguments[0])
    assert made.is_relative_to(tmp_path)
    assert load_task(made).hash == TASK.hash
    assert placed(job).request == {"folder": str(made)}
    (made / "task.toml").write_text("altered")
    assert load_task(Path(placed(job).arguments[0])).hash == TASK.hash
    evil = msgspec.structs.replace(far, files={"../../out": b""})
    with pytest.raises(UserError):
        placed(msgspec.structs.replace(job, folder=evil))
    assert not list(tmp_path.rglob("out"))
