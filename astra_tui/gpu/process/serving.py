"""Answers the judge's requests, one after the other, until the judge is gone or the GPU is."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from astra_tui.gpu.messages import (
    Build,
    Drop,
    Dropped,
    Escapes,
    Failed,
    Fetch,
    List,
    Listed,
    Open,
    Opened,
    PaperRun,
    Prepare,
    Reply,
    Request,
    Rounds,
    RunCase,
    RunSets,
    Spin,
    TryEscapes,
    decode_request,
    encode,
)
from astra_tui.gpu.process.case import CaseRunner
from astra_tui.gpu.process.driver import Driver, DriverError
from astra_tui.gpu.process.replay import Replayer
from astra_tui.gpu.process.tools import Tools
from astra_tui.processes.escapes import try_escapes
from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import FrameError, read_frame, window_bytes, write_frame

EXIT_STICKY = 3


def serve(driver: Driver, read_fd: int, write_fd: int, confine: Callable[[], bool]) -> int:
    """Serves until the judge closes its end; the exit code says whether the GPU's context died."""
    exit_with_parent(read_fd)  # Before any confinement, as CUDA's own threads: to open may hang.
    service = _Service(driver, confine)
    while True:
        try:
            request = decode_request(read_frame(read_fd))
        except FrameError:
            return 0
        reply = _answer(service, request)
        write_frame(write_fd, encode(reply))
        if isinstance(reply, Failed) and reply.sticky:
            return EXIT_STICKY


def _answer(service: _Service, request: Request) -> Reply:
    try:
        return service.answer(request)
    except DriverError as error:
        return Failed(error.code, error.name, str(error), error.is_sticky)
    except (LookupError, ValueError, MemoryError, msgspec.MsgspecError) as error:
        return Failed(0, type(error).__name__, str(error), False)


class _Service:
    def __init__(self, driver: Driver, confine: Callable[[], bool]):
        self._driver = driver
        self._confine = confine
        self._tools: Tools | None = None
        self._cases: CaseRunner | None = None
        self._replayer: Replayer | None = None
        self._window = -1

    def answer(self, request: Request) -> Reply:
        match request:
            case List():
                return Listed(tuple(self._driver.devices()))
            case Open():
                return self._open(request)
            case RunCase():
                return self._run_case(request)
            case Prepare():
                self._drop()
                tools = self._loaded_tools()
                self._replayer = Replayer(self._driver, tools, request, self._window)
                return self._replayer.prepare()
            case Build():
                return self._prepared().build(request)
            case Rounds():
                return self._prepared().rounds(request)
            case RunSets():
                return self._prepared().run_sets(request)
            case Fetch():
                return self._prepared().fetch(request)
            case PaperRun():
                return self._prepared().paper(request)
            case Spin():
                return self._prepared().spin(request)
            case Drop():
                self._drop()
                return Dropped()
            case TryEscapes():
                return Escapes(try_escapes(request.targets))

    def _open(self, request: Open) -> Opened:
        try:
            return self._opened(request)
        finally:
            if request.use >= 0:
                os.close(request.use)

    def _opened(self, request: Open) -> Opened:
        facts = next((f for f in self._driver.devices() if f.uuid == request.uuid), None)
        if facts is None:
            raise LookupError(f"there is no device {request.uuid}")
        self._driver.open(facts.ordinal)
        self._tools = Tools(self._driver, request.tools, request.tool_symbols)
        self._window = request.window
        if request.window >= 0:
            window_bytes(request.window)
        confined = self._confine() if request.confine else False
        return Opened(facts, confined, os.getpid())

    def _run_case(self, request: RunCase) -> Reply:
        if self._cases is None:
            self._cases = CaseRunner(self._driver, self._tools)
        return self._cases.run(request)

    def _loaded_tools(self) -> Tools:
        if self._tools is None:
            raise LookupError("no device was opened")
        return self._tools

    def _prepared(self) -> Replayer:
        if self._replayer is None:
            raise LookupError("nothing was prepared")
        return self._replayer

    def _drop(self) -> None:
        if self._replayer is not None:
            replayer, self._replayer = self._replayer, None
            replayer.free()
