"""The emulator's check of a source that a GPU checks as well, in a process of its own.

It sees what a GPU keeps to itself: reads of memory that nothing has written, races, stale outputs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from math import inf

import msgspec

from astra_tui.lab.check.execution import Source
from astra_tui.lab.requests import Check, NamedSource
from astra_tui.model.check import Case, CaseOutcome, CaseResult, CheckReport, CheckVerdict
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.rpc import Call, ServerUnfit

SECONDS = 600.0
"""Without a word from the emulator; it bounds its own steps. And for which a verdict is waited for
in all, once the GPU is through."""

WORD_SECONDS = 20.0
"""After which one who waits for the verdict says so."""


class EmulatorVerdict(msgspec.Struct, frozen=True):
    """The emulator's verdict on a source."""

    cases: int
    """That it ran to their ends."""
    failed: tuple[CaseResult, ...] = ()
    """Cases that speak against the source, under names of their own."""
    not_emulated: tuple[str, ...] = ()
    """What the emulator does not run, in words; it speaks neither for nor against the source."""
    open: str = ""
    """Why nothing is established, where the emulator did not get to its end or was not content."""


MOST_PARTS, PROCESSORS_A_PART = 4, 4
"""Processes among which the cases are shared out, and processors that each needs: it has a
reference and a compiler of its own."""


def parts_here() -> int:
    """Among how many processes this machine shares out the cases; 0 where it is not worth it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    parts = min(MOST_PARTS, cores // PROCESSORS_A_PART)
    return parts if parts > 1 else 0


class EmulatorCheck:
    """Processes that check sources of one task on the emulator, one source after the other.

    With several, all but the first run a part of the cases each; the first has their results, runs
    what is missing of them, and all that is not of single cases.
    """

    def __init__(self, task: KernelTask, parts: int | None = None):
        """With so many parts; by default as many as this machine has processors for."""
        arguments = (str(task.folder.resolve()), EMULATOR, task.hash)
        self._child, *self._others = (
            Child("astra_tui.lab.worker", arguments, name="the emulator's check")
            for _ in range(1 + (parts_here() if parts is None else parts))
        )
        self._threads: ThreadPoolExecutor | None = None
        self._verdict: Future[EmulatorVerdict] | None = None

    def close(self) -> None:
        """Ends the processes and what they started."""
        for child in (self._child, *self._others):
            child.kill()  # Threads that wait for it wait no more.
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        for child in (self._child, *self._others):
            child.close()
        self._verdict = None

    def __enter__(self) -> EmulatorCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(
        self,
        source: Source,
        added: tuple[Case, ...],
        only: tuple[Case, ...] | None,
        seed: int,
    ) -> None:
        """Starts a check while the caller continues: of the suite and more, or of some cases.

        The suite's drawn cases follow from `seed`.
        """
        if self._verdict is not None:  # The check before was left before its end.
            self.close()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1 + len(self._others), "emulator's check")
        request = Check(NamedSource(source.text, source.file), added, seed, only=only)
        children = self._others if only is None else ()
        parts = [
            self._threads.submit(_part, child, request, (number, len(children)))
            for number, child in enumerate(children)
        ]
        self._child.start()
        self._verdict = self._threads.submit(self._whole, request, parts)

    def wait(self, seconds: float = SECONDS) -> Iterator[EmulatorVerdict | None]:
        """Waits for the check that was begun: None now and then, its verdict at last.

        After so many seconds the check ends, with nothing established.
        """
        assert self._verdict is not None
        ends = time.monotonic() + seconds
        while True:
            left = ends - time.monotonic()
            try:
                verdict = self._verdict.result(timeout=max(min(WORD_SECONDS, left), 0.0))
            except TimeoutError:
                if left > 0:
                    yield None
                    continue
                self.close()
                said = f"its check was not through {seconds:g} s after the GPU's"
                verdict = EmulatorVerdict(0, open=said)
            self._verdict = None
            yield verdict
            return

    def _whole(
        self, request: Check, parts: Sequence[Future[tuple[CaseResult, ...]]]
    ) -> EmulatorVerdict:
        """The verdict of the first process, once the others have run their parts."""
        known = tuple(result for part in parts for result in part.result())
        request = msgspec.structs.replace(request, known=known)
        results: list[CaseResult] = []
        report: CheckReport | None = None
        try:
            for reply in Call(self._child, request, silence=SECONDS, most=inf).replies():
                if isinstance(reply, CaseResult):
                    results.append(reply)
                elif isinstance(reply, CheckReport):
                    report = reply
        except (UserError, ServerUnfit) as error:
            message = error.message if isinstance(error, UserError) else str(error)
            return EmulatorVerdict(len(results), open=message)
        except (ChildDied, ChildTimeout) as error:
            self._child.close()
            return EmulatorVerdict(len(results), open=str(error))
        return _summed(results, report)


def _part(child: Child, request: Check, part: tuple[int, int]) -> tuple[CaseResult, ...]:
    """The results of a part of the cases, as far as its process came."""
    results: list[CaseResult] = []
    request = msgspec.structs.replace(request, part=part)
    with suppress(UserError, ServerUnfit):  # The whole check comes upon it, too.
        try:
            child.start()
            for reply in Call(child, request, silence=SECONDS, most=inf).replies():
                if isinstance(reply, CaseResult):
                    results.append(reply)
        except (ChildDied, ChildTimeout):
            child.close()
    return tuple(results)


def _summed(results: list[CaseResult], report: CheckReport | None) -> EmulatorVerdict:
    unsupported = [r for r in results if r.outcome is CaseOutcome.UNSUPPORTED]
    failed = [r for r in results if not r.outcome.ok and r not in unsupported]
    not_emulated = tuple(dict.fromkeys(r.message for r in unsupported))
    left = ""
    if report is None:
        left = "the emulator's check gave no report"
    elif report.verdict is CheckVerdict.INCONCLUSIVE:
        left = report.message
    elif report.verdict is CheckVerdict.COMPILE_ERROR:  # For the GPU's architecture alone.
        not_emulated = (*not_emulated, report.message)
    elif report.verdict in (CheckVerdict.FAILED, CheckVerdict.PLAN_ERROR) and not failed:
        left = report.message
    named = tuple(
        msgspec.structs.replace(
            r,
            case=msgspec.structs.replace(r.case, name=f"{r.case.name}, on the emulator"),
            message=f"on the emulator: {r.message}",
        )
        for r in failed
    )
    return EmulatorVerdict(len(results) - len(unsupported), named, not_emulated, left)
