"""How the parts of the emulator report what is wrong."""

from __future__ import annotations

from typing import Any

from astra_tui.model.findings import Finding, FindingKind


class Fault(Exception):
    """Something wrong in one instruction; `lane` is a position within the group that ran it."""

    def __init__(self, kind: FindingKind, message: str, lane: int = 0, lanes: int = 1):
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.lane = lane
        self.lanes = lanes


class Unsupported(Exception):
    """An instruction, or a form of one, that is not emulated."""


class EmulationStopped(Exception):
    """A launch that ended with a finding."""

    def __init__(self, finding: Finding):
        super().__init__(finding.describe())
        self.finding = finding


def first_true(mask: Any) -> tuple[int, int]:
    """The index of the first True of a NumPy mask, and how many there are."""
    return int(mask.argmax()), int(mask.sum())
