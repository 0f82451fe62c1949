"""What NVIDIA's compute-sanitizer found in a candidate, tool by tool."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from astra_tui.model.findings import Finding


class SanitizerTool(StrEnum):
    """The tools of compute-sanitizer, under the names that `--tool` takes."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"
    SYNCCHECK = "synccheck"


class SanitizerVerdict(StrEnum):
    """What one tool says. Only CLEAN lets a candidate pass the gate."""

    CLEAN = "clean"
    FOUND = "found"
    UNAVAILABLE = "unavailable"
    """There is no such tool on this machine: nothing was looked at."""
    FAILED = "failed"
    """The tool or the launcher did not get to the end: nothing can be said."""


class SanitizerReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one tool found in the cases that it watched."""

    tool: SanitizerTool
    verdict: SanitizerVerdict
    findings: tuple[Finding, ...] = ()
    """One for each kind and source line; `lanes` counts the reports that it stands for."""
    warnings: tuple[Finding, ...] = ()
    """What the tool itself calls a warning; no reason to refuse a candidate."""
    cases: tuple[str, ...] = ()
    """Ids of the cases that the tool watched; the one with the findings when there are any."""
    errors: int = 0
    """All errors by the tool's own count; it prints a limited number of them."""
    unread: tuple[str, ...] = ()
    """First lines of reports that we have no kind for, as the tool wrote them."""
    problem: str = ""
    """Why there is no verdict."""
    remedy: str = ""
    """What to do about the problem, where something can be done."""
    version: str = ""
    seconds: float = 0.0
