"""What a device has to do: run the launches of one case on given buffers and report what it saw."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol

from astra_tui.model.compilation import Compilation, CompiledKernel
from astra_tui.model.counters import Counters
from astra_tui.model.findings import Finding
from astra_tui.model.occupancy import NO_CLUSTER
from astra_tui.model.traffic import ArgumentTraffic

RED_ZONE_BYTES = 4096
BASE_ALIGNMENT = 256


class ArgumentRole(StrEnum):
    """What launches may do with an argument. No task has workspaces: they are a plan's."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCALAR = "scalar"
    WORKSPACE = "workspace"
    """Memory of the launch plan's own, which no caller sees."""

    @property
    def is_input(self) -> bool:
        """Whether its memory has values before the launches."""
        return self in (ArgumentRole.IN, ArgumentRole.INOUT)

    @property
    def is_output(self) -> bool:
        """Whether the task wants what they leave in its memory."""
        return self in (ArgumentRole.OUT, ArgumentRole.INOUT)

    @property
    def starts_undefined(self) -> bool:
        """Whether reading it before writing it is a fault."""
        return self in (ArgumentRole.OUT, ArgumentRole.WORKSPACE)


class Content(Protocol):
    """The bytes of a buffer that is never there as a whole."""

    def __len__(self) -> int:
        """Bytes of the buffer."""
        ...

    def read(self, first: Any, size: int) -> Any:
        """`size` bytes from each offset in `first`: a uint8 array with a row for each.

        Offsets and size are multiples of 256, but for the last piece of the buffer.
        """
        ...


@dataclass(frozen=True)
class DeviceBuffer:
    """One buffer as the device is to lay it out: a uint8 array, poisoned where undefined.

    On the emulator it may be a `Content` instead, of which only what is touched is ever made. The
    base address is `misalignment` bytes past a multiple of BASE_ALIGNMENT. `covered` marks the
    bytes that belong to elements, where rows lie apart; None means all of them.
    """

    name: str
    use: ArgumentRole
    content: Any
    misalignment: int = 0
    covered: Any = None
    stable: bool = False
    """Whether no kernel that runs shortly before may write it; see docs/launch-plan.md."""


@dataclass(frozen=True)
class PackedLaunch:
    """One launch with its parameter buffer, in which pointers still have to be filled in."""

    kernel: CompiledKernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: bytes
    pointers: tuple[tuple[int, str], ...]
    """Offset in `parameters`, and the name of the buffer whose address is added to the word there,
    which is 0 for a pointer to its beginning.
    """
    line: int
    """Line of the launch plan."""
    pdl: bool = False
    """Whether it may begin before the launch before it has ended."""
    cluster: tuple[int, int, int] = NO_CLUSTER
    """Blocks of a thread block cluster by axis."""


@dataclass(frozen=True)
class Variation:
    """What hardware may do otherwise without being wrong; an emulated device does it on demand.

    A GPU does as it likes, whatever is asked for here.
    """

    registers: frozenset[str] = frozenset()
    """Special registers, such as %smid, that get other values than in a plain run."""
    finite_registers: bool = False
    """Whether registers that were never written hold a number instead of NaN."""
    moved_buffers: bool = False
    """Whether buffers lie at other addresses, in another order, equally aligned."""
    seed: int = 0
    """What the other values and addresses follow from: no source can know them all."""
    order: int = 0
    """Blocks and warps run forward (0), backward (1), or as drawn with this seed."""
    error_bounds: int = 0
    """Not 0: approximate instructions err as much as is documented, with signs by this seed."""
    error_bounds_line: int = 0
    """Not 0: only those of this source line do."""


PLAIN = Variation()
APPROXIMATE = "approximate instruction"
FLOAT_ATOMIC = "float atomic"
COMPARE_AND_SWAP = "compare and swap"
COMMUNICATES = "communicates"
"""Names of instructions in `RunOutcome.reached`, in addition to those of special registers."""

_FLOAT_ATOMICS = re.compile(
    r"\b(?:red|atom)\.[\w.:]*\b(?:add|cas)\b[\w.:]*\.(?:f16|f16x2|bf16|bf16x2|f32|f64|b16|b32|b64)\b"
)

Accepts = Callable[[Finding], str]
"""The reason for which an engineer accepts a finding; "" where no one does."""


def accept_nothing(finding: Finding) -> str:
    """No finding is accepted."""
    del finding
    return ""


@lru_cache(maxsize=8)
def has_float_atomics(ptx: str) -> bool:
    """Whether sums of floats may be formed in any order, so that bits may differ."""
    return _FLOAT_ATOMICS.search(ptx) is not None


@dataclass(frozen=True)
class Sides:
    """Sides of the source's conditions in one kernel, as bits by the condition's number.

    Bit 0 is false, bit 1 is true; `possible` are those that the compiler left, `taken` those that
    threads took.
    """

    possible: Mapping[int, int]
    taken: Mapping[int, int]

    def joined(self, other: Sides | None) -> Sides:
        """With the sides that another launch of the same kernel took."""
        before = other.taken if other is not None else {}
        both = {n: before.get(n, 0) | self.taken.get(n, 0) for n in (*before, *self.taken)}
        return Sides(self.possible, both)

    def as_rows(self) -> tuple[tuple[int, int, int], ...]:
        """Number, possible and taken sides of each condition."""
        return tuple((n, bits, self.taken.get(n, 0)) for n, bits in self.possible.items())

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, int, int]]) -> Sides:
        """The sides that `as_rows` wrote."""
        rows = tuple(rows)
        return cls({n: bits for n, bits, _ in rows}, {n: bits for n, _, bits in rows if bits})


@dataclass(frozen=True)
class RunOutcome:
    """The result of one case: contents of all buffers, findings, counters."""

    contents: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    counters: Counters | None = None
    """None where nothing was counted, as on a GPU."""
    traffic: tuple[ArgumentTraffic, ...] = ()
    """What was moved of each argument, where counters were counted."""
    reached: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Source lines of the instructions that ran on which hardware has some freedom, by kind."""
    steps: int = 0
    """Steps that an emulated device took; see `emulator/device.py`."""
    sides: Mapping[str, Sides] = field(default_factory=dict)
    """By the kernel's C++ name, where the source's conditions report: see lab/conditions."""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that fail the case."""
        return tuple(f for f in self.findings if not f.is_warning)


class Device(Protocol):
    """A place where compiled kernels run."""

    name: str
    workspace_bytes: int
    """What the workspaces of a case may have together."""

    @property
    def attributes(self) -> Mapping[str, int]:
        """What launch plans may ask about it; see model/launch/scope.py."""
        ...

    def run(
        self,
        compilation: Compilation,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        *,
        checked: bool = True,
        counted: bool = True,
        traffic: bool = False,
        variation: Variation = PLAIN,
        accepts: Accepts = accept_nothing,
    ) -> RunOutcome:
        """Runs launches in order on fresh buffers.

        `checked` turns access checks on where the device has them; `counted` the counters, and
        `traffic` the count of bytes that are moved again. What the kernels do wrong is in the
        outcome's findings; after one that is accepted they continue.
        """
        ...
