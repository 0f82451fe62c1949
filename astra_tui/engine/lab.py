"""The lab as the loop sees it: awaitable, and gone within milliseconds of a cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from astra_tui.lab.child import Child, ChildDied, ChildTimeout
from astra_tui.model.check import Case, CaseResult, CheckReport
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import Place, UserError
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Profile

COMPILE_SECONDS = 120.0
CASE_SECONDS = 120.0
"""How long the lab may be silent during a check or a profile."""

LabEvent = Compilation | int | CaseResult | CheckReport
"""What a check tells: the compilation, the number of cases, each case, at last the report."""


class LabTrouble(Exception):
    """The lab itself failed, not the candidate; the message says how."""


class Lab:
    """Lab processes of one task. Each candidate is served by one; idle ones are kept warm."""

    def __init__(self, task: KernelTask, processes: int = 1):
        self._task = task
        self._free: list[Child] = []
        self._slots = asyncio.Semaphore(processes)

    async def compile(self, text: str, file: str) -> Compilation:
        """Compiles a source, without running anything. Raises UserError for a bad launch plan."""
        async for key, value in self._ask("compile", COMPILE_SECONDS, text=text, file=file):
            if key == "compilation":
                return _compilation(value)
        raise LabTrouble("the lab answered nothing to a compilation")

    async def check(self, text: str, file: str, added: tuple[Case, ...]) -> AsyncIterator[LabEvent]:
        """Checks a source against the task's suite and the added cases, event by event."""
        request = {"text": text, "file": file, "cases": msgspec.to_builtins(added)}
        async for key, value in self._ask("check", CASE_SECONDS, **request):
            match key:
                case "compilation":
                    yield _compilation(value)
                case "cases":
                    yield int(value)
                case "case":
                    yield msgspec.convert(value, CaseResult)
                case "report":
                    yield msgspec.convert(value, CheckReport)

    async def profile(self, text: str, file: str) -> Profile:
        """Profiles a correct source. Raises UserError when a workload cannot be run."""
        async for key, value in self._ask("profile", CASE_SECONDS, text=text, file=file):
            if key == "profile":
                return msgspec.convert(value, Profile)
        raise LabTrouble("the lab answered nothing to a profile")

    def close(self) -> None:
        """Ends the processes."""
        while self._free:
            self._free.pop().close()

    async def _ask(self, do: str, seconds: float, **request: Any) -> AsyncIterator[tuple[str, Any]]:
        async with self._child() as child:
            await _in_thread(child, child.send, {"do": do, **request}, seconds)
            while True:
                message = await _in_thread(child, child.receive, seconds)
                if "done" in message:
                    return
                if "error" in message:
                    raise _error(message)
                (pair,) = ((k, v) for k, v in message.items())
                yield pair

    @asynccontextmanager
    async def _child(self) -> AsyncIterator[Child]:
        async with self._slots:
            child = self._free.pop() if self._free else self._new()
            try:
                yield child
            except UserError:
                self._free.append(child)
                raise
            except ChildTimeout as error:
                raise LabTrouble(str(error)) from None
            except ChildDied as error:
                raise LabTrouble(str(error)) from None
            except BaseException:
                child.kill()
                child.close()
                raise
            else:
                self._free.append(child)

    def _new(self) -> Child:
        folder = str(self._task.folder.resolve())
        return Child("astra_tui.lab.worker", (folder,), name="the lab process")


async def _in_thread(child: Child, call: Any, *arguments: Any) -> Any:
    """Runs a blocking call of a child; a cancel kills the child and waits for the thread to see."""
    future = asyncio.get_running_loop().run_in_executor(None, call, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        child.kill()
        await asyncio.wait([future])
        future.exception()
        raise


def _compilation(value: dict[str, Any]) -> Compilation:
    ok = value.pop("ok")
    compilation = msgspec.convert(value, Compilation)
    # The code stays in the lab; a mark in its place keeps `ok` true.
    return msgspec.structs.replace(compilation, ptx="(in the lab)") if ok else compilation


def _error(message: dict[str, Any]) -> Exception:
    if message.get("unavailable"):
        return LabTrouble(message["error"])
    return UserError(
        message["error"],
        file=message["file"],
        place=Place(message["line"], message["column"]),
        hint=message["hint"],
    )
