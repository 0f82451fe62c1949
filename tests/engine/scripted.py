"""A team whose plans and sources are given, and runs of the real loop with it.

Only the team is scripted: journal, approvals, lab and emulator are the real ones.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from astra_tui.engine.host import OpenSession, build_engine, open_session, resume_session
from astra_tui.engine.loop import Engine
from astra_tui.model.approval import Question
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case
from astra_tui.model.constraints import Ruling
from astra_tui.model.events import AnswerAwaited, Event
from astra_tui.model.plan import Counter, Observation, Plan, Prediction, Risk, Selection
from astra_tui.model.roles import Role
from astra_tui.model.settings import Approval, GatePolicy, RunSettings, TeamKind
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import (
    Brief,
    CodeDraft,
    Failure,
    NotWritten,
    OnText,
    PlanAnswer,
    PlanDraft,
    Reading,
)
from astra_tui.sessions import journal_writer
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.sessions.journal_writer import Journal, Redactor

AUTO = Approval(plan=GatePolicy.AUTO, diff=GatePolicy.AUTO)
ASK = Approval()
AUTHOR = Author(AuthorKind.MODEL, "scripted")
ENGINEER = Author(AuthorKind.ENGINEER, "tester")


@dataclass(frozen=True)
class Step:
    """One plan and the sources that come of it, one for each attempt."""

    title: str
    sources: tuple[str, ...]
    risk: Risk = Risk.LOW
    evidence: tuple[str | Observation, ...] = ("many requests",)

    @property
    def plan(self) -> Plan:
        prediction = Prediction(1.0, 1.2, Counter.REQUESTS, 0.5)
        return Plan(self.title, "requests", self.evidence, "fewer", prediction, self.risk)


@dataclass
class ScriptedTeam:
    """Proposes the steps in order; keeps every brief and failure that it was given."""

    steps: Sequence[Step]
    author: Author = AUTHOR
    added: tuple[Case, ...] = ()
    reads: Callable[[Ruling], Ruling | None] = lambda undecided: None
    reflects: Mapping[str, str] = field(default_factory=dict)
    """For a plan: the code that mends it, or the words with which it is left."""
    briefs: list[Brief] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    tested: list[str] = field(default_factory=list)
    """Sources for which cases were asked for."""

    def author_of(self, role: Role) -> Author:
        return self.author

    async def plan(self, brief: Brief, count: int, on_text: OnText) -> PlanAnswer:
        self.briefs.append(brief)
        on_text("planning", "thinking", False)
        done = {tried.plan.title for tried in brief.tried}
        left = [s for s in self.steps if s.title not in done]
        plans = tuple(PlanDraft(s.plan, self.author) for s in left[:count])
        return PlanAnswer(plans, "" if plans else "the script is at its end")

    async def follow(self, brief: Brief, shown: Plan, edited: Plan) -> Plan:
        return edited

    async def code(
        self, brief: Brief, plan: Plan, failure: Failure | None, on_text: OnText
    ) -> CodeDraft:
        self.briefs.append(brief)
        step = next(s for s in self.steps if s.title == plan.title)
        if failure is None:
            return CodeDraft(step.sources[0], self.author)
        self.failures.append(failure)
        if failure.source not in step.sources[:-1]:
            raise NotWritten("the script has no other source")
        return CodeDraft(step.sources[step.sources.index(failure.source) + 1], self.author)

    async def reflect(
        self, brief: Brief, plan: Plan, failure: Failure, on_text: OnText
    ) -> CodeDraft | str:
        answer = self.reflects.get(plan.title, "")
        if not answer or any(f.stage == "verdict" for f in self.failures if f.source == answer):
            return ""
        self.failures.append(failure)
        return CodeDraft(answer, self.author) if "@launch" in answer else answer

    async def review(
        self, brief: Brief, plan: Plan, source: str, undecided: tuple[Ruling, ...]
    ) -> tuple[Ruling, ...]:
        self.briefs.append(brief)
        return tuple(r for u in undecided if (r := self.reads(u)) is not None)

    async def cases(self, brief: Brief, plan: Plan, source: str) -> tuple[Case, ...]:
        self.tested.append(source)
        return self.added

    async def explain(self, brief: Brief, source: str, failure: Failure) -> str:
        return "the scale is off"

    async def read_profile(self, brief: Brief, on_text: OnText) -> Reading:
        return Reading("loads are narrow", Selection(brief.round))

    async def close(self) -> None:
        pass


@dataclass(frozen=True)
class Sources:
    """Sources of silu_and_mul with a known fate."""

    baseline: str
    broken: str
    """Does not compile."""
    wrong: str
    better: str
    slow: str
    """Right, with more instructions."""


def sources_of(task: KernelTask) -> Sources:
    baseline = task.baseline_file.read_text(encoding="utf-8")
    return Sources(
        baseline=baseline,
        broken=_edit(baseline, "silu * up);", "silu * up;"),
        wrong=_edit(baseline, "1.0f + expf", "1.5f + expf"),
        better=(task.folder / "tuned.cu").read_text(encoding="utf-8"),
        slow=_edit(baseline, "expf(-gate)", "expf(-expf(logf(fabsf(gate))) * copysignf(1, gate))"),
    )


def _edit(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def settings_of(approval: Approval = AUTO, **changes: object) -> RunSettings:
    values = {"task": "silu_and_mul", "team": TeamKind.LLM, "approval": approval, **changes}
    return RunSettings(**values)  # type: ignore[arg-type]


@dataclass
class Session:
    """A session on disk with an engine on it."""

    opened: OpenSession
    engine: Engine
    team: ScriptedTeam
    events: list[Event] = field(default_factory=list)

    @property
    def journal(self) -> Journal:
        return self.opened.journal

    async def run(self) -> None:
        """To the end; no one attends."""
        async for event in self.engine.run():
            self.events.append(event)
        self.journal.close()

    async def run_with(self, answer: object) -> None:
        """To the end, with a function that is told of each question that waits."""
        self.engine.desk.clients = 1
        async for event in self.engine.run():
            self.events.append(event)
            if isinstance(event, AnswerAwaited):
                answering = answer(self, event.question)  # type: ignore[operator]
                if answering is not None:
                    await answering
        self.journal.close()

    def of(self, kind: type[Event]) -> list[Event]:
        return [e for e in self.events if isinstance(e, kind)]


def start(folder: Path, task: KernelTask, team: ScriptedTeam, settings: RunSettings) -> Session:
    opened = open_session(folder, task, settings, Redactor())
    return Session(opened, _engine(opened, task, team, settings), team)


def resume(folder: Path, task: KernelTask, team: ScriptedTeam, settings: RunSettings) -> Session:
    opened = resume_session(folder, task, Redactor())
    return Session(opened, _engine(opened, task, team, settings), team)


def _engine(
    opened: OpenSession, task: KernelTask, team: ScriptedTeam, settings: RunSettings
) -> Engine:
    return build_engine(opened, task, settings, team, wait_for_engineer=False)


def three_steps(task: KernelTask) -> list[Step]:
    """A better, a wrong and a worse candidate."""
    sources = sources_of(task)
    return [
        Step("wide loads", (sources.better,)),
        Step("another scale", (sources.wrong,)),
        Step("more instructions", (sources.slow,)),
    ]


def run_three_rounds(folder: Path, task: KernelTask) -> Path:
    """Writes a session of three such rounds on the emulator to a folder."""
    team = ScriptedTeam(three_steps(task))
    asyncio.run(start(folder, task, team, settings_of(AUTO, rounds=3, repairs=0)).run())
    return folder


def fill_disk(monkeypatch: pytest.MonkeyPatch, room: int = 0) -> None:
    """Lets the journal take so many more records; then the disk is full."""
    left = itertools.count(room, -1)
    write = journal_writer._write_all

    def write_all(handle: int, content: bytes, offset: int) -> None:
        if next(left) <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(handle, content, offset)

    monkeypatch.setattr(journal_writer, "_write_all", write_all)


def kept(folder: Path) -> tuple[Event, ...]:
    return tuple(record.event for record in read_journal(folder).records)


def refuse_all(session: Session, question: Question) -> None:
    raise AssertionError(f"nobody should be asked about {question.id}")
