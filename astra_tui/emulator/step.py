"""One decoded instruction, as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

from astra_tui.emulator.ptx.module import Location

NO_SLOTS: frozenset[int] = frozenset()


@dataclass(frozen=True)
class AccessSpec:
    """What an instruction does to memory: its place in the program, width and direction."""

    index: int
    size: int
    """Bytes a lane."""
    direction: str
    """"load", "store" or "atomic"."""
    synchronising: bool = False
    """Whether it may meet atomics of other threads without a race."""
    non_coherent: bool = False
    """Whether it is a load through a cache that does not see writes of the same launch."""
    in_bulk: bool = False
    """Whether it is a piece of a copy: it does not go through L1, and is no access of a thread."""
    results: tuple[frozenset[int], ...] = ()
    """The register slots that a load writes, for each part of what it loads; none of a part that
    it drops. Empty where its result goes elsewhere than to its own thread's registers.
    """

    @cached_property
    def writes(self) -> bool:
        """Whether memory may change."""
        return self.direction != "load"

    @cached_property
    def reads(self) -> bool:
        """Whether the old content matters."""
        return self.direction != "store"


@dataclass(frozen=True)
class WriteAccess:
    """Where an instruction writes memory: its address, what it does there, and the state space."""

    address: Callable[[Any], Any]
    spec: AccessSpec
    space: str
    size: Callable[[Any], Any] | None = None
    """Computes from the registers how many bytes, where those are several times the spec's."""


@dataclass(frozen=True)
class Source:
    """An operand of an instruction whose result may not depend on it."""

    slots: frozenset[int]
    unused: Callable[[Any], Any] | None = None
    """Computes from the registers for which threads the operand makes no difference; None where
    it always may.
    """
    given: frozenset[int] = NO_SLOTS
    """The register slots that `unused` reads."""


class Flow(IntEnum):
    """Where control goes after an instruction."""

    NEXT = 0
    BRANCH = 1
    TABLE = 2
    EXIT = 3
    BARRIER = 4
    WARP = 5
    WAIT = 6
    POLL = 7


BOTH_SIDES = 3


def side_bit(taken: bool) -> int:
    """The bit that stands for one side of a condition."""
    return 2 if taken else 1


class WarpOrder(IntEnum):
    """What a warp operation orders among its lanes."""

    NOTHING = 0
    WRITES_AFTER_READS = 1
    ALL = 2


class Step:
    """What to run, and how control flows. Attributes are set once, while decoding."""

    __slots__ = (
        "addresses",
        "barrier",
        "computes",
        "flow",
        "is_shuffle",
        "location",
        "mask",
        "negated",
        "orders",
        "polled",
        "predicate",
        "reads",
        "run",
        "selector",
        "sources",
        "target",
        "targets",
        "text",
        "traits",
        "wait",
        "writes",
        "written",
    )

    def __init__(self, flow: Flow, run: Callable[[Any, Any], None] | None = None):
        self.flow = flow
        self.run = run
        self.predicate = -1
        self.negated = False
        self.target = -1
        self.targets: tuple[int, ...] = ()
        self.selector: Callable[[Any], Any] | None = None
        self.mask: Callable[[Any], Any] | None = None
        self.barrier: Callable[[Any], Any] | None = None
        self.wait: Callable[[Any], Any] | None = None
        """Of a group that waits: which of its lanes may continue."""
        self.polled: Callable[[Any], str] | None = None
        """Of a group that polls: what its first lane waits for, in words."""
        self.is_shuffle = False
        self.orders = WarpOrder.NOTHING
        self.location = Location()
        self.text = ""
        self.traits: frozenset[str] = frozenset()
        """What leaves hardware some freedom here: see `RunOutcome.reached`."""
        self.reads = NO_SLOTS
        self.writes = NO_SLOTS
        self.addresses = NO_SLOTS
        """The register slots that it reads (its predicate's left out), writes, and takes
        addresses from."""
        self.computes = False
        """Whether it computes registers from registers, and does nothing else."""
        self.sources: tuple[Source, ...] = ()
        """What the result depends on; empty where that is all that it reads."""
        self.written: WriteAccess | None = None
        """Set for instructions that write memory at an address."""

    def copy(self) -> Step:
        """Another step that is the same."""
        made = Step(self.flow, self.run)
        for name in self.__slots__:
            setattr(made, name, getattr(self, name))
        return made
