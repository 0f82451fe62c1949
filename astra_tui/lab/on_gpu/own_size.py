"""Runs a source on a workload at its own size on a GPU, and judges every element of its outputs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from astra_tui.gpu.device import BEFORE_WAIT, CudaDevice
from astra_tui.gpu.gpu_process import GpuFailure, GpuProcess, finding_of
from astra_tui.gpu.messages import Drop, Dropped, Prepare, Prepared, RunSets, SetsRan
from astra_tui.lab.check.judge import Allowance
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.on_gpu.verifying import Judged, WholeOutputs
from astra_tui.lab.on_gpu.workload import Compiled, WorkloadBuffers
from astra_tui.model.check import FAR, OWN_SIZE_OF, WIDE, Case, CaseOutcome, CaseResult
from astra_tui.model.device import RED_ZONE_BYTES, has_float_atomics
from astra_tui.model.errors import UserError
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.task import KernelTask, Workload

NAN, FINITE = 0xFF, 0x5A
REPEATS = 3
"""Runs on outputs that are NaN before; one more finds finite numbers there."""

MEMORY_SHARE = 0.3
"""Of a GPU's memory, for the tensors of what is listed nowhere: the oracle draws inputs as well."""

MOST_PARTS = 4
"""Parts of the rows that are judged of what is listed nowhere, a quarter of a gigabyte each."""

Allowed = Callable[[], Mapping[str, Allowance]]
"""The baseline's own errors on the same inputs, asked for where they could matter."""


@dataclass(frozen=True)
class OwnSize:
    """One source on one workload, with inputs drawn from one seed."""

    task: KernelTask
    workload: Workload
    device: CudaDevice
    oracle: Oracle
    seed: int

    @classmethod
    def drawn(
        cls, task: KernelTask, workload: Workload, device: CudaDevice, oracle: Oracle
    ) -> OwnSize:
        """With a seed that no one knows before."""
        return cls(task, workload, device, oracle, secrets.randbits(63))

    @property
    def is_listed(self) -> bool:
        """Whether it is a workload of the task, and no size beyond."""
        return not self.workload.name.startswith((FAR, WIDE))

    @property
    def fits(self) -> bool:
        """Whether the tensors fit into the GPU; workloads that a task lists have to."""
        if self.is_listed:
            return True
        size = WorkloadBuffers(self.task, self.workload, self.seed).set_bytes
        return size <= MEMORY_SHARE * self.device.facts.memory

    def check(self, compiled: Compiled, allowed: Allowed) -> CaseResult:
        """The result, as of a case. Raises PlanError where the plan breaks, ReferenceFailed."""
        case = Case(
            OWN_SIZE_OF + self.workload.name if self.is_listed else self.workload.name,
            "all rows of all outputs, as in use",
            self.workload.dtype,
            dict(self.workload.dims),
        )
        try:
            run = self._run(compiled, allowed)
        except GpuFailure as error:
            finding = finding_of(error)
            text = finding.describe()
            return CaseResult(case, CaseOutcome.FAULT, text, (), (finding,))
        kernels = tuple(dict.fromkeys(k.expression for k in compiled.compilation.kernels))
        faults = [f for f in run.findings if not f.is_warning]
        outcome, text = CaseOutcome.PASSED, run.judged.note
        if faults:
            outcome, text = CaseOutcome.FAULT, faults[0].describe()
        elif run.judged.problem:
            outcome, text = CaseOutcome.WRONG, f"{run.judged.problem} (seed {self.seed})"
        return CaseResult(case, outcome, text, run.judged.errors, run.findings, kernels)

    def errors(self, compiled: Compiled) -> Mapping[str, Allowance]:
        """What a version makes of it, as a measure for others; nothing where it cannot say."""
        try:
            return self._run(compiled, dict).judged.allowances
        except (GpuFailure, UserError):
            return {}

    def _run(self, compiled: Compiled, allowed: Allowed) -> _Run:
        buffers = WorkloadBuffers(self.task, self.workload, self.seed)
        version = buffers.bind(compiled, self.device.attributes)
        with self.device.process_of(compiled.compilation.cubin) as process:
            prepare = Prepare(
                buffers.buffers, (version,), self.seed, estimate=False, red_zone=RED_ZONE_BYTES
            )
            process.ask(prepare, Prepared, self.device.seconds)
            try:
                whole = WholeOutputs(buffers, process, self.oracle)
                may_vary = not self.task.deterministic and has_float_atomics(
                    compiled.compilation.ptx
                )
                return self._runs(process, whole, may_vary, allowed)
            finally:
                if process.is_running:
                    process.ask(Drop(), Dropped, self.device.seconds)

    def _runs(
        self, process: GpuProcess, whole: WholeOutputs, may_vary: bool, allowed: Allowed
    ) -> _Run:
        key = secrets.randbits(63)
        most = None if self.is_listed else MOST_PARTS

        def run(poison: int) -> SetsRan:
            return process.ask(RunSets(poison, key), SetsRan, self.device.seconds)

        first = run(NAN)
        judged = whole.judge(1, most_parts=most)
        allowances: Mapping[str, Allowance] = {}
        if judged.problem and all(e.error != float("inf") for e in judged.errors):
            allowances = allowed()
            judged = whole.judge(1, allowances, most_parts=most)
        ran = [first, *(run(poison) for poison in (NAN,) * (REPEATS - 1) + (FINITE,))]
        if not judged.problem and ran[-1].outputs != first.outputs and may_vary:
            judged = whole.judge(1, allowances, most_parts=most)
        outputs = _of_outputs(ran, may_vary) if not judged.problem else ()
        return _Run(judged, (*_of_memory(ran), *outputs))


@dataclass(frozen=True)
class _Run:
    judged: Judged
    findings: tuple[Finding, ...]


def _of_memory(ran: list[SetsRan]) -> Iterator[Finding]:
    if any(r.red_zones[0] != r.red_zones[1] for r in ran):
        yield Finding(FindingKind.WROTE_OUTSIDE, "a write outside every buffer, past an end")
    if any(r.early for r in ran):
        yield BEFORE_WAIT
    if any(r.inputs[0] != r.inputs[1] for r in ran):
        yield Finding(FindingKind.WROTE_INPUT, "what is only read has changed")


def _of_outputs(ran: list[SetsRan], may_vary: bool) -> Iterator[Finding]:
    """What outputs that are right the first time say when they are others in another run."""
    first, *again, other_poison = (r.outputs for r in ran)
    if may_vary and any(outputs != first for outputs in (*again, other_poison)):
        text = "its sums of floats are atomic: the last bits vary from run to run"
        yield Finding(FindingKind.FLOAT_ATOMICS, text)
    elif any(outputs != first for outputs in again):
        text = f"not the same bytes in every one of {REPEATS} runs"
        yield Finding(FindingKind.NOT_DETERMINISTIC, text)
    elif other_poison != first:
        text = "the result depends on what was in undefined memory before"
        yield Finding(FindingKind.UNINITIALISED_GLOBAL, text)
