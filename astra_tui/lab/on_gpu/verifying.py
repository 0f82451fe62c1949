"""Compares whole outputs with the reference: of one run, or of all sets of a timed graph."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from astra_tui.gpu.gpu_process import GpuProcess
from astra_tui.gpu.messages import Fetch, Fetched
from astra_tui.lab.check.bulk import BulkJob, BulkOutput, BulkOutputJudge
from astra_tui.lab.check.judge import Allowance
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.on_gpu.workload import WorkloadBuffers
from astra_tui.model.check import OutputError
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.processes.frames import WINDOW_BYTES, window_fd

SECONDS = 60.0
ORACLE_BYTES = 4 << 30
"""What the reference may take at once for its numbers and those in between."""
_IN_BETWEEN = 8
"""Float64 numbers that a reference holds for each element that it reads or writes, at most."""
_FETCHED_BYTES = 256 << 20
"""What is brought to the oracle at once, where rows can be judged apart."""
_MAX_SETS = 256
CPU_ELEMENTS = 1 << 25
"""Elements of outputs that an oracle without a GPU judges of a timed graph; the digests of sets
beyond are compared among the replays alone."""
_ALIGNMENT = 256


@dataclass(frozen=True)
class Judged:
    """The result of the outputs of some sets. `where` is the device that the reference ran on."""

    errors: tuple[OutputError, ...]
    sets: int
    where: str
    note: str = ""

    @property
    def problem(self) -> str:
        """What is wrong, or nothing."""
        return next((f"{e.argument}: {e.problem}" for e in self.errors if not e.ok), "")

    @property
    def allowances(self) -> dict[str, Allowance]:
        """What these errors allow another version; nothing where they are no measure."""
        return {
            e.argument: Allowance(e.error, e.relative_l2)
            for e in self.errors
            if math.isfinite(e.error)
        }


def _some(jobs: tuple[BulkJob, ...], most: int | None) -> tuple[BulkJob, ...]:
    """The first, the last and some of those in between, in order."""
    if most is None or len(jobs) <= most:
        return jobs
    between = secrets.SystemRandom().sample(range(1, len(jobs) - 1), most - 2)
    return tuple(jobs[number] for number in sorted((0, len(jobs) - 1, *between)))


@dataclass(frozen=True)
class WholeOutputs:
    """All rows of all outputs of a workload, as they lie in a GPU process."""

    buffers: WorkloadBuffers
    process: GpuProcess
    oracle: Oracle

    def judge(
        self,
        sets: int,
        allowed: Mapping[str, Allowance] | None = None,
        start: int = 0,
        most_parts: int | None = None,
    ) -> Judged:
        """Compares what all sets hold now, beginning with set `start`.

        At most so many parts of the rows: the first, the last and others, which are drawn. An
        oracle without a GPU stops after some. Raises GpuFailure, ReferenceFailed, UserError.
        """
        task = self.buffers.task
        judges = {
            name: BulkOutputJudge(
                name, of_type, shape, task.tolerances.get(of_type), (allowed or {}).get(name)
            )
            for name, of_type, shape in self.buffers.outputs()
        }
        where, note = "", ""
        done: dict[int, int] = {}
        jobs = tuple(self._jobs(sets, start, judges))
        chosen = _some(jobs, most_parts)
        for job in chosen:
            is_next = job.first_set not in done
            if where == "cpu" and is_next and sum(done.values()) >= self._most_on_cpu():
                break
            ranges = tuple(self._range(output, job) for output in job.outputs)
            self.process.ask(Fetch(job.first_set, job.sets, ranges), Fetched, SECONDS)
            answer = self.oracle.judge_bulk(job)
            where, note = answer.where, answer.note or note
            for output, part in zip(job.outputs, answer.parts, strict=True):
                within = math.prod(output.shape[1:]) * job.first_row
                judges[output.name].add(part, job.first_set, within)
            done[job.first_set] = job.sets
        self.oracle.finish_bulk()
        errors = tuple(judge.result() for judge in judges.values())
        if len(chosen) < len(jobs):
            note = note or f"{len(chosen)} of {len(jobs)} parts of its rows judged"
        return Judged(errors, sum(done.values()), where, note)

    def _most_on_cpu(self) -> int:
        elements = sum(math.prod(shape) for _, _, shape in self.buffers.outputs())
        return max(1, CPU_ELEMENTS // max(elements, 1))

    def _jobs(
        self, sets: int, start: int, judges: Mapping[str, BulkOutputJudge]
    ) -> Iterator[BulkJob]:
        rows = self.buffers.rows()
        at_once, rows_at_once = self._sizes(sets)
        firsts = (*range(start, sets, at_once), *range(0, start, at_once))
        for first in firsts:
            count = min(at_once, (sets if first >= start else start) - first)
            for row in range(0, max(rows, 1), rows_at_once):
                taken = min(rows_at_once, rows - row) if rows else 0
                yield BulkJob(
                    window_fd(),
                    self.buffers.inputs(),
                    tuple(self._outputs(judges, count, taken)),
                    self.buffers.arguments(taken),
                    first,
                    count,
                    row,
                    taken,
                )

    def _sizes(self, sets: int) -> tuple[int, int]:
        """Sets, and rows of each, that are judged at once."""
        outputs = self.buffers.outputs()
        size = sum(dtype.bytes_of(math.prod(shape)) for _, dtype, shape in outputs)
        elements = sum(b.elements for b in self.buffers.buffers) + sum(
            math.prod(shape) for _, _, shape in outputs
        )
        wide = 8 * _IN_BETWEEN * elements
        rows = self.buffers.rows()
        if size <= _FETCHED_BYTES and wide <= ORACLE_BYTES:
            fitting = min(_FETCHED_BYTES // max(size, 1), ORACLE_BYTES // max(wide, 1), _MAX_SETS)
            return max(1, min(sets, fitting)), max(rows, 1)
        if self.buffers.has_independent_rows and rows:
            fitting = min(_FETCHED_BYTES * rows // size, ORACLE_BYTES * rows // wide)
            return 1, max(1, fitting)
        if size + len(outputs) * _ALIGNMENT > WINDOW_BYTES:
            raise UserError(
                f"the outputs of workload {self.buffers.workload.name} have {size} bytes, and "
                f"nothing says that their rows are independent: no more than {WINDOW_BYTES} can "
                "be compared at once",
                file=str(self.buffers.task.file),
                hint="name the dimension of independent rows: rows",
            )
        return 1, max(rows, 1)

    def _outputs(
        self, judges: Mapping[str, BulkOutputJudge], sets: int, rows: int
    ) -> Iterator[BulkOutput]:
        at = 0
        for name, dtype, shape in self.buffers.outputs():
            judge = judges[name]
            part = (rows, *shape[1:]) if self.buffers.task.rows else shape
            tolerance = judge.tolerance
            yield BulkOutput(
                name, dtype.value, part, at, tolerance.atol, tolerance.rtol, judge.allowed
            )
            at += -(-sets * dtype.bytes_of(math.prod(part)) // _ALIGNMENT) * _ALIGNMENT

    def _range(self, output: BulkOutput, job: BulkJob) -> tuple[str, int, int, int]:
        dtype = DType(output.dtype)
        first = dtype.bytes_of(math.prod(output.shape[1:])) * job.first_row
        return output.name, first, dtype.bytes_of(math.prod(output.shape)), output.at
