"""What a run is asked to do. Every value is in the journal, so that a session explains itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from astra_tui.model.errors import UserError
from astra_tui.model.plan import Risk
from astra_tui.model.roles import Role

KEY_VARIABLES = ("ASTRA_TUI_API_KEY", "OPENAI_API_KEY")
"""Where the key of the model's server is looked up, in this order."""


EMULATOR = "emulator"
AUTO_DEVICE = "auto"
FIRST_GPU = "cuda:0"
"""What a worker, which sees one alone, calls its GPU."""

_DEVICE_NAME = re.compile(r"auto|emulator|cuda(:\d+)?")


def check_device_name(name: str) -> None:
    """Raises UserError for a name that no device can have."""
    if not _DEVICE_NAME.fullmatch(name):
        raise UserError(
            f"there is no device '{name}'",
            hint="say auto, emulator, cuda, or cuda:1 for the second GPU",
        )


class TeamKind(StrEnum):
    """Who does the work of the four agents."""

    LLM = "llm"
    LLM_SINGLE = "llm-single"
    """One agent in all four roles: the ablation of the paper's table 3."""
    PLAYBOOK = "playbook"


class SearchKind(StrEnum):
    """On which candidates rounds stand."""

    GREEDY = "greedy"
    """Always on the best."""
    ARCHIVE = "archive"
    """On one that is drawn from all correct ones; winners of different branches are merged."""
    RESTARTS = "restarts"
    """On the best until rounds bring nothing, then on an older one, and so on."""


class WireChoice(StrEnum):
    """A wire that was asked for, or the choice left to what the server understands."""

    AUTO = "auto"
    RESPONSES = "responses"
    CHAT = "chat"


class ModelSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which model answers, and how it is asked; "" and None leave it to others."""

    model: str = ""
    effort: str = ""
    """The effort of its reasoning, in the server's words, such as low or high."""
    output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Of one answer at most, thoughts included."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    wire: WireChoice = WireChoice.AUTO
    silence_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """The longest wait between two bytes of an answer."""
    call_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """The longest that one call may take."""

    def over(self, others: ModelSettings) -> ModelSettings:
        """These settings, and the others' where nothing is set here."""
        unset = ("", None, WireChoice.AUTO)
        chosen = {n: v for n, v in msgspec.structs.asdict(self).items() if v not in unset}
        return msgspec.structs.replace(others, **chosen)


class GatePolicy(StrEnum):
    """How a gate is decided."""

    ASK = "ask"
    AUTO = "auto"


class Notification(StrEnum):
    """How the screen says that a decision waits: the bell, and with it a sequence that terminals
    show as a notification of the desktop; or not at all.
    """

    OSC9 = "osc9"
    OSC777 = "osc777"
    BELL = "bell"
    OFF = "off"


class Approval(msgspec.Struct, frozen=True):
    """The policy of the two gates. `max_risk` bounds the plans that `auto` accepts."""

    plan: GatePolicy = GatePolicy.ASK
    diff: GatePolicy = GatePolicy.ASK
    max_risk: Risk = Risk.HIGH
    decisions: str = ""
    """A file of decisions that are taken in order; it goes before both policies."""


class Budget(msgspec.Struct, frozen=True):
    """Where a run stops; None means no bound."""

    tokens: int | None = None
    dollars: float | None = None
    gpu_seconds: float | None = None
    calls: int | None = None


class ToolLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an agent may do in one turn, besides talking."""

    calls: int = 12
    """Of tools; 0: there are none."""
    seconds: float = 180.0
    """By the clock, for all of them."""
    tokens: int = 24_000
    """Of what all of them tell the agent, about."""
    drafts: bool = False
    """Whether drafts may be launched on the GPU, before an engineer has seen them."""


NEAR_FLOOR = 0.98
"""The `roofline` of a run for which no one chose another."""


SWEPT = 0.1
"""The `sweep` of a run for which no one chose another."""


class RunSettings(msgspec.Struct, frozen=True):
    """Everything that a run depends on, but for secrets, which it never holds."""

    task: str
    team: TeamKind
    device: str = "emulator"
    rounds: int = 5
    candidates: int = 1
    title: str = ""
    """What the session is called where sessions are listed."""
    repairs: int = 2
    """How often a failed compile or check goes back to the coding agent."""
    reflections: int = 1
    """How often code that was judged and is not better goes back to the coding agent."""
    search: SearchKind = SearchKind.GREEDY
    roofline: float = 0.95
    """Share of the measured floor on every workload at which a run stops; 0 never.

    The default is what journals without it mean, of which their digests depend; a new run's is
    `NEAR_FLOOR`.
    """
    sweep: float = 0.0
    """Share of the trials of a sweep that is timed of every candidate that passed, where the device
    gives times; 0: none is swept.
    """
    sanitize: bool = False
    """Whether the tools of compute-sanitizer have to find nothing in a candidate, where they are
    installed.
    """
    ncu: bool = False
    """Whether ncu reads hardware counters of every best candidate, where that is permitted."""
    approval: Approval = Approval()
    budget: Budget = Budget()
    model: str = ""
    base_url: str = ""
    effort: str = ""
    output_tokens: int | None = None
    temperature: float | None = None
    """As in `ModelSettings`, for every role that does not say otherwise in `roles`."""
    roles: dict[Role, ModelSettings] = {}
    wire: WireChoice = WireChoice.AUTO
    silence_seconds: float | None = None
    """The longest wait between two bytes of an answer."""
    call_seconds: float | None = None
    """The longest that one call may take."""
    tools: ToolLimits = ToolLimits()

    def of_role(self, role: Role) -> ModelSettings:
        """How a role asks its model."""
        general = ModelSettings(self.model, self.effort, self.output_tokens, self.temperature)
        return self.roles.get(role, ModelSettings()).over(general)


def api_key(environment: Mapping[str, str]) -> str:
    """The key for the model's server; empty when there is none."""
    return next((environment[name] for name in KEY_VARIABLES if environment.get(name)), "")
