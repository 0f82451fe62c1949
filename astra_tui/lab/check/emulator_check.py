"""The emulator's check of a source that a GPU checks as well, in a process of its own.

It sees what a GPU keeps to itself: reads of memory that nothing has written, races, stale outputs.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf

import msgspec

from astra_tui.lab.check.execution import Source
from astra_tui.lab.requests import CaseCount, Check, NamedSource
from astra_tui.model.check import Case, CaseOutcome, CaseResult, CheckReport, CheckVerdict
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.rpc import Call, ServerUnfit

SECONDS = 600.0
"""Without a word from the emulator; it bounds its own steps."""


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


class EmulatorCheck:
    """A process that checks sources of one task on the emulator, one after the other."""

    def __init__(self, task: KernelTask):
        arguments = (str(task.folder.resolve()), EMULATOR, task.hash)
        self._child = Child("astra_tui.lab.worker", arguments, name="the emulator's check")
        self._call: Call[CaseCount | CaseResult | CheckReport] | None = None

    def close(self) -> None:
        """Ends the process and what it started."""
        self._child.close()
        self._call = None

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
        if self._call is not None:  # The check before was left before its end.
            self.close()
        self._child.start()
        named = NamedSource(source.text, source.file)
        request = Check(named, added, seed, only=only)
        self._call = Call(self._child, request, silence=SECONDS, most=inf)
        with suppress(ChildDied, ChildTimeout):  # `result` says so.
            self._call.begin()

    def result(self) -> EmulatorVerdict:
        """Waits for the check that was begun."""
        assert self._call is not None
        results: list[CaseResult] = []
        report: CheckReport | None = None
        try:
            while (reply := self._call.receive()) is not None:
                if isinstance(reply, CaseResult):
                    results.append(reply)
                elif isinstance(reply, CheckReport):
                    report = reply
        except (UserError, ServerUnfit) as error:
            self._call = None
            message = error.message if isinstance(error, UserError) else str(error)
            return EmulatorVerdict(len(results), open=message)
        except (ChildDied, ChildTimeout) as error:
            self.close()
            return EmulatorVerdict(len(results), open=str(error))
        self._call = None
        return _summed(results, report)


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
