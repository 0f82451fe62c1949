"""What a device has to do: run the launches of one case on given buffers and report what it saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from astra_tui.model.compilation import Compilation, CompiledKernel
from astra_tui.model.counters import Counters
from astra_tui.model.findings import Finding

RED_ZONE_BYTES = 4096
BASE_ALIGNMENT = 256


class BufferUse(StrEnum):
    """What the launches of a case may do with a buffer."""

    IN = "in"
    INOUT = "inout"
    OUT = "out"
    WORKSPACE = "workspace"

    @property
    def starts_undefined(self) -> bool:
        """Whether reading it before writing it is a fault."""
        return self in (BufferUse.OUT, BufferUse.WORKSPACE)


@dataclass(frozen=True)
class DeviceBuffer:
    """One buffer as the device is to lay it out: a uint8 array, poisoned where undefined.

    The base address is `misalignment` bytes past a multiple of BASE_ALIGNMENT. `covered` marks
    the bytes that belong to elements, where rows lie apart; None means all of them.
    """

    name: str
    use: BufferUse
    content: Any
    misalignment: int = 0
    covered: Any = None


@dataclass(frozen=True)
class PackedLaunch:
    """One launch with its parameter buffer, in which pointers still have to be filled in."""

    kernel: CompiledKernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: bytes
    pointers: tuple[tuple[int, str], ...]
    """Offset in `parameters`, and the name of the buffer whose address goes there."""
    line: int
    """Line of the launch plan."""


@dataclass(frozen=True)
class RunOutcome:
    """What came of one case: contents of all buffers, findings, counters."""

    contents: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    counters: Counters | None = None
    """None where nothing was counted, as on a GPU."""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that fail the case."""
        return tuple(f for f in self.findings if not f.is_warning)


class Device(Protocol):
    """A place where compiled kernels run."""

    name: str

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
    ) -> RunOutcome:
        """Runs launches in order on fresh buffers.

        `checked` turns access checks on where the device has them; `counted` the counters. What
        the kernels do wrong is in the outcome's findings.
        """
        ...
