"""What a round proposes to change, with the effect it predicts.

Source of the idea: Astra's planning agent (arXiv 2509.07506, section 4). A plan here is data, so
that an engineer can edit it before it costs anything, and so that its prediction can be scored
against what is measured afterwards.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from astra_tui.model.contents import content_hash


class Risk(StrEnum):
    """How likely a change is to break the kernel, as its author sees it."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """0 for low, 2 for high."""
        return list(Risk).index(self)


class Counter(StrEnum):
    """Counters that a plan may expect to move; less is better for each of them."""

    SECTORS = "sectors"
    REQUESTS = "requests"
    WARP_INSTRUCTIONS = "warp_instructions"
    SHARED_REQUESTS = "shared_requests"
    BANK_CONFLICTS = "bank_conflicts"
    BARRIERS = "barriers"


class Prediction(msgspec.Struct, frozen=True):
    """What the author of a plan expects of it.

    `speedup_low` and `speedup_high` bound the ratio of old time to new time (1.0: as fast as
    before). `counter_ratio` is the expected new value over the old one of `counter`; below 1 is
    better.
    """

    speedup_low: float
    speedup_high: float
    counter: Counter
    counter_ratio: float


class CodePlace(msgspec.Struct, frozen=True):
    """Lines of the source that a plan is about, counted from 1, both ends included."""

    first: int
    last: int


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change to one kernel source.

    `evidence` names the numbers that speak for the change, one sentence each. `move` is the
    playbook move that will do it; empty where the coding agent writes the code.
    """

    title: str
    bottleneck: str
    evidence: tuple[str, ...]
    change: str
    prediction: Prediction
    risk: Risk
    places: tuple[CodePlace, ...] = ()
    move: str = ""

    @property
    def hash(self) -> str:
        """Identifies the plan that was shown; a decision names it."""
        return content_hash(msgspec.json.encode(self))
