"""Where agents try drafts in their turns: on the emulator, within limits, all of it journaled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from astra_tui.engine.candidate_steps import ProposalId, compile_errors
from astra_tui.engine.experience import Recollection
from astra_tui.engine.lab import Lab, LabFailed, OpenedSource
from astra_tui.engine.record import Record
from astra_tui.engine.rerun import named_source, time_pair
from astra_tui.engine.stops import Stop, check_gpu_budget
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.requests import NamedSource
from astra_tui.model.check import Case, CaseResult, Checked, CheckReport, CheckVerdict
from astra_tui.model.compilation import Diagnostic
from astra_tui.model.counters import NcuReport
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.events import ToolUsed
from astra_tui.model.experience import Experience
from astra_tui.model.roles import Role
from astra_tui.model.sass import Disassembly
from astra_tui.model.settings import RunSettings, ToolLimits
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import Profile

FAILURES = 3
"""Failed cases after which the check of a draft ends."""

CHARACTERS_A_TOKEN = 4
MAX_SUMMARY = 160
"""Characters of what a log says of an answer."""


@dataclass(frozen=True)
class DraftLabs:
    """Where drafts run: `emulator` always; `timer`, on a GPU, where the engineer allows drafts.

    `gpu` is where accepted candidates run, on a GPU; drafts never do there.
    """

    emulator: Lab
    timer: Lab | None = None
    gpu: Lab | None = None


@dataclass(frozen=True)
class DraftBench:
    """A `Workbench` for one proposal of a round, whose source to improve is `base`."""

    record: Record
    task: KernelTask
    settings: RunSettings
    labs: DraftLabs
    place: ProposalId
    base: str
    memory: Recollection

    @property
    def known_cases(self) -> tuple[Case, ...]:
        """The cases that agents may know: those that never change, and those that were added."""
        return (*build_suite(self.task, None), *self.record.state.cases)

    def begin(self, role: Role) -> AgentTurn:
        """A turn of an agent, with all of its limits."""
        return AgentTurn(self, role, self.settings.tools)


class AgentTurn:
    """A `Turn`: what of its limits is used, and which drafts passed their check in it."""

    def __init__(self, bench: DraftBench, role: Role, limits: ToolLimits):
        self.limits = limits
        self.may_time = bench.labs.timer is not None
        self.may_recall = bench.memory.is_on
        self.may_compare_times = bench.labs.gpu is not None
        self.may_read_hardware = self.may_compare_times and bench.settings.ncu
        self._bench = bench
        self._role = role
        self._calls = 0
        self._seconds = 0.0
        self._characters = limits.tokens * CHARACTERS_A_TOKEN
        self._gpu_seconds = 0.0
        self._passed: set[str] = set()

    async def use(
        self, tool: str, subject: str, do: Callable[[], Awaitable[str]], draft: str = ""
    ) -> str:
        """What a tool tells the agent, cut to what is left of the turn's limits, and journaled."""
        began = time.monotonic()
        self._gpu_seconds = 0.0
        refusal = self._refusal()
        answer, cut = (f"error: {refusal}", refusal) if refusal else await self._done(do)
        if len(answer) > self._characters and not refusal:
            left_out = f"{len(answer) - self._characters:,} characters were left out"
            cut = f"{left_out}: {self.limits.tokens:,} tokens a turn"
            answer = f"{answer[: self._characters]}\n[{cut}]"
        self._characters = max(0, self._characters - len(answer))
        seconds = time.monotonic() - began
        self._seconds += seconds
        self._journal(tool, subject, answer, draft, cut, seconds)
        return answer

    def _refusal(self) -> str:
        """Which limit is reached; "" for none."""
        limits = self.limits
        if self._calls >= limits.calls:
            return f"all {limits.calls} calls of tools in this turn are used; answer now"
        if self._seconds >= limits.seconds:
            return f"the {limits.seconds:g} s of tools in this turn are used; answer now"
        if not self._characters:
            return f"the {limits.tokens:,} tokens of tools in this turn are used; answer now"
        self._calls += 1
        return ""

    async def _done(self, do: Callable[[], Awaitable[str]]) -> tuple[str, str]:
        """The answer of a tool, and what was cut off."""
        try:
            async with asyncio.timeout(self.limits.seconds - self._seconds):
                return await do(), ""
        except UserError as error:
            return f"error: {error.describe()}", ""
        except LabFailed as error:
            return f"error: the tool does not work here: {error}", ""
        except TimeoutError:
            cut = f"stopped: the {self.limits.seconds:g} s of tools in this turn are used"
            return f"error: {cut}", cut

    def _journal(
        self, tool: str, subject: str, answer: str, draft: str, cut: str, seconds: float
    ) -> None:
        store, place = self._bench.record.store, self._bench.place
        self._bench.record.emit(
            ToolUsed(
                round=place.round,
                proposal=place.proposal,
                role=self._role,
                tool=tool,
                subject=subject,
                summary=next(iter(answer.splitlines()), "")[:MAX_SUMMARY],
                answer=store.put(answer),
                seconds=seconds,
                draft=store.put_source(draft) if draft else "",
                cut=cut,
                gpu_seconds=self._gpu_seconds,
            )
        )

    async def compile(self, draft: str) -> tuple[Diagnostic, ...]:
        """The compiler's errors; none where it compiles."""
        return await compile_errors(self._bench.labs.emulator, draft)

    async def check(self, draft: str) -> Checked:
        """The suite's cases that never change, up to the first few failures.

        What is drawn for a session stays unseen, and what makes a gate of a check is left to it.
        """
        results: list[CaseResult] = []
        report: CheckReport | None = None
        async for event in self._opened(draft).check_cases(self._bench.known_cases, FAILURES):
            if isinstance(event, CaseResult):
                results.append(event)
            elif isinstance(event, CheckReport):
                report = event
        found = Checked(tuple(results), report or self._failed(draft, results))
        if found.passed:
            self._passed.add(draft)
        return found

    def _failed(self, draft: str, results: list[CaseResult]) -> CheckReport:
        """The report of a check that ended at its failures."""
        task, failed = self._bench.task, sum(not r.outcome.ok for r in results)
        said = f"{failed} of {len(results)} cases failed, and no more were run"
        names = task.name, task.hash, "", content_hash(draft), self._bench.labs.emulator.device, ""
        return CheckReport(*names, CheckVerdict.FAILED, said, (), (), (), (), None, 0.0)

    async def count(self, draft: str, shapes: tuple[Workload, ...] = ()) -> Profile:
        """The counters of a draft on every workload, or on some shapes, where it is right there."""
        return (await self._opened(draft).profile(shapes)).profile

    async def disassemble(self, draft: str) -> Disassembly:
        """The machine code."""
        return await self._opened(draft).disassemble()

    async def time(self, draft: str) -> Timing:
        """Paired times against the source to improve, of a draft that passed its check here."""
        bench = self._bench
        if bench.labs.timer is None:
            raise UserError("drafts are not timed here", hint="predict, and say what it rests on")
        if draft not in self._passed:
            raise UserError("a draft is timed once it has passed `check` in this turn")
        base = named_source(bench.record.store.get(bench.base), bench.base)
        source = named_source(draft, content_hash(draft))
        return await self._time(bench.labs.timer, base, source)

    async def compare_times(self, first: str, second: str, workloads: tuple[str, ...]) -> Timing:
        """Paired times of two accepted candidates, the first as base, on the named workloads."""
        lab = self._bench.labs.gpu
        if lab is None:
            raise UserError("nothing is timed here: the emulator counts")
        return await self._time(lab, self._accepted(first), self._accepted(second), workloads)

    async def _time(
        self, lab: Lab, base: NamedSource, source: NamedSource, workloads: tuple[str, ...] = ()
    ) -> Timing:
        self._check_gpu_budget()
        timing = await time_pair(lab, base, source, workloads)
        self._gpu_seconds = timing.gpu_seconds
        return timing

    def _check_gpu_budget(self) -> None:
        """Raises UserError where no more fits into what is left of the GPU's seconds."""
        try:
            check_gpu_budget(self._bench.record.state, self._bench.settings.budget)
        except Stop as spent:
            raise UserError(spent.message) from None

    async def read_hardware(self, candidate: str, workload: str) -> NcuReport:
        """The hardware counters of an accepted candidate on a workload."""
        lab = self._bench.labs.gpu
        if lab is None:
            raise UserError("there are no hardware counters here: the emulator counts")
        source = self._accepted(candidate)
        self._check_gpu_budget()
        report = await lab.open(source).read_hardware(workload)
        self._gpu_seconds = report.seconds
        return report

    def _accepted(self, candidate: str) -> NamedSource:
        """A candidate that may be launched on a GPU. Raises UserError for any other."""
        if not self._bench.record.state.candidate(candidate).correct:
            raise UserError("it did not pass its check, which comes after its diff was accepted")
        return named_source(self._bench.record.store.get(candidate), candidate)

    def recall(self, operator: str, about: str) -> tuple[Experience, ...]:
        """What earlier sessions tried of an operator, about something; either may be ""."""
        return self._bench.memory.search(operator, about)

    def _opened(self, draft: str) -> OpenedSource:
        return self._bench.labs.emulator.open(named_source(draft, content_hash(draft)))
