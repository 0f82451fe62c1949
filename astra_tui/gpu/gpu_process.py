"""The judge's side of one process that holds the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.processes.shared_window import window_fd

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
    """A process with a CUDA context on one device. After a fatal failure it is closed."""

    def __init__(self, uuid: str, tools: ToolKernels, module: str = MODULE):
        self._uuid = uuid
        self._tools = tools
        self._child = Child(module, name="the GPU process", fds=(window_fd(),))
        self._is_opening = False
        self.opened: Opened | None = None

    def start(self) -> None:
        """Lets the process start and take hold of the GPU while the caller continues.

        What fails is tried again, and told, at the first request.
        """
        if self.opened is not None or self._is_opening:
            return
        self._child.start()
        with suppress(GpuFailure), self._closed_if_fatal(), _as_gpu_failure():
            self._child.send(self._opening(), START_SECONDS)
            self._is_opening = True

    def settle(self) -> None:
        """Waits until the process holds the GPU. Raises GpuFailure."""
        if self.opened is not None:
            return
        with self._closed_if_fatal(), _as_gpu_failure():
            if not self._is_opening:
                self._child.send(self._opening(), START_SECONDS)
            self._is_opening = False
            self.opened = _understood(self._child.receive(START_SECONDS), Opened)

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._child.running

    def ask(self, request: Request, answer: type[R], seconds: float) -> R:
        """Sends a request and waits for its answer. Raises GpuFailure."""
        self.settle()
        with self._closed_if_fatal():
            return exchange(self._child, request, answer, seconds)

    def close(self) -> None:
        """Ends the process at once, and whatever its kernels do."""
        self._child.close()
        self._is_opening = False
        self.opened = None

    def kill(self) -> None:
        """Ends the process from another thread."""
        self._child.kill()

    def _opening(self) -> Any:
        tools = self._tools
        return encode(Open(self._uuid, tools.cubin, tools.symbols, window=window_fd()))

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
