"""The lab's verbs: what a lab process is asked to do with the sources of its task."""

from __future__ import annotations

from typing import Never

import msgspec

from astra_tui.gpu.messages import DeviceFacts
from astra_tui.model.audit import Outcome
from astra_tui.model.check import Case, CaseResult, CheckReport, StillChecking
from astra_tui.model.compilation import (
    Compilation,
    CompiledKernel,
    Diagnostic,
    assembly_in,
    code_hash,
    instructions_in,
)
from astra_tui.model.counters import NcuReport
from astra_tui.model.findings import Acceptance, SanitizerReport
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.launch import LaunchPlan, print_plan
from astra_tui.model.sass import Disassembly
from astra_tui.model.task import Workload
from astra_tui.model.timing import Progress, Timing, WorkloadTiming
from astra_tui.model.tuning import TrialWork
from astra_tui.model.verdict import Profiled
from astra_tui.model.yardsticks import ShippedTimes
from astra_tui.processes.escapes import Targets
from astra_tui.rpc import Request

CASE_SECONDS = 120.0
"""How long the lab may be silent during a check or a profile, in seconds of its CPU time."""

TIMING_SECONDS = 300.0
"""How long one step of a timing may take; building graphs and the first floors are the longest."""


class NamedSource(msgspec.Struct, frozen=True):
    """A source with the name that messages give it."""

    text: str
    file: str


class Compiled(msgspec.Struct, frozen=True):
    """A compilation without its code, which stays in the lab."""

    ok: bool
    diagnostics: tuple[Diagnostic, ...]
    compiler: str
    seconds: float
    kernels: tuple[CompiledKernel, ...]
    instructions: tuple[str, ...]
    """What `instructions_in` finds in the PTX."""
    assembly: tuple[str, ...] = ()
    """What `assembly_in` finds there."""
    included: tuple[str, ...] = ()
    """Paths of the task's upstream files that the source includes, directly or not."""
    code: str = ""
    """The `code_hash` of what compiled."""

    @classmethod
    def of(
        cls, compilation: Compilation, plan: LaunchPlan, included: tuple[str, ...] = ()
    ) -> Compiled:
        """What is told of a compilation of a source with this launch plan."""
        c = compilation
        used = instructions_in(c.ptx), assembly_in(c.ptx), included
        code = code_hash(c.ptx, print_plan(plan)) if c.ok else ""
        return cls(c.ok, c.diagnostics, c.compiler, c.seconds, c.kernels, *used, code)


class Compile(Request[Compiled], frozen=True):
    """Compiles the kernels that a check of the whole suite needs, without running anything."""

    silence = 120.0

    source: NamedSource
    seed: int = 0
    """From which the suite's cases are drawn."""


class CaseCount(msgspec.Struct, frozen=True):
    """How many cases a check will run."""

    cases: int


class Check(Request[CaseCount | CaseResult | StillChecking | CheckReport], frozen=True):
    """Checks a source against the suite and `added` cases, or against `only` some cases.

    Cases with `known` results, of a check that was cut off, do not run again. The results come
    without counters, the report at the end without the results.

    With `part`, as in `(1, 4)` for the second quarter, the results of these cases come and no more,
    for a check that has them as `known` ones.
    """

    silence = CASE_SECONDS
    most = 300.0

    source: NamedSource
    added: tuple[Case, ...] = ()
    seed: int = 0
    known: tuple[CaseResult, ...] = ()
    only: tuple[Case, ...] | None = None
    part: tuple[int, int] | None = None
    failures: int = 0
    """After so many failed cases it ends, with no report; 0: never."""


class Sanitized(msgspec.Struct, frozen=True):
    """What compute-sanitizer said, one report a tool."""

    reports: tuple[SanitizerReport, ...]


class Sanitize(Request[Sanitized], frozen=True):
    """Has compute-sanitizer watch a source that passed its check.

    Each run of one of its four tools has a limit of its own; this is for our process alone.
    """

    silence = 1800.0

    source: NamedSource


class Profile(Request[Profiled], frozen=True):
    """Counts a source on every workload, and disassembles it.

    With `shapes` it is counted on these, which are named as workloads are. One that `may_be_wrong`
    is counted whatever its outputs, within the steps of a check.
    """

    silence = CASE_SECONDS

    source: NamedSource
    shapes: tuple[Workload, ...] = ()
    may_be_wrong: bool = False


class Disassemble(Request[Disassembly], frozen=True):
    """The machine code of the kernels that workloads use, of a source that may be wrong."""

    silence = CASE_SECONDS

    source: NamedSource


class ReadHardware(Request[NcuReport], frozen=True):
    """Has ncu read hardware counters on one workload; it replays every launch many times."""

    silence = 300.0

    source: NamedSource
    workload: str


class TimedWorkload(msgspec.Struct, frozen=True):
    """One workload of a timing, with its samples: microseconds of base and candidate."""

    timing: WorkloadTiming
    rounds: tuple[tuple[float, float], ...]


class Time(Request[Progress | TimedWorkload | Timing], frozen=True):
    """Times a source against a base on the named workloads, or on all. Both passed their checks.

    A `final` timing is taken in a fresh process, and by the paper's protocol as well.
    """

    silence = TIMING_SECONDS

    base: NamedSource
    source: NamedSource
    final: bool = False
    workloads: tuple[str, ...] = ()


class GpuRead(msgspec.Struct, frozen=True):
    """A GPU as the driver and NVML tell of it, and the compiler of its process."""

    facts: DeviceFacts
    identity: GpuIdentity
    compiler: str


class ReadGpu(Request[GpuRead], frozen=True):
    """What the GPU is. Raises UserError where there is none."""


class CompiledTrial(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source of a sweep, with what it launches on each workload that its plan does not refuse;
    or the `problem` for which it cannot be tried.
    """

    problem: str = ""
    compilation: Compilation | None = None
    works: dict[str, TrialWork] = {}


class CompileTrials(Request[CompiledTrial], frozen=True):
    """Compiles sources of a sweep for a GPU of an architecture, which need not be here; one answer
    for each, in their order. `processes` do it, 0: one a processor.
    """

    silence = 3 * TIMING_SECONDS

    texts: tuple[str, ...]
    arch: str
    attributes: dict[str, int]
    processes: int = 0


class TrialSource(msgspec.Struct, frozen=True):
    """A source that is compiled."""

    text: str
    compilation: Compilation


class TrialTimings(msgspec.Struct, frozen=True):
    """One timing for each trial, or why there is none; `seconds` with the GPU to itself."""

    timings: tuple[Timing, ...]
    seconds: float
    problem: str = ""


class TimeTrials(Request[TrialTimings], frozen=True):
    """Times trials of a sweep against a base of theirs, on workloads that need not be the task's.

    The process that measures is a fresh one, unless it is that of the trials before with this
    `process`. `final` times take longer, and are those that count.
    """

    silence = 3 * TIMING_SECONDS

    base: TrialSource
    trials: tuple[TrialSource, ...]
    workloads: tuple[Workload, ...]
    process: str
    final: bool = False


class TimeShipped(Request[Progress | ShippedTimes], frozen=True):
    """Times a source against a base and the yardsticks that are in the cache, after a producer."""

    silence = TIMING_SECONDS

    base: NamedSource
    source: NamedSource


class Rest(Request[Never], frozen=True):
    """Leaves the GPU to the process that measures."""

    silence = CASE_SECONDS


class Escapes(msgspec.Struct, frozen=True):
    """Why each try was refused; an empty text where it was done."""

    outcomes: dict[str, str]


class TryEscapes(Request[Escapes], frozen=True):
    """Has the thread in which candidates run try to get out, as `processes/escapes.py` does."""

    targets: Targets


class Judged(msgspec.Struct, frozen=True):
    """The gate's verdict on a kernel of the zoo, and why; `seconds` are of CPU time."""

    outcome: Outcome
    message: str
    seconds: float = 0.0


class Judge(Request[Judged], frozen=True):
    """Asks the gate about a kernel of the zoo: the audit's process does, not the lab's.

    `folder` is that of its task. One with an `original` is a mutant of it. After `seconds` of CPU
    time it is a hang. With `timed` it passed its check, and is timed.
    """

    folder: str
    name: str
    text: str
    original: str = ""
    rulings: tuple[Acceptance, ...] = ()
    seconds: float = 240.0
    timed: bool = False


LabRequest = (
    Compile
    | Check
    | Sanitize
    | Profile
    | Disassemble
    | ReadHardware
    | Time
    | ReadGpu
    | CompileTrials
    | TimeTrials
    | TimeShipped
    | Rest
    | TryEscapes
)
