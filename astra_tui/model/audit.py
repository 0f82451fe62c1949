"""What an audit of the gate found: records, one a kernel of the zoo, and their sums by kind."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Group(StrEnum):
    """What a kernel of the zoo is."""

    PLANTED = "planted"
    HONEST = "honest"
    MUTANT = "mutant"


class Outcome(StrEnum):
    """The gate's verdict on one kernel."""

    PASSED = "passed"
    WRONG = "wrong"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"
    """It passed its check, and its timing was declared void."""
    HANG = "hang"
    """The gate did not finish within the time for one kernel."""
    TROUBLE = "trouble"
    """The audit itself could not ask the gate."""
    UNTIMED = "untimed"
    """It passed its check on a GPU, and is still to be timed there."""
    SAME_PROGRAM = "same_program"
    """A mutant of which the compiler makes the very program of its original."""
    PROVED_EQUIVALENT = "proved_equivalent"
    """A mutant that passed, and of which the zoo holds a proof that it changes nothing."""
    NOT_COMPILED = "not_compiled"
    """A mutant that is no program, which proves nothing about the gate."""


CAUGHT = (Outcome.WRONG, Outcome.INCONCLUSIVE, Outcome.VOID)
NOT_JUDGED = (Outcome.TROUBLE, Outcome.UNTIMED)
NOT_COUNTED = (Outcome.SAME_PROGRAM, Outcome.PROVED_EQUIVALENT, Outcome.NOT_COMPILED)


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kernel of the zoo and the gate's verdict; `text` is the hash of what was judged.

    `kind` is the kind of a planted or honest kernel, the rule of a mutant. `seconds` are of CPU
    time, in the process that asks the gate.
    """

    id: str
    group: Group
    kind: str
    task: str
    text: str
    outcome: Outcome
    message: str = ""
    seconds: float = 0.0

    @property
    def fails(self) -> bool:
        """Whether it speaks against the gate: a wrong kernel not caught, an honest one accused."""
        if self.outcome in NOT_COUNTED:
            return False
        if self.group is Group.HONEST:
            return self.outcome is not Outcome.PASSED
        return self.outcome not in CAUGHT


class AuditHead(msgspec.Struct, frozen=True):
    """What an audit's records are about; records of two gates are never put together.

    `gate` is a hash over the sources of the gate and the version of the compiler.
    """

    gate: str
    compiler: str
    device: str
    machine: str
    version: str
    date: str
    seed: int = 0
    """What the drawn cases of all its checks follow from."""


class KindSum(msgspec.Struct, frozen=True):
    """The records of one kind, counted."""

    group: Group
    kind: str
    judged: int
    wrong: int
    inconclusive: int
    void: int
    hang: int
    failures: tuple[str, ...]
    """Names of wrong kernels that were not caught, or of honest ones that were accused."""
    not_counted: int
    """Mutants that are no program, or the program of their original."""


class AuditSummary(msgspec.Struct, frozen=True):
    """An audit, summed up by kind."""

    head: AuditHead
    command: str
    kinds: tuple[KindSum, ...]
    cpu_seconds: float

    @property
    def failures(self) -> tuple[str, ...]:
        """Everything that speaks against the gate, by name."""
        return tuple(name for kind in self.kinds for name in kind.failures)


def summarise(head: AuditHead, command: str, records: Iterable[AuditRecord]) -> AuditSummary:
    """Sums records up, group by group, kinds by name."""
    kinds: dict[tuple[str, str], list[AuditRecord]] = {}
    order = list(Group)
    found = sorted(records, key=lambda r: (order.index(r.group), r.kind, r.id))
    for record in found:
        kinds.setdefault((record.group, record.kind), []).append(record)
    sums = tuple(_sum(records) for records in kinds.values())
    return AuditSummary(head, command, sums, round(sum(r.seconds for r in found), 1))


def _sum(records: list[AuditRecord]) -> KindSum:
    outcomes = [r.outcome for r in records]
    not_counted = sum(o in NOT_COUNTED for o in outcomes)
    return KindSum(
        group=records[0].group,
        kind=records[0].kind,
        judged=len(records) - not_counted,
        wrong=outcomes.count(Outcome.WRONG),
        inconclusive=outcomes.count(Outcome.INCONCLUSIVE),
        void=outcomes.count(Outcome.VOID),
        hang=outcomes.count(Outcome.HANG),
        failures=tuple(r.id for r in records if r.fails),
        not_counted=not_counted,
    )
