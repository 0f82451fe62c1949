"""What a run is asked to do. Every value is in the journal, so that a session explains itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from astra_tui.model.errors import UserError
from astra_tui.model.plan import Risk

KEY_VARIABLES = ("ASTRA_TUI_API_KEY", "OPENAI_API_KEY")
"""Where the key of the model's server is looked up, in this order."""


EMULATOR = "emulator"
AUTO_DEVICE = "auto"

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


class GatePolicy(StrEnum):
    """How a gate is decided."""

    ASK = "ask"
    AUTO = "auto"


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
    roofline: float = 0.95
    """Share of the measured floor on every workload at which a run stops; 0 never."""
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


def api_key(environment: Mapping[str, str]) -> str:
    """The key for the model's server; empty when there is none."""
    return next((environment[name] for name in KEY_VARIABLES if environment.get(name)), "")
