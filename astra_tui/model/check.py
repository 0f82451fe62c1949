"""Cases and the result of them: the words that screens, agents and files share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

from astra_tui.model.compilation import Compilation, Diagnostic
from astra_tui.model.counters import Counters
from astra_tui.model.dtypes import DType
from astra_tui.model.findings import Acceptance, Finding, SanitizerReport
from astra_tui.model.timing import Positive
from astra_tui.model.traffic import ArgumentTraffic, WorkloadTraffic
from astra_tui.model.values import Values

PATH_OF = "path of workload "
OWN_SIZE_OF = "own size of workload "
PAIR_AT = "pair at "
NEAR = "near "
CONDITION_OF = "for a condition: "
PLAN_AT = "plan at line "
"""How the names of cases begin that a source makes necessary: its launch plan, its conditions."""

_OF_SOURCE = (PATH_OF, OWN_SIZE_OF, PAIR_AT, NEAR, CONDITION_OF, PLAN_AT)


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """One set of dimensions, element type and values on which correctness is checked.

    `values` replaces the task's distributions for some arguments. `offsets` shifts the base of
    tensors by whole elements off their alignment; `row_padding` puts that many elements between
    rows. A case outside the task's contract says so in `outside_contract`. `seed` is what its
    values are drawn from, with its name and sizes; 0 in the suite that never changes.
    """

    name: str
    why: str
    dtype: DType
    dims: dict[str, int]
    values: dict[str, Values] = {}
    offsets: dict[str, int] = {}
    row_padding: dict[str, int] = {}
    scalars: dict[str, float] = {}
    outside_contract: str = ""
    seed: int = 0

    @property
    def id(self) -> str:
        """The name by which a case of the suite can be run alone."""
        return f"{self.dtype.value}/{self.name}"

    @property
    def is_of_plan(self) -> bool:
        """Whether it follows from a source, not from the task, whose suite does not have it."""
        return self.name.startswith(_OF_SOURCE)


class CaseOutcome(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    REFUSED = "refused"
    """The plan refused a case that lies outside the contract, as it should."""
    WRONG = "wrong"
    FAULT = "fault"
    UNSUPPORTED = "unsupported"
    WRONGLY_REFUSED = "wrongly_refused"
    PLAN_ERROR = "plan_error"
    INCONCLUSIVE = "inconclusive"
    """Nothing is wrong, and something that has to be established could not be."""

    @property
    def ok(self) -> bool:
        """Whether the case speaks for the candidate."""
        return self in (CaseOutcome.PASSED, CaseOutcome.REFUSED)


class WrongElement(msgspec.Struct, frozen=True):
    """One element that is not what the reference says."""

    at: tuple[int, ...]
    got: float
    expected: float


class OutputError(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far one output is from the float64 reference.

    `error` is the largest |x - ref| as a fraction of what is allowed there; above `allowed` the
    output is wrong. `allowed` is 1, or twice the baseline's own error where that is larger.
    """

    argument: str
    error: float
    allowed: Positive = 1.0
    max_abs: float = 0.0
    max_ulp: float = 0.0
    relative_l2: float = 0.0
    relative_l2_allowed: float = 0.0
    at: tuple[int, ...] = ()
    got: float = 0.0
    expected: float = 0.0
    problem: str = ""
    first: tuple[WrongElement, ...] = ()
    """The first wrong elements, where they are known one by one."""
    pattern: str = ""
    """Where all of them are, in words, as in "in columns from d - d % 8 (8) on, in all rows"."""

    @property
    def ok(self) -> bool:
        """Whether the output is right."""
        return not self.problem

    def describe_wrong(self) -> list[str]:
        """Where it is wrong, and the first wrong elements: a line each; none where it is right."""
        where = [f"{self.argument} is wrong {self.pattern}"] if self.pattern else []
        return where + [
            f"{self.argument}[{', '.join(map(str, e.at))}] is {e.got:.6g}, "
            f"should be {e.expected:.6g}"
            for e in self.first
        ]


class CaseTrail(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the rest of a check takes from a case that ran on the emulator or a GPU.

    With it a check that was cut off continues without running the case again.
    """

    steps: int = 0
    """Steps of the emulator, of its reruns too."""
    repeated: bool = False
    """Whether it was the first of its kernels to run a second time with other poison."""
    edge_lines: tuple[int, ...] = ()
    """Lines of the approximate instructions at whose error bounds it ran."""
    sides: dict[str, tuple[tuple[int, int, int], ...]] = {}
    """By kernel, for each condition its number, bits of its possible sides, and bits of those that
    this case was the first to take. A kernel that it was the first to run is here in any case.
    """


class CaseResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one case."""

    case: Case
    outcome: CaseOutcome
    message: str = ""
    outputs: tuple[OutputError, ...] = ()
    findings: tuple[Finding, ...] = ()
    kernels: tuple[str, ...] = ()
    """The kernels that the plan chose, as C++ names."""
    counters: Counters | None = None
    trail: CaseTrail | None = None
    """None where nothing ran."""

    @property
    def worst(self) -> OutputError | None:
        """The output closest to, or furthest beyond, its bound."""
        return max(self.outputs, key=lambda o: o.error / o.allowed, default=None)


class OutputShare(msgspec.Struct, frozen=True):
    """How many elements of one output were compared with the reference."""

    argument: str
    judged: int
    elements: int


FAR = "far: "
WIDE = "wide: "
MANY_ROWS = "many rows: "
"""How names begin of sizes far beyond the listed ones, of rows wider than listed, and of many rows
on other inputs.
"""


class FullSizeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One workload at its own size on the emulator.

    First the skeleton of every block runs: the part of the program that decides control flow and
    store addresses. `covered` says that it showed every byte of every output to be stored. Then
    `blocks_run` of all `blocks` run in full, and what they wrote is judged.
    """

    workload: str
    outcome: CaseOutcome
    message: str = ""
    outputs: tuple[OutputError, ...] = ()
    findings: tuple[Finding, ...] = ()
    shares: tuple[OutputShare, ...] = ()
    blocks: int = 0
    blocks_run: int = 0
    covered: bool = False
    reduced: str = ""
    """What was made smaller, and why; empty where nothing was."""

    @property
    def extent(self) -> str:
        """How much of the workload ran and was judged, in words."""
        words = [f"{self.blocks_run:,} of {self.blocks:,} blocks in full"]
        words += [
            f"{s.judged / max(s.elements, 1):.2%} of {s.argument} judged" for s in self.shares
        ]
        if self.covered:
            words.append("every output byte is stored")
        return "; ".join([", ".join(words), *([self.reduced] if self.reduced else [])])


Result = TypeVar("Result", CaseResult, FullSizeResult)


def by_cause(results: Iterable[Result]) -> list[list[Result]]:
    """Failed results that have the same fault at the same line together, smallest case first."""
    causes: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        fault = next((f for f in result.findings if not f.is_warning), None)
        wrong = tuple(o.argument for o in result.outputs if not o.ok)
        place: tuple[object, ...] = (fault.kind, fault.line) if fault else wrong
        causes.setdefault((result.outcome, *place), []).append(result)
    return [sorted(alike, key=_size) for alike in causes.values()]


def _size(result: CaseResult | FullSizeResult) -> int:
    """Workloads stay in the order of their task."""
    return math.prod(result.case.dims.values()) if isinstance(result, CaseResult) else 0


def worst_error(results: Sequence[CaseResult]) -> float:
    """The largest error of an output, as a fraction of what is allowed there; 0 without outputs."""
    worst = (r.worst for r in results)
    return max((w.error / w.allowed for w in worst if w is not None and w.allowed), default=0.0)


class PropertyResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A property that needs no reference, such as that rows may be permuted."""

    name: str
    dtype: DType
    ok: bool
    bitwise: bool
    message: str = ""


class FakeResult(msgspec.Struct, frozen=True):
    """Whether the suite rejects outputs that no honest kernel would produce."""

    name: str
    cases: int
    rejected: int

    @property
    def caught(self) -> bool:
        """Whether at least one case tells the fake from the real thing."""
        return self.rejected > 0


class CheckVerdict(StrEnum):
    """How a check ended; the text of `EXIT_CODES` in the command line depends on it."""

    PASSED = "passed"
    FAILED = "failed"
    COMPILE_ERROR = "compile_error"
    PLAN_ERROR = "plan_error"
    UNSUPPORTED = "unsupported"
    INCONCLUSIVE = "inconclusive"
    """Nothing is wrong, and something that has to be established could not be: never better."""


OPEN_CONDITION_HINT = (
    "add a case to task.toml that takes it, or accept it there with a reason ([[accept]])"
)
"""What an engineer can do about a side of a condition that nothing took."""


class ConditionStatus(StrEnum):
    """What is known of a side of a condition that no case of the suite took."""

    REACHED = "reached"
    """A case made for it took it."""
    UNREACHABLE = "unreachable"
    """Proved: nothing that the contract and the launch plan allow leads there."""
    ACCEPTED = "accepted"
    """The task accepts that it is not taken, with a reason."""
    OPEN = "open"


class ConditionResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One side of a condition of the source that no case of the suite took.

    `kernel` is the instance, "the launch plan" for a launch or a side of a condition there and for
    operands of its `min` and `max`, "" for a condition that cannot be seen in any. `why` says what
    the status rests on: the case, the proof, the reason, or what was tried.
    """

    kernel: str
    line: int
    column: int
    text: str
    side: bool
    key: str
    function: str = ""
    status: ConditionStatus = ConditionStatus.OPEN
    why: str = ""

    def describe(self) -> str:
        """The side in words, with its line."""
        return f"line {self.line}: {self.describe_alone()}"

    def describe_alone(self) -> str:
        """The side in words."""
        if not self.kernel:
            return f"'{self.text}' cannot be observed"
        return f"'{self.text}' was never {'true' if self.side else 'false'} in {self.kernel}"


class StillChecking(msgspec.Struct, frozen=True):
    """A check works on something that has no result of its own, such as open conditions."""


class CheckReport(msgspec.Struct, frozen=True):
    """Everything that one check found."""

    task: str
    task_hash: str
    source: str
    source_hash: str
    device: str
    compiler: str
    verdict: CheckVerdict
    message: str
    diagnostics: tuple[Diagnostic, ...]
    cases: tuple[CaseResult, ...]
    properties: tuple[PropertyResult, ...]
    fakes: tuple[FakeResult, ...]
    counters: Counters | None
    seconds: float
    sanitizer: tuple[SanitizerReport, ...] = ()
    """One a tool of compute-sanitizer; empty where they were not asked for."""
    emulated: int = 0
    """Cases that the emulator ran as well as a GPU."""
    not_emulated: tuple[str, ...] = ()
    """What it does not run, where it ran as well as a GPU."""
    untried_lines: tuple[int, ...] = ()
    """Lines of the launch plan with launches that no case of the whole suite has taken."""
    conditions: tuple[ConditionResult, ...] = ()
    """Sides of the source's conditions that no case of the suite took."""
    condition_sides: int = 0
    """How many sides of conditions were taken, counted for each kernel."""
    accepted: tuple[Acceptance, ...] = ()
    """What an engineer accepts in task.toml, whether or not this source needs it."""
    seed: int = 0
    """What the drawn cases follow from; equal seeds give equal cases."""
    full_size: tuple[FullSizeResult, ...] = ()
    """The workloads at their own sizes, on the emulator."""

    @property
    def open_conditions(self) -> tuple[ConditionResult, ...]:
        """The sides of conditions that make the candidate inconclusive."""
        return tuple(c for c in self.conditions if c.status is ConditionStatus.OPEN)

    @property
    def worst(self) -> tuple[CaseResult, OutputError] | None:
        """The output closest to, or furthest beyond, its bound, with its case."""
        found = [(result, worst) for result in self.cases if (worst := result.worst) is not None]
        return max(found, key=lambda pair: pair[1].error / (pair[1].allowed or 1.0), default=None)

    @property
    def failed_cases(self) -> tuple[CaseResult, ...]:
        """The cases that speak against the candidate."""
        return tuple(c for c in self.cases if not c.outcome.ok)


class CountedSource(msgspec.Struct, frozen=True):
    """One version of a source, and what the emulator counted of it in one case."""

    file: str
    text: str
    counters: Counters
    compilation: Compilation
    kernels: tuple[str, ...]
    faults: tuple[Finding, ...]
    traffic: tuple[ArgumentTraffic, ...]
    workloads: tuple[WorkloadTraffic, ...]
    """Traffic of all workloads."""


class Checked(msgspec.Struct, frozen=True):
    """A check with the results of its cases, whose report does not hold them."""

    results: tuple[CaseResult, ...]
    report: CheckReport

    @property
    def passed(self) -> bool:
        """Whether every case has."""
        return self.report.verdict is CheckVerdict.PASSED
