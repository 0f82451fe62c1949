"""Runs cases once, to be watched by a tool: `python -m astra_tui.gpu.process.once FILE`.

Every buffer is an allocation of its own with exactly its size, so that a tool sees where it ends,
and undefined ones are not written, so that it sees who reads them first. Nothing is copied back.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
from pathlib import Path

import numpy as np

from astra_tui.gpu.launcher.request import (
    WatchAnswer,
    WatchedCase,
    WatchRequest,
    read_request,
    write_answer,
)
from astra_tui.gpu.messages import Failed
from astra_tui.gpu.process.case import bind
from astra_tui.gpu.process.driver import Driver, DriverError
from astra_tui.processes.confine import unlimit_memory

EXIT_FAILED = 3


class Launcher:
    """Runs the cases of a request in order, up to the first that fails."""

    def __init__(self, driver: Driver, request: WatchRequest):
        self._driver = driver
        self._request = request
        self._module = 0
        self._placed: dict[str, tuple[int, int]] = {}
        self._done = 0

    def run(self) -> WatchAnswer:
        """All cases; what the driver refuses is in the answer."""
        failed = None
        try:
            self._open()
            for case in self._request.cases:
                self._run_case(case)
                self._done += 1
        except DriverError as error:
            failed = Failed(error.code, error.name, str(error), error.is_sticky)
        except LookupError as error:
            failed = Failed(0, type(error).__name__, str(error), False)
        return WatchAnswer(self._done, self._placed, failed)

    def _open(self) -> None:
        uuid = self._request.uuid
        ordinals = [f.ordinal for f in self._driver.devices() if f.uuid == uuid]
        if not ordinals:
            raise LookupError(f"there is no device {uuid}")
        self._driver.open(ordinals[0])

    def _run_case(self, case: WatchedCase) -> None:
        if case.run.cubin:
            if self._module:
                self._driver.unload(self._module)
            self._module = self._driver.load(case.run.cubin)
        allocated = []
        self._placed = {}
        for buffer in case.run.buffers:
            allocated.append(self._driver.allocate(buffer.misalignment + len(buffer.content)))
            self._placed[buffer.name] = (allocated[-1] + buffer.misalignment, len(buffer.content))
        for _ in range(self._request.rounds):
            self._run_round(case)
        for address in allocated:
            self._driver.free(address)

    def _run_round(self, case: WatchedCase) -> None:
        addresses = {name: address for name, (address, _) in self._placed.items()}
        for buffer in case.run.buffers:
            if buffer.name not in case.undefined:
                content = np.frombuffer(buffer.content, np.uint8)
                self._driver.upload(addresses[buffer.name], content)
        for kernel in case.run.kernels:
            self._driver.launch(bind(self._driver, self._module, kernel, addresses))
        self._driver.wait()


def main() -> int:
    """Runs the request of the file with the real driver and writes the answer next to it."""
    file = Path(sys.argv[1])
    request = read_request(file)
    # No one catches it: a kernel that never ends goes with this process.
    signal.alarm(math.ceil(request.seconds))
    exit_with(request.watcher)
    unlimit_memory()
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    answer = _run(request)
    write_answer(file, answer)
    return EXIT_FAILED if answer.failed is not None else 0


def exit_with(watcher: int) -> None:
    """Kills our process group, in which the tool is, as soon as a process is gone.

    The process that waits for the answer may be killed without a chance to end the tool. Where
    processes cannot be waited for, the alarm has to do.
    """
    try:
        handle = os.pidfd_open(watcher)
    except ProcessLookupError:
        os.killpg(0, signal.SIGKILL)
    except OSError:
        return
    threading.Thread(target=_end_when_readable, args=(handle,), daemon=True).start()


def _end_when_readable(handle: int) -> None:
    select.select([handle], [], [])
    os.killpg(0, signal.SIGKILL)


def _run(request: WatchRequest) -> WatchAnswer:
    try:
        from astra_tui.gpu.process.bindings import CudaDriver

        return Launcher(CudaDriver(), request).run()
    except DriverError as error:  # Of cuInit, before there is a driver to ask.
        failed = Failed(error.code, error.name, str(error), error.is_sticky)
    except (ImportError, RuntimeError) as error:  # No bindings, or no driver to load.
        failed = Failed(0, type(error).__name__, str(error), False)
    return WatchAnswer(0, {}, failed)


if __name__ == "__main__":
    sys.exit(main())
