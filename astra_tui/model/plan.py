"""What a round proposes to change, with the effect it predicts.

Source of the idea: Astra's planning agent (arXiv 2509.07506, section 4). A plan here is data, so
that an engineer can edit it before it costs anything, and so that its prediction can be scored
against what is measured afterwards.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from astra_tui.model.digest import content_hash


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


def places_words(places: tuple[CodePlace, ...]) -> str:
    """As in "line 7", "lines 7 to 9" or "lines 7 and 12"."""
    parts = [str(p.first) if p.first == p.last else f"{p.first} to {p.last}" for p in places]
    line = "line" if len(parts) == 1 and places[0].first == places[0].last else "lines"
    return f"{line} {' and '.join([', '.join(parts[:-1]), parts[-1]] if parts[1:] else parts)}"


class Citation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number that a sentence quotes of what was measured of the source that the plan starts from.

    `metric` names it; citations.py says which metrics there are and looks them up. An author may
    name one that does not exist, or quote it wrongly: that is shown, and not refused.
    """

    metric: str
    value: float
    of: str = ""
    """The workload or kernel that it is of; empty: all workloads together, or any kernel."""
    lines: tuple[CodePlace, ...] = ()
    """The source lines that it is counted at; empty: the whole source."""


class Observation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sentence that speaks for a change, and the numbers that it quotes."""

    sentence: str
    cites: tuple[Citation, ...] = ()


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change to one kernel source.

    `evidence` is what speaks for the change; a sentence that cites nothing is a plain string.
    `move` is the playbook move that will do it; empty where the coding agent writes the code.
    """

    title: str
    bottleneck: str
    evidence: tuple[str | Observation, ...]
    change: str
    prediction: Prediction
    risk: Risk
    places: tuple[CodePlace, ...] = ()
    move: str = ""

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The evidence, plain sentences as well."""
        return tuple(e if isinstance(e, Observation) else Observation(e) for e in self.evidence)

    @property
    def hash(self) -> str:
        """Identifies the plan that was shown; a decision names it."""
        return content_hash(msgspec.json.encode(self))
