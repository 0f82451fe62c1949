"""The judge's side of one process that holds a GPU, and of one that only lists them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from astra_tui.gpu.messages import (
    DeviceFacts,
    Failed,
    List,
    Listed,
    Open,
    Opened,
    Reply,
    Request,
    decode_reply,
    encode,
)
from astra_tui.gpu.tools import ToolKernels
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.processes.frames import window_fd
from astra_tui.processes.shared_device import shared_device

MODULE = "astra_tui.gpu.process.main"
START_SECONDS = 60.0

R = TypeVar("R", bound=Reply)


class GpuFailure(Exception):
    """A request that was not done; the message says how. `is_fatal`: the process is gone."""

    is_fatal = True


class CudaFailed(GpuFailure):
    """The driver refused. `code` is 0 for failures of our own process."""

    def __init__(self, failed: Failed):
        super().__init__(failed.message)
        self.code = failed.code
        self.name = failed.name
        self.is_fatal = failed.sticky


class GpuHung(GpuFailure):
    """No answer in time: the process was killed, and the kernel with it."""


class GpuProcessDied(GpuFailure):
    """The process ended, or sent something that is no answer."""


class GpuProcess:
    """A process with a CUDA context on one device. After a fatal failure it is closed.

    It shares the device with other processes of this user, unless its owner has it alone.
    """

    def __init__(self, uuid: str, tools: ToolKernels, module: str = MODULE):
        self._uuid = uuid
        self._tools = tools
        self.device = shared_device(uuid)
        self._child = Child(module, name="the GPU process", fds=(window_fd(),))
        self._is_opening = False
        self.opened: Opened | None = None

    def start(self) -> None:
        """Lets the process start and take hold of the GPU while the caller continues.

        What fails is tried again, and told, at the first request.
        """
        if self.opened is not None or self._is_opening:
            return
        use = None if self._child.running else self.device.join()
        try:
            self._child.fds = (window_fd(),) if use is None else (window_fd(), use)
            self._child.start()
        finally:  # The next process must not get what has this number by then.
            self._child.fds = (window_fd(),)
            if use is not None:
                os.close(use)
        self.device.note_holder(self._child.pid)
        with suppress(GpuFailure), self._closed_if_fatal(), _as_gpu_failure():
            self._child.send(self._opening(-1 if use is None else use), START_SECONDS)
            self._is_opening = True

    def settle(self) -> None:
        """Waits until the process holds the GPU. Raises GpuFailure."""
        if self.opened is not None:
            return
        with self.device.together(), self._closed_if_fatal(), _as_gpu_failure():
            if not self._is_opening:
                self._child.send(self._opening(), START_SECONDS)
            self._is_opening = False
            self.opened = _understood(self._child.receive(START_SECONDS), Opened)
        self.device.note_holder(self.opened.pid)

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._child.running

    def ask(self, request: Request, answer: type[R], seconds: float) -> R:
        """Sends a request and waits for its answer. Raises GpuFailure."""
        self.settle()
        with self.device.together(), self._closed_if_fatal():
            return exchange(self._child, request, answer, seconds)

    def close(self) -> None:
        """Ends the process at once, and whatever its kernels do."""
        self._child.close()
        self._is_opening = False
        self.opened = None

    def kill(self) -> None:
        """Ends the process from another thread."""
        self._child.kill()

    def _opening(self, use: int = -1) -> Any:
        tools = self._tools
        return encode(Open(self._uuid, tools.cubin, tools.symbols, window=window_fd(), use=use))

    @contextmanager
    def _closed_if_fatal(self) -> Iterator[None]:
        try:
            yield
        except GpuFailure as error:
            if error.is_fatal:
                self.close()
            raise


def exchange(child: Child, request: Request, answer: type[R], seconds: float) -> R:
    """One request and its answer. Raises GpuFailure."""
    with _as_gpu_failure():
        return _understood(child.ask(encode(request), seconds), answer)


@contextmanager
def _as_gpu_failure() -> Iterator[None]:
    try:
        yield
    except ChildTimeout as error:
        raise GpuHung(str(error)) from None
    except ChildDied as error:
        raise GpuProcessDied(str(error).strip().splitlines()[-1]) from None
    except ValueError as error:  # msgspec.ValidationError is one.
        raise GpuProcessDied(f"the GPU process gave an answer of no known form: {error}") from None


def _understood(message: Any, answer: type[R]) -> R:
    reply = decode_reply(message)
    if isinstance(reply, Failed):
        raise CudaFailed(reply)
    if not isinstance(reply, answer):
        raise GpuProcessDied(f"the GPU process answered {type(reply).__name__}")
    return reply


def list_devices(module: str = MODULE) -> tuple[DeviceFacts, ...]:
    """The devices that a process of ours sees. Raises GpuFailure."""
    child = Child(module, name="the GPU process")
    try:
        return exchange(child, List(), Listed, START_SECONDS).devices
    finally:
        child.close()


_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""Of NVIDIA's driver on Linux, and of the one that WSL passes through."""


@dataclass(frozen=True)
class Found:
    """The devices, or why there is none."""

    devices: tuple[DeviceFacts, ...]
    problem: str = ""
    has_driver: bool = True


def find_devices() -> Found:
    """The GPUs that CUDA can use here."""
    if not any(Path(file).exists() for file in _DEVICE_FILES):
        return Found((), "no NVIDIA driver is loaded", has_driver=False)
    try:
        devices = list_devices()
    except GpuFailure as error:
        return Found((), str(error))
    return Found(devices, "" if devices else "the driver shows no device")


_KINDS = {
    2: FindingKind.OUT_OF_RESOURCES,
    226: FindingKind.HARDWARE,
    214: FindingKind.HARDWARE,
    700: FindingKind.GLOBAL_OUT_OF_BOUNDS,
    701: FindingKind.OUT_OF_RESOURCES,
    702: FindingKind.HANG,
    710: FindingKind.ASSERTION,
    714: FindingKind.HARDWARE,
    715: FindingKind.TRAP,
    716: FindingKind.MISALIGNED,
    717: FindingKind.GLOBAL_OUT_OF_BOUNDS,
    718: FindingKind.GLOBAL_OUT_OF_BOUNDS,
    719: FindingKind.TRAP,
}

_SHARED_REFUSED = "cuFuncSetAttribute: "
"""Dynamic shared memory is all that is asked for there; the driver says "invalid value"."""


def finding_of(error: GpuFailure) -> Finding:
    """What a failed run says about the candidate."""
    if isinstance(error, GpuHung):
        return Finding(FindingKind.HANG, str(error))
    if isinstance(error, CudaFailed):
        if str(error).startswith(_SHARED_REFUSED):
            text = f"more shared memory than a block may have ({error})"
            return Finding(FindingKind.OUT_OF_RESOURCES, text)
        kind = _KINDS.get(error.code, FindingKind.LAUNCH_FAILED)
        return Finding(kind, str(error))
    return Finding(FindingKind.LAUNCH_FAILED, str(error))
