"""Asks what a session on a GPU will ask next, on a machine that has no GPU.

    python benchmarks/partner_away.py SESSION TASK [flags of astra-tui run]

A session whose answers a person writes (partner_server.py) waits most of the time, and between two
measurements nothing of it needs the GPU: readings, plans, drafts on the emulator, code and reviews
follow from its journal. This continues a *copy* of the session up to the first step that needs the
GPU, with the one that the journal names, on which nothing can be launched. The copy is thrown away;
prompts and answers stay with the server. The session itself asks the same prompts, by the same
hashes, once it is resumed on a GPU, and finds them answered up to its next measurement. One that
differs there waits for its answer as any other does.

It takes the same compiler (ASTRA_TUI_NVRTC) and the same version of the program.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from environment import ROOT

from astra_tui.cli import main as run_command
from astra_tui.engine import lab, loop
from astra_tui.gpu.gpu_process import Found
from astra_tui.gpu.messages import DeviceFacts
from astra_tui.lab import devices, worker
from astra_tui.lab.on_gpu import opening
from astra_tui.lab.requests import Compile, Disassemble
from astra_tui.model.gpu import GpuIdentity
from astra_tui.processes.child import AnyChild, Child
from astra_tui.rpc import Request
from astra_tui.sessions.journal_reader import read_journal

AS_LAB = "--lab"
"""The last argument but one of a lab process of this run; the last is the session's folder."""
NEED_NO_GPU = (Compile, Disassemble)
HOPPER = {
    "warp_size": 32,
    "max_threads_per_block": 1024,
    "max_threads_per_sm": 2048,
    "max_shared_memory_per_block": 232_448,
    "max_shared_memory_per_sm": 233_472,
}
"""What an H100 and an H200 answer; the journal has the rest."""


def identity(session: Path) -> GpuIdentity:
    """The GPU on which a session was opened."""
    opened = read_journal(session).state().device
    if opened is None or opened.gpu is None:
        raise SystemExit("the session has not been on a GPU yet")
    return opened.gpu


def found(gpu: GpuIdentity) -> Found:
    """A GPU, as the driver would list it."""
    cuda_driver = [int(part) for part in gpu.cuda_driver.split(".")]
    attributes = HOPPER | {"sm_count": gpu.sm_count, "l2_cache_bytes": gpu.l2_bytes or 0}
    facts = DeviceFacts(
        ordinal=0,
        name=gpu.name,
        uuid=gpu.uuid,
        pci=gpu.pci,
        capability=gpu.compute_capability,
        driver=cuda_driver[0] * 1000 + cuda_driver[1] * 10,
        memory=gpu.memory_bytes,
        attributes=attributes,
    )
    return Found((facts,))


def stand_in(session: Path) -> GpuIdentity:
    """From now on this process finds the session's GPU."""
    gpu = identity(session)
    opening.find_devices = devices.find_devices = lambda: found(gpu)
    return gpu


class Watch:
    """Knows the GPU, and reads nothing of it."""

    gpu: GpuIdentity

    def __init__(self, *_: Any) -> None:
        """Takes what `GpuWatch` takes."""

    def start(self) -> GpuIdentity:
        return self.gpu

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        """Nothing is open."""


class AwayLab(lab.Lab):
    """Interrupts the run where the GPU is needed."""

    session: Path

    async def ask(self, request: Request[Any], *, timed: bool = False) -> AsyncIterator[Any]:
        if self.has_times and not isinstance(request, NEED_NO_GPU):
            print(f"the GPU is needed next: {type(request).__name__}", flush=True)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        async for reply in super().ask(request, timed=timed):
            yield reply

    def _new(self) -> AnyChild:
        if not self.has_times:
            return super()._new()
        facts = str(self.task.folder.resolve()), self.device, self.task.hash
        return Child("partner_away", (*facts, AS_LAB, str(self.session)), "the lab process")


def main() -> None:
    if AS_LAB in sys.argv:
        stand_in(Path(sys.argv[-1]))
        worker.main()
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(sys.argv[1]).name
        shutil.copytree(sys.argv[1], copy, ignore=shutil.ignore_patterns("lock"))
        os.environ["PYTHONPATH"] = os.pathsep.join(str(p) for p in (ROOT, ROOT / "benchmarks"))
        Watch.gpu, AwayLab.session = stand_in(copy), copy
        loop.GpuWatch, loop.Lab = Watch, AwayLab
        sys.exit(run_command(["run", *sys.argv[2:], "--session", str(copy)]))


if __name__ == "__main__":
    main()
