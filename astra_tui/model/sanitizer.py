"""What NVIDIA's compute-sanitizer found in a candidate, tool by tool."""

from __future__ import annotations

from collections.abc import Iterable
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
    """The tool or the launcher did not finish: there is no result."""


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

    @property
    def found(self) -> bool:
        """Whether the tool speaks against the candidate."""
        return self.verdict is SanitizerVerdict.FOUND

    @property
    def looked(self) -> bool:
        """Whether the tool watched the candidate to the end."""
        return self.verdict in (SanitizerVerdict.CLEAN, SanitizerVerdict.FOUND)

    @property
    def outcome(self) -> str:
        """The verdict in words, without the name of the tool."""
        cases = f"case {self.cases[0]}" if len(self.cases) == 1 else f"{len(self.cases)} cases"
        if self.verdict is SanitizerVerdict.CLEAN:
            return f"nothing found in {cases}"
        if self.found:
            return f"{self.errors} {'error' if self.errors == 1 else 'errors'} in {cases}"
        return f"not looked at: {'; '.join(self.problem.splitlines())}"


def sanitizer_words(reports: Iterable[SanitizerReport]) -> tuple[str, ...]:
    """A line for each outcome, with the tools that had it."""
    tools: dict[str, list[str]] = {}
    for report in reports:
        tools.setdefault(report.outcome, []).append(report.tool.value)
    return tuple(f"{', '.join(names)}: {outcome}" for outcome, names in tools.items())


def not_looked_at(
    verdict: SanitizerVerdict, problem: str, remedy: str = ""
) -> tuple[SanitizerReport, ...]:
    """A report of every tool, none of which looked at anything."""
    return tuple(
        SanitizerReport(tool, verdict, problem=problem, remedy=remedy) for tool in SanitizerTool
    )
