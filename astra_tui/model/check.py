"""Cases and what came of them: the words that screens, agents and files share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from astra_tui.model.compilation import Diagnostic
from astra_tui.model.counters import Counters
from astra_tui.model.dtypes import DType
from astra_tui.model.findings import Finding
from astra_tui.model.sanitizer import SanitizerReport
from astra_tui.model.task.values import Values
from astra_tui.model.timing import Positive

PATH_OF = "path of workload "
OWN_SIZE_OF = "own size of workload "
"""How the names of cases begin that a launch plan makes necessary."""


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """One set of dimensions, element type and values on which correctness is checked.

    `values` replaces the task's distributions for some arguments. `offsets` shifts the base of
    tensors by whole elements off their alignment; `row_padding` puts that many elements between
    rows. A case outside the task's contract says so in `outside_contract`.
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

    @property
    def id(self) -> str:
        """The name by which a case of the suite can be run alone."""
        return f"{self.dtype.value}/{self.name}"

    @property
    def is_of_plan(self) -> bool:
        """Whether it follows from a source's launch plan: the task's suite does not have it."""
        return self.name.startswith((PATH_OF, OWN_SIZE_OF))


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

    @property
    def ok(self) -> bool:
        """Whether the case speaks for the candidate."""
        return self in (CaseOutcome.PASSED, CaseOutcome.REFUSED)


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

    @property
    def ok(self) -> bool:
        """Whether the output is right."""
        return not self.problem


class CaseResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of one case."""

    case: Case
    outcome: CaseOutcome
    message: str = ""
    outputs: tuple[OutputError, ...] = ()
    findings: tuple[Finding, ...] = ()
    kernels: tuple[str, ...] = ()
    """The kernels that the plan chose, as C++ names."""
    counters: Counters | None = None

    @property
    def worst(self) -> OutputError | None:
        """The output closest to, or furthest beyond, its bound."""
        return max(self.outputs, key=lambda o: o.error / o.allowed, default=None)


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


class Verdict(StrEnum):
    """How a check ended; the text of `EXIT_CODES` in the command line depends on it."""

    PASSED = "passed"
    FAILED = "failed"
    COMPILE_ERROR = "compile_error"
    PLAN_ERROR = "plan_error"
    UNSUPPORTED = "unsupported"


class CheckReport(msgspec.Struct, frozen=True):
    """Everything that one check found."""

    task: str
    task_hash: str
    source: str
    source_hash: str
    device: str
    compiler: str
    verdict: Verdict
    message: str
    diagnostics: tuple[Diagnostic, ...]
    cases: tuple[CaseResult, ...]
    properties: tuple[PropertyResult, ...]
    fakes: tuple[FakeResult, ...]
    counters: Counters | None
    seconds: float
    sanitizer: tuple[SanitizerReport, ...] = ()
    """One a tool of compute-sanitizer; empty where they were not asked for."""
    untried_lines: tuple[int, ...] = ()
    """Lines of the launch plan with launches that no case of the whole suite has taken."""

    @property
    def failed_cases(self) -> tuple[CaseResult, ...]:
        """The cases that speak against the candidate."""
        return tuple(c for c in self.cases if not c.outcome.ok)
