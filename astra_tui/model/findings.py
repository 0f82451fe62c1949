"""What a device found wrong while it ran a kernel, and what an engineer rules benign in task.toml.

Findings are of the emulator, or of NVIDIA's compute-sanitizer, tool by tool.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from astra_tui.model.compilation import UPSTREAM_PREFIX


class FindingKind(StrEnum):
    """The kinds of faults; the text of `EXPLANATIONS` says what each means."""

    GLOBAL_OUT_OF_BOUNDS = "global_out_of_bounds"
    SHARED_OUT_OF_BOUNDS = "shared_out_of_bounds"
    LOCAL_OUT_OF_BOUNDS = "local_out_of_bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED_SHARED = "uninitialised_shared"
    UNINITIALISED_GLOBAL = "uninitialised_global"
    UNWRITTEN_OUTPUT = "unwritten_output"
    WROTE_INPUT = "wrote_input"
    WROTE_OUTSIDE = "wrote_outside"
    HIDDEN_STATE = "hidden_state"
    SHARED_RACE = "shared_race"
    GLOBAL_RACE = "global_race"
    DIVERGENT_BARRIER = "divergent_barrier"
    DIFFERENT_BARRIERS = "different_barriers"
    DEADLOCK = "deadlock"
    BAD_MASK = "bad_mask"
    BARRIER_MISUSE = "barrier_misuse"
    IN_FLIGHT = "in_flight"
    MISSING_FENCE = "missing_fence"
    ABSENT_BLOCK = "absent_block"
    BUDGET = "budget"
    TRAP = "trap"
    ASSERTION = "assertion"
    UNSUPPORTED = "unsupported"
    EXITED_BEFORE_BARRIER = "exited_before_barrier"
    INACTIVE_SHUFFLE = "inactive_shuffle"
    PRINTF = "printf"
    NON_COHERENT_LOAD = "non_coherent_load"
    BEFORE_WAIT = "before_wait"
    DEPENDS_ON_MACHINE = "depends_on_machine"
    DEPENDS_ON_ADDRESS = "depends_on_address"
    DEPENDS_ON_ORDER = "depends_on_order"
    DEPENDS_ON_APPROXIMATION = "depends_on_approximation"
    FLOAT_ATOMICS = "float_atomics"
    HANG = "hang"
    NOT_DETERMINISTIC = "not_deterministic"
    OUT_OF_RESOURCES = "out_of_resources"
    LAUNCH_FAILED = "launch_failed"
    HARDWARE = "hardware"


EXPLANATIONS: dict[FindingKind, str] = {
    FindingKind.GLOBAL_OUT_OF_BOUNDS: "an access outside every buffer of the launch",
    FindingKind.SHARED_OUT_OF_BOUNDS: "an access outside every shared array",
    FindingKind.LOCAL_OUT_OF_BOUNDS: "an access outside the thread's own arrays",
    FindingKind.MISALIGNED: "an address that is no multiple of the access's size",
    FindingKind.UNINITIALISED_SHARED: "a use of shared memory that no thread has written",
    FindingKind.UNINITIALISED_GLOBAL: "a read of an output or workspace that nothing has written",
    FindingKind.UNWRITTEN_OUTPUT: "a part of an output that no launch wrote",
    FindingKind.WROTE_INPUT: "a write to an argument that is only read",
    FindingKind.WROTE_OUTSIDE: "bytes next to a buffer that changed",
    FindingKind.HIDDEN_STATE: "a write to a __device__ variable, which would outlive the launch",
    FindingKind.SHARED_RACE: "two threads of a block touch a shared word with nothing between",
    FindingKind.GLOBAL_RACE: "two threads touch a global word with nothing between",
    FindingKind.DIVERGENT_BARRIER: "threads of one warp wait at different barriers",
    FindingKind.DIFFERENT_BARRIERS: "warps of one block wait at different barriers",
    FindingKind.DEADLOCK: "threads wait for others that never come",
    FindingKind.BAD_MASK: "a warp operation run by a lane that its mask does not name",
    FindingKind.BARRIER_MISUSE: "a barrier in memory or of a cluster used as it may not be",
    FindingKind.IN_FLIGHT: "a use of what an asynchronous copy reads or writes before it was "
    "waited for",
    FindingKind.MISSING_FENCE: "an asynchronous copy of what threads wrote, without "
    "fence.proxy.async between",
    FindingKind.ABSENT_BLOCK: "an access to shared memory of a block that may not have begun, or "
    "may have left",
    FindingKind.BUDGET: "more instructions than the budget allows: an endless loop?",
    FindingKind.TRAP: "__trap() was reached",
    FindingKind.ASSERTION: "an assert() failed",
    FindingKind.UNSUPPORTED: "an instruction that this device does not run",
    FindingKind.EXITED_BEFORE_BARRIER: "a barrier that some threads left the kernel before",
    FindingKind.INACTIVE_SHUFFLE: "a shuffle from a lane that does not take part",
    FindingKind.PRINTF: "printf was called; its text is not shown",
    FindingKind.NON_COHERENT_LOAD: "a non-coherent load (ld.global.nc, __ldg) of bytes that the "
    "same launch wrote",
    FindingKind.BEFORE_WAIT: "a launch with pdl= that uses global memory before it has waited for "
    "the launches before",
    FindingKind.DEPENDS_ON_MACHINE: "outputs that follow a timer, or an SM, warp or grid number",
    FindingKind.DEPENDS_ON_ADDRESS: "outputs that follow where buffers lie in memory",
    FindingKind.DEPENDS_ON_ORDER: "outputs that follow the order in which blocks and warps run",
    FindingKind.DEPENDS_ON_APPROXIMATION: "outputs that are right only while approximate "
    "instructions err less than they may",
    FindingKind.FLOAT_ATOMICS: "atomic sums of floats, whose order is not fixed",
    FindingKind.HANG: "the launches did not end in the time allowed: an endless loop?",
    FindingKind.NOT_DETERMINISTIC: "the same inputs gave other bytes in another run",
    FindingKind.OUT_OF_RESOURCES: "more registers, shared memory or memory than there is",
    FindingKind.LAUNCH_FAILED: "the GPU did not run the launches to their end",
    FindingKind.HARDWARE: "the GPU itself reported a fault",
}

WARNINGS = frozenset(
    {
        FindingKind.DIFFERENT_BARRIERS,
        FindingKind.EXITED_BEFORE_BARRIER,
        FindingKind.INACTIVE_SHUFFLE,
        FindingKind.PRINTF,
        FindingKind.FLOAT_ATOMICS,
    }
)
"""Kinds that are reported without failing a case."""

ACCEPTABLE = (
    FindingKind.GLOBAL_OUT_OF_BOUNDS,
    FindingKind.UNINITIALISED_SHARED,
    FindingKind.UNINITIALISED_GLOBAL,
    FindingKind.SHARED_RACE,
    FindingKind.GLOBAL_RACE,
    FindingKind.NON_COHERENT_LOAD,
    FindingKind.DEPENDS_ON_MACHINE,
    FindingKind.DEPENDS_ON_ADDRESS,
    FindingKind.DEPENDS_ON_ORDER,
    FindingKind.DEPENDS_ON_APPROXIMATION,
)
"""Kinds that an engineer may accept in task.toml: the launch can continue after them.

Out of bounds means loads that end within 4 KiB of their buffer; a store is never accepted.
"""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault, with the place of it in the source and in the launch.

    `line` is the line in the candidate's file, 0 where none is known; `callers` are the lines it
    was inlined into, innermost first. `header` is the place in an upstream file of the task, as in
    `upstream/a/b.cuh:12`, of code that comes from there; `line` then led there. `launch_line` is
    the line of the launch plan.
    """

    kind: FindingKind
    message: str
    line: int = 0
    callers: tuple[int, ...] = ()
    kernel: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    lanes: int = 0
    """How many threads had the fault in this instruction."""
    instruction: str = ""
    launch_line: int = 0
    accepted: str = ""
    """Why an engineer accepts it in task.toml; empty where no one does."""
    header: str = ""

    @property
    def is_warning(self) -> bool:
        """Whether the case may pass all the same."""
        return self.kind in WARNINGS or bool(self.accepted)

    def describe(self) -> str:
        """The finding in one line: place, kind, what happened, who did it."""
        place = f"line {self.line}: " if self.line else ""
        place += f"{self.header}: " if self.header else ""
        text = f"{place}{self.kind.value}: {self.message}"
        if self.block is not None and self.thread is not None:
            text += f" [block {_indices(self.block)} thread {_indices(self.thread)}"
            text += f", {self.lanes} threads]" if self.lanes > 1 else "]"
        if self.launch_line and self.launch_line != self.line:
            text += f" (launched at line {self.launch_line})"
        if self.accepted:
            text += f"; accepted in task.toml: {self.accepted}"
        return text


def _indices(value: tuple[int, int, int]) -> str:
    return "(" + ",".join(map(str, value)) + ")"


class Acceptance(msgspec.Struct, frozen=True, omit_defaults=True):
    """One `[[accept]]` table: a kind of finding, or a condition of the source, that is allowed.

    Exactly one of `finding` and `condition` is given. What is left empty does not narrow it:
    `source` is the name of the file, `function` the kernel's name without template arguments,
    `text` a part of the source line, or a place in the task's upstream files (or its beginning):
    `upstream/a/b.cuh:12`. A condition is its text in the source, without blanks.
    """

    reason: str
    finding: FindingKind | None = None
    condition: str = ""
    source: str = ""
    function: str = ""
    text: str = ""

    @property
    def is_upstream(self) -> bool:
        """Whether this rules about a place in the upstream files, and nowhere else."""
        return self.text.startswith(UPSTREAM_PREFIX[1:])

    def covers(self, source: str, function: str, line: str) -> bool:
        """Whether a place lies where this rules: file name, kernel name, text of the line."""
        name = function.partition("<")[0].strip().rpartition("::")[2]
        return (
            self.source in ("", source)
            and self.function in ("", name, function)
            and self.text in line
        )

    def describe(self) -> str:
        """The ruling in one line: what is accepted, where, and why."""
        what = self.finding.value if self.finding is not None else f"condition {self.condition}"
        places = [
            f"{word} {value}"
            for word, value in (("in", self.source), ("kernel", self.function), ("at", self.text))
            if value
        ]
        return f"{' '.join((what, *places))}: {self.reason}"


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
