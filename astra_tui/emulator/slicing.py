"""The slice of a program that decides where control goes and where global memory is written.

Everything that comes from memory, from another thread's atomic or from a timer is data. A branch
that data decides is left out of the slice where nothing is stored before both its sides meet
again; any other one, and an address that data decides, is named. The slice holds no data, so it
runs on sizes and indices alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astra_tui.emulator.control_flow import CONTROL, ControlFlow, predicate_of, steps_after
from astra_tui.emulator.program import Program
from astra_tui.emulator.ptx.module import Address, Instruction, Symbol
from astra_tui.emulator.step import NO_SLOTS

_DATA_REGISTERS = frozenset(
    {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%smid", "%gridid", "%warpid"}
)
"""Special registers that do not follow from a thread's indices and the launch."""

_READERS = frozenset(
    {"ld", "ldu", "atom", "ldmatrix", "call"}
    | {"shfl", "vote", "match", "redux", "elect", "activemask", "bar", "barrier"}
    | {"mbarrier", "getctarank"}
)
"""Operations whose results come from memory or from other threads."""


@dataclass(frozen=True)
class DataDecision:
    """An instruction of which data decides where control goes, or where memory is written."""

    index: int
    line: int
    what: str
    """"a branch", "an address" and so on."""


@dataclass(frozen=True)
class DataBranch:
    """Where a branch that data decides may lead, but for another turn of a loop, and where its
    sides meet again.
    """

    sides: tuple[int, ...]
    meets: int


@dataclass(frozen=True)
class Slice:
    """What of a program the skeleton runs.

    `steps` are those kept, by their place in the program. `skips` are branches that data decides,
    and where both sides meet again with nothing stored between.
    """

    program: Program
    steps: frozenset[int]
    stores: frozenset[int]
    roots: frozenset[int]
    tainted: frozenset[int]
    """The register slots that hold data."""
    skips: dict[int, int]
    data: tuple[DataDecision, ...]
    data_branches: dict[int, DataBranch]
    """Branches that data decides and that stores depend on: all their sides are followed."""
    exact: bool
    """Whether nothing is stored but what the skeleton stores: data decides at most which."""
    certain: frozenset[int]
    """The roots of which no data decides whether they run, or on what."""


def slice_of(program: Program, roots: frozenset[str] = frozenset()) -> Slice:
    """The slice of a kernel. Instructions whose operation is in `roots` are kept as well, as far
    as no data decides what they read.
    """
    return _Slicer(program, roots).slice()


class _Slicer:
    def __init__(self, program: Program, roots: frozenset[str]):
        self.program = program
        self.steps = program.steps
        self.roots = frozenset(
            i for i, ins in enumerate(program.instructions) if ins.operation in roots
        )
        self.stores = frozenset(filter(self._stores, range(len(self.steps))))
        self.skips: dict[int, int] = {}
        self.regions: dict[int, frozenset[int]] = {}
        """What lies between the sides of each branch that data decides, where it stores."""
        self.data_branches: dict[int, DataBranch] = {}
        self.tainted = self._taint()

    def instruction(self, index: int) -> Instruction | None:
        """None for the end of the kernel."""
        known = self.program.instructions
        return known[index] if index < len(known) else None

    def slice(self) -> Slice:
        """The steps that the control flow, the stores and the roots follow from."""
        roots = frozenset(i for i in self.roots if not self._reads(i) & self.tainted)
        needed: set[int] = set()
        for index, step in enumerate(self.steps):
            if index in roots or step.flow in CONTROL:
                needed |= self._reads(index)
            elif index in self.stores:
                needed |= step.addresses | predicate_of(step)
        needed -= self.tainted
        kept = self._writers_of(needed)
        kept.update(filter(self._stops, range(len(self.steps))))
        return Slice(
            program=self.program,
            steps=frozenset(kept),
            stores=self.stores,
            roots=roots,
            tainted=frozenset(self.tainted),
            skips=self.skips,
            data=tuple(self._decisions()),
            data_branches=self.data_branches,
            exact=self._exact(kept),
            certain=self._certain(kept, roots),
        )

    def _exact(self, kept: set[int]) -> bool:
        """Whether no address is data, and no branch that data decides changes what is stored
        after it.
        """
        if any(self.steps[i].addresses & self.tainted for i in self.stores):
            return False
        return self._settled(kept)

    def _certain(self, kept: set[int], roots: frozenset[int]) -> frozenset[int]:
        between = frozenset().union(*self.regions.values())
        return roots - between if self._settled(kept | roots) else frozenset()

    def _settled(self, kept: set[int]) -> bool:
        """Whether no branch that data decides changes, by what it computes or by how often it
        comes, what steps of the slice read after it.
        """
        live = self._live(kept) if self.regions else []
        for index, region in self.regions.items():
            changed = {slot for i in region for slot in self.steps[i].writes}
            if index in region or changed & live[self.data_branches[index].meets]:
                return False
        return True

    def _live(self, kept: set[int]) -> list[frozenset[int]]:
        """For each step, and for the end, the slots of the slice that it or a later one reads."""
        end = len(self.steps)
        onward = [tuple(steps_after(i, step, end)) for i, step in enumerate(self.steps)]
        live = [NO_SLOTS] * (end + 1)
        changed = True
        while changed:
            changed = False
            for index in range(end - 1, -1, -1):
                after = NO_SLOTS.union(*(live[n] for n in onward[index]))
                step = self.steps[index]
                if step.predicate < 0:
                    after -= step.writes
                now = after | self._read_in_slice(index, kept)
                if now != live[index]:
                    live[index], changed = now, True
        return live

    def _read_in_slice(self, index: int, kept: set[int]) -> frozenset[int]:
        step = self.steps[index]
        if index in self.stores:
            return step.addresses | predicate_of(step)
        return self._reads(index) if index in kept or step.flow in CONTROL else NO_SLOTS

    def _stops(self, index: int) -> bool:
        """Whether a step ends the launch with a finding: a trap, or a failed assert."""
        instruction = self.instruction(index)
        if instruction is None or predicate_of(self.steps[index]) & self.tainted:
            return False
        return instruction.operation == "trap" or Symbol("__assertfail") in instruction.operands

    def _writers_of(self, needed: set[int]) -> set[int]:
        writers: dict[int, list[int]] = {}
        for index, step in enumerate(self.steps):
            for slot in step.writes:
                writers.setdefault(slot, []).append(index)
        kept: set[int] = set()
        pending = list(needed)
        seen = set(needed)
        while pending:
            for index in writers.get(pending.pop(), ()):
                if index in kept:
                    continue
                kept.add(index)
                more = self._reads(index) - seen
                seen |= more
                pending += more
        return kept

    def _decisions(self) -> Iterator[DataDecision]:
        for index, step in enumerate(self.steps):
            what = ""
            if step.flow in CONTROL and index not in self.skips:
                what = "a branch" if self._reads(index) & self.tainted else ""
            elif index in self.stores and step.addresses & self.tainted:
                what = "an address"
            elif index in self.stores and predicate_of(step) & self.tainted:
                what = "whether a store runs"
            if what:
                yield DataDecision(index, step.location.line, what)

    def _stores(self, index: int) -> bool:
        written = self.steps[index].written
        return written is not None and written.space in ("global", "generic")

    def _reads(self, index: int) -> frozenset[int]:
        return self.steps[index].reads | predicate_of(self.steps[index])

    # -- what data decides ------------------------------------------------------------------------

    def _taint(self) -> set[int]:
        tainted = {
            slot for slot, name in self.program.special_slots.items() if name in _DATA_REGISTERS
        }
        for index, step in enumerate(self.steps):
            if _is_data(self.program, self.instruction(index)):
                tainted |= step.writes
        flow: ControlFlow | None = None
        while True:
            self._spread(tainted)
            fresh = [
                i
                for i, step in enumerate(self.steps)
                if step.flow in CONTROL and i not in self.skips and self._reads(i) & tainted
            ]
            if not fresh:
                return tainted
            flow = flow or ControlFlow(self.steps)
            before = len(tainted), len(self.skips)
            for index in fresh:
                region, meets = flow.region(index)
                if not region & self.stores:
                    self.skips[index] = min(meets, len(self.steps) - 1)
                    tainted.update(slot for i in region for slot in self.steps[i].writes)
                    self.regions.pop(index, None)
                    self.data_branches.pop(index, None)
                else:
                    self.regions[index] = region
                    self.data_branches[index] = DataBranch(flow.sides(index, meets), meets)
            if before == (len(tainted), len(self.skips)):
                return tainted

    def _spread(self, tainted: set[int]) -> None:
        users: dict[int, list[int]] = {}
        for index in range(len(self.steps)):
            for slot in self._reads(index):
                users.setdefault(slot, []).append(index)
        pending = list(tainted)
        while pending:
            for index in users.get(pending.pop(), ()):
                more = self.steps[index].writes - tainted
                tainted |= more
                pending += more


def _is_data(program: Program, instruction: Instruction | None) -> bool:
    if instruction is None or instruction.operation not in _READERS:
        return False
    return not (
        instruction.operation == "ld"
        and "param" in (m.split("::")[0] for m in instruction.modifiers)
        and isinstance(source := instruction.operands[1], Address)
        and isinstance(source.base, Symbol)
        and source.base.name in program.parameters
    )
