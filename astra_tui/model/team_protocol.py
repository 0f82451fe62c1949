"""What the loop asks of a team, and what it tells it. A team is a model's agents or the playbook.

The four roles are those of Astra (arXiv 2509.07506, section 4). Compiling, checking and profiling
are steps of the loop; their results reach the agents as data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from astra_tui.model.author import Author
from astra_tui.model.check import Case, Checked, ConditionResult
from astra_tui.model.compilation import Diagnostic
from astra_tui.model.constraints import Constraint, Ruling
from astra_tui.model.counters import NcuReport
from astra_tui.model.errors import UserError
from astra_tui.model.experience import Experience
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.launch.expression import Expression
from astra_tui.model.plan import Plan, Selection
from astra_tui.model.roles import Role
from astra_tui.model.sass import Disassembly
from astra_tui.model.settings import ToolLimits
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import REJECTED_BEFORE, Outcome, Profile
from astra_tui.model.yardsticks import ShippedTimes

BASE = "base"
"""How agents call the source to improve."""

OnText = Callable[[str, str, bool], None]
"""Told of each piece of an answer: role, text, and whether all before it is void."""


@dataclass(frozen=True)
class Tried:
    """A plan of an earlier round, or of this one, and its result."""

    round: int
    plan: Plan
    base: str
    """Hash of the source that it started from."""
    outcome: Outcome
    reasons: tuple[str, ...]
    source: str = ""
    """The source that it started from, in which the places of the plan are."""
    edited: bool = False
    """Whether an engineer edited the plan: the outcome is not that of the plan as proposed."""
    rejected_because: str = ""
    """The engineer's reason, where the plan or its code was rejected; may be empty."""
    code: str = ""
    """The source that came out of it; empty where none was judged."""
    profile: Profile | None = None
    """What was counted of that source."""
    in_base: bool = False
    """Whether the source to improve was made from it."""

    def describe_outcome(self) -> str:
        """As in 'you rejected it in round 2: "too large a step"', or "tried in round 2: worse"."""
        if self.outcome is not Outcome.REJECTED:
            return f"tried in round {self.round}: {self.outcome.value.replace('_', ' ')}"
        reason = f': "{self.rejected_because}"' if self.rejected_because else ", without a reason"
        return f"{REJECTED_BEFORE} {self.round}{reason}"


@dataclass(frozen=True)
class KnownCandidate:
    """A candidate that was accepted, and is correct and measured."""

    name: str
    """By which agents call it: `BASE`, "baseline", or "r2.1" for plan 1 of round 2."""
    about: str
    hash: str
    source: str = field(repr=False)
    profile: Profile = field(repr=False)


@dataclass(frozen=True)
class Reading:
    """What the profiling agent made of a profile, and what it chose of all that was measured."""

    text: str
    selection: Selection


@dataclass(frozen=True)
class SecondParent:
    """A winner of another branch, to be merged with the source to improve."""

    candidate: str
    source: str
    ancestor: str
    """The source from which both were made."""
    done: tuple[str, ...]
    """What was done to the ancestor, plan by plan."""
    ratios: Mapping[str, float] = field(default_factory=dict)
    """By counter, what it has over what the ancestor has."""
    gains: tuple[str, ...] = ()
    """Where it is better than the source to improve, in words, a workload each."""
    condition: Expression | None = None
    """Holds for the sizes of the workloads on which it is better, where sizes tell them apart."""


class Turn(Protocol):
    """One turn of an agent, with what it may do in it. Every use of a tool is journaled.

    Drafts run on the emulator, and on a GPU only where the engineer allows it. Of the suite they
    see the cases that never change. All verbs raise UserError, as for a draft that does not do.
    """

    limits: ToolLimits
    may_time: bool
    """Whether drafts may be timed."""
    may_recall: bool
    """Whether there is a memory of earlier sessions."""
    may_compare_times: bool
    """Whether candidates, which the engineer accepted, are timed."""
    may_read_hardware: bool
    """Whether hardware counters of candidates are read."""

    async def use(
        self, tool: str, subject: str, do: Callable[[], Awaitable[str]], draft: str = ""
    ) -> str:
        """What a tool tells the agent, cut to what is left of the turn's limits.

        `subject` says on what it is used; `draft` is a source that is new.
        """
        ...

    async def compile(self, draft: str) -> tuple[Diagnostic, ...]:
        """The compiler's errors; none where it compiles."""
        ...

    async def check(self, draft: str) -> Checked:
        """The suite's cases, up to the first few failures. A gate it is not."""
        ...

    async def count(self, draft: str, shapes: tuple[Workload, ...] = ()) -> Profile:
        """The counters of a draft on every workload, or on some shapes, where it is right there."""
        ...

    async def disassemble(self, draft: str) -> Disassembly:
        """The machine code."""
        ...

    async def time(self, draft: str) -> Timing:
        """Paired times against the source to improve, of a draft that passed its check here."""
        ...

    async def compare_times(self, first: str, second: str, workloads: tuple[str, ...]) -> Timing:
        """Paired times of two accepted candidates by their hashes, the first as base, on the named
        workloads.
        """
        ...

    async def read_hardware(self, candidate: str, workload: str) -> NcuReport:
        """The hardware counters of an accepted candidate by its hash."""
        ...

    def recall(self, operator: str, about: str) -> tuple[Experience, ...]:
        """What earlier sessions tried of an operator, about something; either may be ""."""
        ...


class Workbench(Protocol):
    """Where agents try what they think of."""

    def begin(self, role: Role) -> Turn:
        """A turn of an agent, with all of its limits."""
        ...


@dataclass(frozen=True)
class Brief:
    """What an agent gets to know: the task, the source to improve, and all that was learnt."""

    task: KernelTask
    round: int
    base: str
    source: str
    profile: Profile | None
    tried: tuple[Tried, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    """What the engineer said, which binds; oldest first."""
    second: SecondParent | None = None
    """What the round is to merge with the source, if it is."""
    recalled: tuple[str, ...] = ()
    """What earlier sessions of this machine brought, each with its source, the likeliest first."""
    reading: Reading | None = None
    """What the profiling agent made of the profile; its measurements with their texts."""
    candidates: tuple[KnownCandidate, ...] = ()
    """The source to improve, the baseline, and the latest others that can be measured."""
    timing: Timing | None = None
    """The source's latest timing, in which it was the candidate; only from devices that time."""
    gpu: GpuIdentity | None = None
    """The GPU whose times decide; None on the emulator, where counts do."""
    shipped: ShippedTimes | None = None
    """The source against the kernels that others ship; only where these were timed."""
    launches: Mapping[str, str] = field(default_factory=dict)
    """How those are launched, by the name under which they were timed."""
    hardware: NcuReport | None = None
    """Its hardware counters on one workload, where they were asked for."""
    suite: tuple[Case, ...] = ()
    """The cases that every candidate has to pass, but for those that are drawn for the session."""
    included: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Files of others that the source includes: texts, by the place that counters name."""
    swept: str = ""
    """The source whose open numbers were swept by timing, where that is `source` or made it."""
    open_conditions: tuple[ConditionResult, ...] = ()
    """Conditions of which the suite takes one side alone, in the base and what was made of it."""
    bench: Workbench | None = field(default=None, compare=False, repr=False)
    """Where drafts are tried; None where there are no tools."""


@dataclass(frozen=True)
class Failure:
    """Code of this plan that failed, or brought nothing: the result, for the coding agent."""

    source: str
    stage: str
    """"compile", "check", "review", or "verdict" where it was judged and is not better."""
    message: str
    profile: Profile | None = None
    """What was counted of it, also where its outputs are wrong, and in what time it ran; None where
    it never came so far.
    """
    timing: Timing | None = None
    earlier: tuple[Failure, ...] = ()
    """The attempts before it, oldest first, each without those before."""


@dataclass(frozen=True)
class PlanDraft:
    """A plan and its author."""

    plan: Plan
    author: Author


@dataclass(frozen=True)
class PlanAnswer:
    """The plans of a round, best first; `reason` says why there are fewer than asked for."""

    plans: tuple[PlanDraft, ...]
    reason: str = ""
    refused: tuple[str, ...] = ()
    lost: bool = False
    """Whether there is no plan because the model or its server gave nothing that can be used."""
    answered: bool = False
    """Whether it was the model that gave it."""


@dataclass(frozen=True)
class CodeDraft:
    """A whole kernel source."""

    source: str
    author: Author
    summary: str = ""


class NotWritten(Exception):
    """The coding agent has no code for this plan; the message says why."""


class AnswerLost(NotWritten):
    """The model, where it has `answered`, or its server gave nothing that can be used: no word
    about the plan itself.
    """

    def __init__(self, message: str, answered: bool = False):
        super().__init__(message)
        self.answered = answered


class CannotFollow(UserError):
    """An edited plan that the team would not do as it says; the message says what it cannot do."""


class BudgetSpent(Exception):
    """The next call does not fit into what is left of a budget; the message says what is left."""


class TeamUnavailable(Exception):
    """The team cannot work at all, as when a server is gone; the message says what to do."""


class Team(Protocol):
    """Four agents. Every method may be cancelled at any time and then leaves nothing running."""

    def author_of(self, role: Role) -> Author:
        """Who works in a role."""
        ...

    async def plan(self, brief: Brief, count: int, on_text: OnText) -> PlanAnswer:
        """At most `count` plans for the next round. Raises TeamUnavailable."""
        ...

    async def follow(self, brief: Brief, shown: Plan, edited: Plan) -> Plan:
        """What an engineer's edit of a shown plan will be coded as, with what follows from it.

        Raises CannotFollow for an edit that the code would not obey.
        """
        ...

    async def code(
        self, brief: Brief, plan: Plan, failure: Failure | None, on_text: OnText
    ) -> CodeDraft:
        """The source after a plan; after a failure, the next attempt. Raises NotWritten."""
        ...

    async def reflect(
        self, brief: Brief, plan: Plan, failure: Failure, on_text: OnText
    ) -> CodeDraft | str:
        """The next attempt after code that was judged and is not better; or, where it is to be left
        as it is, why, or nothing.
        """
        ...

    async def review(
        self, brief: Brief, plan: Plan, source: str, undecided: tuple[Ruling, ...]
    ) -> tuple[Ruling, ...]:
        """What a reader of the diff says of constraints that no rule decides, each with its judge;
        those that the reader leaves open may be left out.
        """
        ...

    async def cases(self, brief: Brief, plan: Plan, source: str) -> tuple[Case, ...]:
        """Cases that try to break this source, on top of those that every candidate has to pass."""
        ...

    async def explain(self, brief: Brief, source: str, failure: Failure) -> str:
        """What is wrong with a source that failed, in words; empty when there is nothing to say."""
        ...

    async def read_profile(self, brief: Brief, on_text: OnText) -> Reading | None:
        """The bottleneck and what shows it, after measuring what is missing; its measurements have
        their texts. None where there is nothing to say.
        """
        ...

    async def close(self) -> None:
        """Closes connections."""
        ...
