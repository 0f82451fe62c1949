"""What the engineer said, as a list of constraints, and what a check of a diff against it found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec


class Origin(StrEnum):
    """How an engineer said it."""

    NOTE = "note"
    EDIT = "edit"
    """What an edited plan says that the proposed one did not. It binds the code of that plan."""
    REJECTION = "rejection"
    """The reason for which a plan, its code or a part of it was rejected."""
    HUNK = "hunk"
    """Lines of a diff that were refused."""
    PLAN = "plan"
    """The plan of the diff itself, as it was decided."""


class Constraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that the engineer said, which binds the agents.

    `about` is the title of the plan at which it was said; empty for a note. `round` is that plan's.
    """

    origin: Origin
    text: str
    about: str = ""
    round: int = 0
    why: str = ""
    """The reason of an edit or of a refused part, where one was given."""

    def describe(self) -> str:
        """As in 'rejected "use shuffles" in round 2: our port has none'."""
        where = f'"{self.about}" in round {self.round}'
        why = f" ({self.why})" if self.why else ""
        match self.origin:
            case Origin.NOTE | Origin.PLAN:
                return self.text
            case Origin.EDIT:
                return f"edited {where}{why}: {self.text}"
            case Origin.REJECTION:
                return f"rejected {where}: {self.text}"
            case Origin.HUNK:
                return f"refused this part of the diff of {where}{why}:\n{self.text}"


class Compliance(StrEnum):
    """Whether a source does as a constraint says."""

    KEPT = "kept"
    BROKEN = "broken"
    UNDECIDED = "undecided"


class Judge(StrEnum):
    """Who says so. A rule reads source, launch plan and compiled code; a model may err."""

    RULE = "rule"
    MODEL = "model"


class Ruling(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one constraint, or of the part of it that is quoted in `text`.

    `why` says what was seen, in one sentence; `line` is of the source, 0 where none is meant.
    """

    constraint: Constraint
    text: str
    compliance: Compliance
    judge: Judge | None = None
    """None while no one has decided."""
    why: str = ""
    line: int = 0


_ORDER = [Compliance.BROKEN, Compliance.UNDECIDED, Compliance.KEPT]


def broken(rulings: Iterable[Ruling]) -> tuple[Ruling, ...]:
    """Those that say that a constraint is broken."""
    return tuple(r for r in rulings if r.compliance is Compliance.BROKEN)


def in_order(rulings: Iterable[Ruling]) -> tuple[Ruling, ...]:
    """What is broken first, then what no one has decided."""
    return tuple(sorted(rulings, key=lambda r: _ORDER.index(r.compliance)))


def broken_words(rulings: Sequence[Ruling]) -> str:
    """What is broken, one constraint a line, as a coding agent or an engineer reads it."""
    lines = []
    for ruling in broken(rulings):
        place = f", line {ruling.line}" if ruling.line else ""
        by = ruling.judge.value if ruling.judge else ""
        lines.append(f'breaks "{ruling.text}" (by {by}{place}): {ruling.why}')
    return "\n".join(lines)
