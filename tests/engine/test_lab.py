"""The lab's processes as the loop uses them."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from astra_tui.engine.concurrency import ReadWriteLock
from astra_tui.engine.gpu_watch import process_tree
from astra_tui.engine.lab import Lab
from astra_tui.engine.rerun import check, time_pair
from astra_tui.lab.requests import NamedSource
from astra_tui.model.task import load_task
from astra_tui.model.timing import Timing
from astra_tui.processes.child import Child
from astra_tui.processes.shared_device import shared_device
from tests.conftest import ROOT
from tests.gpu.kernels import MODULE as SCRIPTED
from tests.gpu.script import FACTS
from tests.quick import write_quick_task

WORKLOADS = "[[workloads]]\ndims = { tokens = 8, d = 128 }\n"


def test_one_process_serves_every_step_of_a_candidate(quick_task):
    """A process whose answer is not read to its end is killed, and the next step pays a start.

    One that rests is not taken meanwhile: the answer to one request would be read as another's.
    """

    async def steps() -> list[list[int]]:
        text = quick_task.baseline_file.read_text(encoding="utf-8")
        lab = Lab(quick_task)
        source = lab.open(NamedSource(text, "baseline.cu"))
        try:
            found = []
            compiled = await source.compile()
            assert compiled.ok
            found.append(pids(lab))
            _, profiled = await asyncio.gather(lab.release_gpu(), source.profile())
            assert profiled.profile.workloads
            found.append(pids(lab))
            async for _ in source.check():
                pass
            found.append(pids(lab))
            return found
        finally:
            lab.close()

    first, second, third = asyncio.run(steps())
    assert len(first) == 1
    assert first == second == third


class ScriptedLab(Lab):
    """Its processes find a scripted GPU."""

    def _new(self) -> Child:
        arguments = (str(self.task.folder.resolve()), self.device, self.task.hash)
        return Child("tests.gpu_tools.scripted_worker", arguments, name="the lab process")


def gpu_processes() -> set[int]:
    """Those of this test that hold the scripted GPU."""
    ours = process_tree(os.getpid())
    return {p for p in ours if SCRIPTED in Path(f"/proc/{p}/cmdline").read_text(encoding="utf-8")}


def test_checks_and_timings_keep_their_processes_and_know_of_each_others(monkeypatch, tmp_path):
    """verify, compare and bisect check and time one source after the other.

    The timing knows of the idle processes that hold the GPU. They stay: the next check would
    wait for new ones.
    """
    task = load_task(write_quick_task(tmp_path / "kernels", WORKLOADS))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    async def steps() -> tuple[list[list[int]], list[set[int]]]:
        text = task.baseline_file.read_text(encoding="utf-8")
        lab = ScriptedLab(task, "cuda:0")
        labs: list[list[int]] = []
        holding: list[set[int]] = []
        source = NamedSource(text, "a.cu")
        try:
            for _ in range(2):
                await check(lab, source)
                labs.append(pids(lab))
            holding.append(gpu_processes())
            pair = source, NamedSource(f"{text}// anew", "b.cu")
            timing = await time_pair(lab, *pair, (task.workloads[0].name,))
            assert isinstance(timing, Timing)
            labs.append(pids(lab))
            holding.append(gpu_processes())
            assert holding[-1] <= shared_device(FACTS.uuid).holders()
            await lab.release_gpu()
            holding.append(gpu_processes())
            return labs, holding
        finally:
            lab.close()

    (first, *others), (checked, timed, rested) = asyncio.run(steps())
    assert len(first) == 1
    assert all(other == first for other in others)
    assert len(checked) == 2, "that of the candidate and the one for the next"
    assert len(timed - checked) == 1, "the one that times"
    assert checked < timed
    assert rested == timed - checked


def pids(lab: Lab) -> list[int]:
    return [child.pid for child in lab.idle]


def test_a_timing_that_waits_goes_before_later_checks() -> None:
    async def test() -> list[str]:
        lock, order = ReadWriteLock(), list[str]()

        async def use(turn: AbstractAsyncContextManager[None], name: str) -> None:
            async with turn:
                order.append(name)

        async with lock.read():
            timing = asyncio.create_task(use(lock.write(), "timing"))
            while not lock._waiting:
                await asyncio.sleep(0)
            checks = [asyncio.create_task(use(lock.read(), "check")) for _ in range(3)]
            for _ in range(10):  # Each of them has got as far as it may.
                await asyncio.sleep(0)
            assert order == []
        await asyncio.gather(timing, *checks)
        return order

    assert asyncio.run(test()) == ["timing", "check", "check", "check"]
