"""A team on a scripted server process, and runs of the real loop with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from astra_tui.engine.candidate_steps import ProposalId
from astra_tui.engine.experience import Recollection
from astra_tui.engine.host import OpenSession, build_engine, open_session, resume_session
from astra_tui.engine.lab import Lab
from astra_tui.engine.record import Record
from astra_tui.engine.team_factory import JournaledCalls, remembered_steps
from astra_tui.engine.workbench import DraftBench, DraftLabs
from astra_tui.llm import Endpoint, OpenAILLM, Prices
from astra_tui.llm.asking.conversation import Memory
from astra_tui.llm.asking.metering import MeteredExchange
from astra_tui.llm.llm_team import LlmTeam
from astra_tui.llm.messages import Request
from astra_tui.model.constraints import Constraint, Origin
from astra_tui.model.counters import AccessCount, Counters, LineCount
from astra_tui.model.dtypes import DType
from astra_tui.model.events import Event
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.settings import (
    Approval,
    GatePolicy,
    ModelSettings,
    RunSettings,
    TeamKind,
    ToolLimits,
)
from astra_tui.model.state import SessionState
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief, Tried
from astra_tui.model.verdict import KernelUse, Outcome, Profile, WorkloadProfile
from astra_tui.sessions.experience import ExperienceStore
from astra_tui.sessions.journal_reader import has_session
from astra_tui.sessions.journal_writer import Redactor
from tests.llm.conftest import KEY, MODEL, Scripted, running, server, wire

__all__ = ["running", "server", "wire"]

SOURCES = Path(__file__).parent / "sources"
AUTO = Approval(plan=GatePolicy.AUTO, diff=GatePolicy.AUTO)
PRICES = Prices(input_per_million=2.0, output_per_million=10.0, cached_per_million=1.0)

T = TypeVar("T")


@pytest.fixture
def task(quick_task: KernelTask) -> KernelTask:
    return quick_task


def source(name: str) -> str:
    return (SOURCES / f"{name}.cu").read_text(encoding="utf-8")


def fence(code: str) -> str:
    return f"This is the file.\n```cuda\n{code}```\n"


def proposed(title: str, **changes: Any) -> dict[str, Any]:
    """A plan as a model writes it."""
    return {
        "title": title,
        "bottleneck": "narrow accesses",
        "evidence": ["each thread loads 2 bytes"],
        "change": f"do as the title says: {title}",
        "speedup_low": 1.0,
        "speedup_high": 1.4,
        "counter": "requests",
        "counter_ratio": 0.5,
        "risk": "low",
        "places": [{"first": 14, "last": 25}],
        "move": "",
        **changes,
    }


def planning(*plans: dict[str, Any], reason: str = "", **entry: Any) -> dict[str, Any]:
    """A scripted answer of the planning agent."""
    answer = {"plans": plans, "reason": reason}
    return {"when": {"user": "Step: planning"}, "text": answer, **entry}


def reply(step: str, text: Any, **entry: Any) -> dict[str, Any]:
    """A scripted answer to one step; for ever, unless `times` says otherwise."""
    return {"when": {"user": step}, "text": text, "times": None, **entry}


def planned(round_: int, *titles: str) -> dict[str, Any]:
    """A scripted answer of the planning agent in one round."""
    plans = (proposed(title) for title in titles)
    return planning(*plans, when={"user": f"Step: planning, round {round_}."})


def coded(title: str, code: str) -> dict[str, Any]:
    """Every answer of the coding agent to a plan."""
    return reply("", fence(code), when={"system": "coding", "user": f"title: {title}"})


def quickened(code: str) -> str:
    """A source with the exponential that is approximate."""
    assert "expf(-gate)" in code
    return code.replace("expf(-gate)", "__expf(-gate)")


def selected(bottleneck: str, **changes: Any) -> dict[str, Any]:
    """An answer of the profiling agent."""
    empty = {"workload": "", "lines": [], "evidence": [], "measured": []}
    return {"bottleneck": bottleneck, **empty, **changes}


QUIET = (
    reply("cases that could break this candidate", {"cases": []}),
    reply("Step: testing", "The second half of the row is never read."),
    reply("Step: profiling", selected("Accesses are narrow.")),
    reply("a look around", "Nothing to add."),
)


def brief_of(task: KernelTask, profile: Profile | None = None, **changes: Any) -> Brief:
    text = task.baseline_file.read_text(encoding="utf-8")
    values = {"task": task, "round": 1, "base": "b" * 64, "source": text, "profile": profile}
    return Brief(**{**values, **changes})


def plan_of(title: str = "read pairs", **changes: Any) -> Plan:
    values: dict[str, Any] = {
        "title": title,
        "bottleneck": "narrow accesses",
        "evidence": ("2 bytes a thread",),
        "change": "load two elements at once",
        "prediction": Prediction(1.0, 1.4, Counter.REQUESTS, 0.5),
        "risk": Risk.LOW,
    }
    return Plan(**{**values, **changes})


def notes_of(*texts: str) -> tuple[Constraint, ...]:
    return tuple(Constraint(Origin.NOTE, text) for text in texts)


def tried_of(plan: Plan, outcome: Outcome, *reasons: str, base: str = "b" * 64) -> Tried:
    return Tried(1, plan, base, outcome, reasons)


def profile_of(
    requests: int = 6144, instructions: int = 90_112, workload: str = "16x4096"
) -> Profile:
    """Counts as the emulator makes them, for one workload."""
    counters = Counters(
        (AccessCount(20, "global", "load", 2, requests, 12_288, 196_608, 0),),
        (LineCount(20, instructions, 32 * instructions, 0, 0),),
    )
    counted = WorkloadProfile(
        workload, {"tokens": 16, "d": 4096}, DType.FLOAT16, ("silu_and_mul<__half>",),
        counters, 256, 128, 393_216,
    )  # fmt: skip
    return Profile("emulator", (counted,), (KernelUse("silu_and_mul<__half>", 24, 0, 0, 1.0),))


def bench_at(
    folder: Path, task: KernelTask, memory: ExperienceStore | None = None, **limits: Any
) -> DraftBench:
    """A bench on a journal of its own, as one has it in round 1."""
    chosen = RunSettings(task.name, TeamKind.LLM, tools=ToolLimits(**limits))
    opened = open_session(folder, task, chosen, Redactor([KEY]), 0)
    record = Record(opened.journal, opened.state, lambda _: None)
    base = record.store.put_source(task.baseline_file.read_text(encoding="utf-8"))
    recollection = Recollection(record, task, memory)
    place = ProposalId(1)
    return DraftBench(record, task, chosen, DraftLabs(Lab(task)), place, base, recollection)


@dataclass
class Team:
    """What a team said and what it cost; a budget without an end."""

    settled: list[MeteredExchange] = field(default_factory=list)
    shown: list[tuple[str, str, bool]] = field(default_factory=list)

    def begin_call(self) -> int:
        return len(self.settled) + 1

    def reserve(self, call: int, request: Request) -> Request:
        return request

    def settle(self, exchange: MeteredExchange) -> None:
        self.settled.append(exchange)

    def on_text(self, role: str, text: str, restart: bool) -> None:
        self.shown.append((role, text, restart))


def with_team(
    server: Scripted,
    use: Callable[[LlmTeam], Coroutine[Any, Any, T]],
    log: Team | None = None,
    single: bool = False,
    wire: str = "chat",
) -> T:
    """What `use` makes of a team on the server."""
    call_budget = log or Team()

    async def scenario() -> T:
        team = LlmTeam(
            OpenAILLM(server.endpoint(wire)),
            lambda _: ModelSettings(MODEL),
            PRICES,
            call_budget,
            single,
        )
        try:
            return await use(team)
        finally:
            await team.close()

    return asyncio.run(scenario())


@dataclass
class Ran:
    """A run that has ended."""

    opened: OpenSession
    state: SessionState
    events: list[Event]
    settled: list[MeteredExchange]

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class _Watched(JournaledCalls):
    def __init__(self, settled: list[MeteredExchange], *arguments: Any):
        super().__init__(*arguments)
        self._booked = settled

    def settle(self, exchange: MeteredExchange) -> None:
        self._booked.append(exchange)
        super().settle(exchange)


class Server(Protocol):
    """Where a model is."""

    def endpoint(self) -> Endpoint: ...


def run_engine(
    folder: Path,
    task: KernelTask,
    server: Server,
    *,
    approval: Approval = AUTO,
    single: bool = False,
    seed: int = 0,
    **settings: Any,
) -> Ran:
    """A whole run of the loop with a model's team; no one attends."""
    kind = TeamKind.LLM_SINGLE if single else TeamKind.LLM
    settings = {"model": MODEL, **settings}
    chosen = RunSettings(task=task.name, team=kind, approval=approval, **settings)
    earlier = remembered_steps(folder)
    redactor = Redactor([KEY])
    resumes = has_session(folder)
    opened = (
        resume_session(folder, task, redactor)
        if resumes
        else open_session(folder, task, chosen, redactor, seed)
    )
    settled: list[MeteredExchange] = []
    events: list[Event] = []

    async def scenario() -> SessionState:
        book = _Watched(settled, chosen.budget, PRICES)
        memory = Memory(earlier, book.remember)
        llm = OpenAILLM(server.endpoint())
        team = LlmTeam(llm, chosen.of_role, PRICES, book, single, memory)
        engine = build_engine(opened, task, chosen, team, wait_for_engineer=False)
        book.open(engine.record)
        async for event in engine.run():
            events.append(event)
        return engine.state

    state = asyncio.run(scenario())
    opened.journal.close()
    return Ran(opened, state, events, settled)
