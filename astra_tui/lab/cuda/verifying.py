"""Compares outputs of the graphs that were timed with the reference, on a few sets and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.lab.check.judge import Allowance, judge_output
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.cuda.gpu_process import GpuProcess
from astra_tui.lab.cuda.messages import Outputs, Verify
from astra_tui.lab.cuda.workload import WorkloadBuffers
from astra_tui.model.check import OutputError
from astra_tui.model.timing import WRONG_OUTPUT, Doubt

VERIFIED_SETS = 3
VERIFIED_ROWS = 8
SECONDS = 60.0


@dataclass(frozen=True)
class Verifier:
    """The versions of one workload whose graphs are built over `sets` buffer sets.

    A graph is replayed once more on poisoned outputs. The judge draws the inputs of random rows of
    random sets itself, and has the reference compute what they give.
    """

    buffers: WorkloadBuffers
    process: GpuProcess
    oracle: Oracle
    random: np.random.Generator
    sets: int

    def doubts(self, versions: Sequence[int]) -> dict[int, tuple[Doubt, ...]]:
        """What is wrong with each version but the first, the base, whose own error widens bounds.

        All of these doubts void. Raises GpuFailure.
        """
        base, *candidates = versions
        count = min(VERIFIED_SETS, self.sets)
        numbers = self.random.choice(self.sets, count, replace=False).tolist()
        rows = self._some_rows()
        outputs = {v: self._outputs(v, numbers, rows) for v in versions}
        found: dict[int, tuple[Doubt, ...]] = dict.fromkeys(candidates, ())
        for number in numbers:
            case, inputs = self.buffers.inputs(number, rows)
            expected = self.oracle.compute(case, inputs).outputs
            of_base = self._judge(outputs[base][number], expected)
            base_wrong = tuple(_no_number(of_base, number))
            allowed = {e.argument: Allowance(_finite(e.error), e.relative_l2) for e in of_base}
            for version in candidates:
                judged = self._judge(outputs[version][number], expected, allowed)
                found[version] = (*found[version], *base_wrong, *_wrong(judged, number))
        return found

    def _some_rows(self) -> Any:
        rows = self.buffers.rows()
        if not rows:
            return np.zeros(0, np.int64)
        return np.sort(self.random.choice(rows, min(VERIFIED_ROWS, rows), replace=False))

    def _outputs(self, version: int, numbers: list[int], rows: Any) -> dict[int, dict[str, Any]]:
        ranges = [self.buffers.ranges(number, rows) for number in numbers]
        flat = tuple(r for of_set in ranges for r in of_set)
        pieces = self.process.ask(Verify(version, flat), Outputs, SECONDS).pieces
        found, at = {}, 0
        for number, of_set in zip(numbers, ranges, strict=True):
            found[number] = self.buffers.outputs(list(pieces[at : at + len(of_set)]), rows)
            at += len(of_set)
        return found

    def _judge(
        self,
        outputs: Mapping[str, Any],
        expected: Mapping[str, Any],
        allowed: Mapping[str, Allowance] | None = None,
    ) -> list[OutputError]:
        task, judged = self.buffers.task, []
        for argument in task.outputs:
            name, dtype = argument.name, task.dtype_of(argument, self.buffers.workload.dtype)
            parts = (name, outputs[name], expected[name], dtype, task.tolerances.get(dtype))
            judged.append(judge_output(*parts, allowed[name] if allowed else None))
        return judged


def _finite(error: float) -> float:
    return error if np.isfinite(error) else 0.0


def _no_number(judged: list[OutputError], number: int) -> Iterator[Doubt]:
    """Doubts about a base that did not work: its error must not become an allowance."""
    for error in judged:
        if not np.isfinite(error.error):
            text = f"a timed launch of the base was wrong (set {number}): {error.problem}"
            yield Doubt("wrong_base", text, voids=True)


def _wrong(judged: list[OutputError], number: int) -> Iterator[Doubt]:
    for error in judged:
        if not error.ok:
            text = f"a timed launch was wrong (set {number}): {error.problem}"
            yield Doubt(WRONG_OUTPUT, text, voids=True)
