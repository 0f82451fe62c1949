"""A process that compiles, checks and profiles candidates of one kernel task.

It is started by the engine and can be killed at any time. Requests are maps with a "do"; answers
are maps of which the last has "done" or "error".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker, kernels_to_compile, read_source
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.lab.device import Device
from astra_tui.lab.emulator.device import Emulator
from astra_tui.lab.explain.profile import profile_on_emulator
from astra_tui.lab.frames import FrameError, read_frame, write_frame
from astra_tui.model.check import Case, CaseResult, CheckReport
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, load_task


class _Worker:
    def __init__(self, task: KernelTask, device: Device, oracle: Oracle, compiler: Compiler):
        self.task = task
        self.device = device
        self.compiler = compiler
        self.checker = Checker(task, device, compiler, oracle)

    def answer(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        match request["do"]:
            case "compile":
                yield self._compile(request["text"], request["file"])
            case "check":
                yield from self._check(request["text"], request["file"], request["cases"])
            case "profile":
                source = read_source(self.task, request["text"], request["file"])
                profile = profile_on_emulator(self.task, source, self.compiler)
                yield {"profile": msgspec.to_builtins(profile)}
            case other:
                raise UserError(f"this process does not know how to do {other!r}")

    def _compile(self, text: str, file: str) -> dict[str, Any]:
        source = read_source(self.task, text, file)
        expressions = kernels_to_compile(self.task, source, build_suite(self.task))
        return {"compilation": _without_code(self.compiler.compile(text, expressions))}

    def _check(self, text: str, file: str, added: list[Any]) -> Iterator[dict[str, Any]]:
        cases = (*build_suite(self.task), *msgspec.convert(added, tuple[Case, ...]))
        yield {"cases": len(cases)}
        for event in self.checker.check(text, file, cases, whole_suite=True):
            if isinstance(event, Compilation):
                yield {"compilation": _without_code(event)}
            elif isinstance(event, CaseResult):
                lean = msgspec.structs.replace(event, counters=None)
                yield {"case": msgspec.to_builtins(lean)}
            elif isinstance(event, CheckReport):
                lean_report = msgspec.structs.replace(event, cases=(), counters=None)
                yield {"report": msgspec.to_builtins(lean_report)}


def _without_code(compilation: Compilation) -> dict[str, Any]:
    lean = msgspec.structs.replace(compilation, ptx="", cubin=b"")
    return {**msgspec.to_builtins(lean), "ok": compilation.ok}


def main() -> None:
    """Answers requests until the other side is gone."""
    read_fd, write_fd, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with ExitStack() as stack:
        try:
            task = load_task(Path(folder))
            worker = _Worker(
                task, Emulator(), stack.enter_context(Oracle(task)), stack.enter_context(Compiler())
            )
            while True:
                _serve(worker, read_frame(read_fd), write_fd)
        except FrameError:
            return


def _serve(worker: _Worker, request: dict[str, Any], write_fd: int) -> None:
    try:
        for message in worker.answer(request):
            write_frame(write_fd, message)
    except UserError as error:
        message = {
            "error": error.message,
            "file": error.file,
            "line": error.place.line,
            "column": error.place.column,
            "hint": error.hint,
        }
        write_frame(write_fd, message)
    except CompilerUnavailable as error:
        write_frame(write_fd, {"error": str(error), "unavailable": True})
    else:
        write_frame(write_fd, {"done": True})


if __name__ == "__main__":
    main()
