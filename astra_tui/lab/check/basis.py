"""What checks of all sources of a task rest on: its cases, its baseline, what the oracle judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.beyond import far_cases, many_on_paths, many_rows, wide_cases
from astra_tui.lab.check.combinations import random_of
from astra_tui.lab.check.emulator_check import EmulatorCheck
from astra_tui.lab.check.execution import Run, Source, read_source, resolve_case, run_case
from astra_tui.lab.check.fakes import prove_suite
from astra_tui.lab.check.inputs import DrawnInputs, Inputs
from astra_tui.lab.check.judge import Allowance, judge_output
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.own_size import WrittenElements
from astra_tui.lab.check.paths import SourceCases, source_cases, what_decides
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case, FakeResult, OutputError
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import PLAIN, Device, Variation
from astra_tui.model.launch import Refused, print_expression
from astra_tui.model.task import KernelTask

ROUNDING_L2 = 1e-2
"""Relative L2 error that rounding alone can cause in a baseline, where few elements cancel."""

MAX_JUDGED_ELEMENTS = 1 << 22
"""Elements of the largest tensor up to which a case beyond the suite runs on a GPU."""


class Basis:
    """One task on one device, with one compiler and one oracle.

    `seed` decides the cases that are drawn; they are the same for all sources.
    """

    def __init__(
        self,
        task: KernelTask,
        device: Device,
        compiler: Compiler,
        oracle: Oracle,
        seed: int = 0,
        emulator_check: EmulatorCheck | None = None,
    ):
        self.task = task
        self.device = device
        self.compiler = compiler
        self.oracle = oracle
        self.seed = seed
        self.inputs = DrawnInputs(task)
        self.emulator_check = emulator_check
        """What checks every source on the emulator as well, where the device is a GPU."""
        self._baseline: tuple[Source, Compilation] | None = None
        self._allowances: dict[tuple[str, str, Variation], Allowance] = {}
        self._baseline_wrong: dict[tuple[str, str], str] = {}
        """By case and output, what is wrong with the baseline's."""
        self._of_source: tuple[object, SourceCases] | None = None
        self._beyond: tuple[object, tuple[tuple[Case, bool], ...]] | None = None
        self._proof: tuple[tuple[Case, ...], tuple[FakeResult, ...]] | None = None

    def cases_of(self, source: Source, suite: tuple[Case, ...]) -> SourceCases:
        """The cases that a source adds to a suite."""
        key = what_decides(source), suite
        if self._of_source is None or self._of_source[0] != key:
            attributes = self.device.attributes
            self._of_source = key, source_cases(self.task, source, suite, attributes, self.seed)
        return self._of_source[1]

    def beyond(self, source: Source, suite: tuple[Case, ...]) -> tuple[tuple[Case, bool], ...]:
        """Cases beyond workloads and small cases, and whether each is too large for a case: many
        rows on all kinds of inputs, and far sizes. What is too large is looked at in part on the
        emulator; on a GPU it runs like a workload, and wide rows do as well.
        """
        key = source.text, suite
        if self._beyond is None or self._beyond[0] != key:
            parts = self.task, source, self.device.attributes, self.seed
            small = self.cases_of(source, suite).of_paths
            if isinstance(self.device, Emulator):
                many = ((case, False) for case in many_rows(*parts))
                found = (*many, *far_cases(*parts, small))
            else:
                found = tuple(self._beyond_on_gpu(source, small))
            self._beyond = key, found
        return self._beyond[1]

    def _beyond_on_gpu(
        self, source: Source, small: tuple[Case, ...]
    ) -> Iterator[tuple[Case, bool]]:
        parts = self.task, source, self.device.attributes, self.seed
        far, on_paths = far_cases(*parts), many_on_paths(*parts, small)
        judged = (*many_rows(*parts, every_value=True), *(c for c, large in far if not large))
        yield from ((case, False) for case in (*judged, *on_paths) if self._is_judged(case))
        # At its own size a tensor begins where memory does. One of them takes 0.6 to 0.8 s.
        whole = [case for case, large in far if large and not case.offsets]
        drawn = random_of(self.seed, self.task, source.text).sample(whole, bool(whole))
        contiguous = (c for c in on_paths if not (c.offsets or c.row_padding or self._is_judged(c)))
        yield from ((case, True) for case in (*wide_cases(*parts), *drawn, *contiguous))

    def _is_judged(self, case: Case) -> bool:
        """Whether the reference computes a whole case that runs on a GPU."""
        return self.task.elements(case.dims, case.dtype) <= MAX_JUDGED_ELEMENTS

    def prove(self, suite: tuple[Case, ...]) -> Iterator[FakeResult]:
        """The result of the fakes on a suite; computed once, since no candidate takes part."""
        if self._proof is None or self._proof[0] != suite:
            found = []
            for fake in prove_suite(self.task, suite, self.oracle, self.inputs):
                found.append(fake)
                yield fake
            self._proof = suite, tuple(found)
        else:
            yield from self._proof[1]

    def allowance(
        self, case: Case, inputs: Inputs, output: str, variation: Variation = PLAIN
    ) -> Allowance:
        """The baseline's own error for one output of a case, as a fraction of the tolerance."""
        key = (case.id, output, variation)
        if key not in self._allowances:
            for judged in self._baseline_errors(case, inputs, variation):
                # What is wrong itself gives no measure for others, nor for itself.
                if judged.ok or _only_rounds(judged):
                    allowance = Allowance(judged.error, judged.relative_l2)
                    self._allowances[(case.id, judged.argument, variation)] = allowance
                elif variation == PLAIN:
                    self._baseline_wrong[(case.id, judged.argument)] = judged.problem
            self._allowances.setdefault(key, Allowance())
        return self._allowances[key]

    def fault_of_task(self, case: Case, inputs: Inputs, outputs: Iterable[str]) -> str:
        """Why a case says nothing about a source whose outputs are wrong there.

        That is so where the task's own baseline is wrong in each of them as well; "" elsewhere.
        """
        for output in outputs:
            self.allowance(case, inputs, output)
            if (case.id, output) not in self._baseline_wrong:
                return ""
            problem = f"{output}: {self._baseline_wrong[(case.id, output)]}"
        return (
            f"the task's own baseline fails this case as well ({problem}): "
            "the task's limit or tolerance is not fair here"
        )

    def _baseline_errors(
        self, case: Case, inputs: Inputs, variation: Variation
    ) -> list[OutputError]:
        source, compilation = self.baseline_source()
        resolved = resolve_case(self.task, source, case, inputs.scalars, self.device.attributes)
        if isinstance(resolved, Refused) or not compilation.ok:
            return []
        kernels = tuple(launch.kernel for launch in resolved.launches)
        if not {k.expression for k in compilation.kernels}.issuperset(kernels):
            compilation = self.compiler.compile(source.text, kernels)
        run = run_case(
            self.task, source, compilation, resolved, case, inputs, self.device,
            checked=False, counted=False, variation=variation,
        )  # fmt: skip
        return [] if run.outcome.faults else self.judge(case, inputs, run, None)

    def baseline_source(self) -> tuple[Source, Compilation]:
        if self._baseline is None:
            file = self.task.baseline_file
            source = read_source(self.task, file.read_text(encoding="utf-8"), str(file))
            cases = (*build_suite(self.task, self.seed), *workload_cases(self.task))
            expressions = kernels_to_compile(self.task, source, cases, self.device.attributes)
            self._baseline = source, self.compiler.compile(source.text, expressions)
        return self._baseline

    def judge(
        self, case: Case, inputs: Inputs, run: Run, allowance: Callable[[str], Allowance] | None
    ) -> list[OutputError]:
        """Compares a run's outputs with the reference."""
        expected = self.oracle.expected(case, inputs)
        judged = []
        for argument in self.task.outputs:
            dtype = self.task.dtype_of(argument, case.dtype)
            parts = (
                argument.name,
                run.outputs[argument.name],
                expected.outputs[argument.name],
                dtype,
                self.task.tolerances.get(dtype),
            )
            told: dict[str, Any] = {
                "sizes": tuple(map(print_expression, argument.shape)),
                "nearest": expected.nearest(argument.name, dtype),
            }
            result = judge_output(*parts, **told)
            if not result.ok and allowance is not None and np.isfinite(result.error):
                result = judge_output(*parts, allowance(argument.name), **told)
            judged.append(result)
        return judged

    def judge_rows(
        self, case: Case, inputs: Callable[[], Inputs], written: Mapping[str, WrittenElements]
    ) -> list[OutputError]:
        """Compares what was written of some rows with the reference for these rows."""
        expected = self.oracle.known(case) or self.oracle.expected(case, inputs())
        judged = []
        for name, part in written.items():
            items = np.flatnonzero(part.where)
            dtype = self.task.dtype_of(self.task.args[name], case.dtype)
            bits = part.bits.reshape(-1)[items]
            places = (items[:, None] * dtype.per_item + np.arange(dtype.per_item)).reshape(-1)
            reference = expected.outputs[name].reshape(-1)[places]
            parts = (name, bits, reference, dtype, self.task.tolerances.get(dtype))
            result = judge_output(*parts)
            if not result.ok and np.isfinite(result.error):
                result = judge_output(*parts, self.allowance(case, inputs(), name))
            if result.at:
                at = np.unravel_index(places[result.at[0]], expected.outputs[name].shape)
                result = msgspec.structs.replace(result, at=tuple(int(i) for i in at))
            judged.append(result)
        return judged

    def problem_of(self, case: Case, inputs: Inputs, run: Run) -> str:
        """What is wrong with the outputs of a counted workload; nothing where they are right."""
        # A case of the suite has the same name, and other sizes.
        counted = msgspec.structs.replace(case, name=f"counted {case.name}")
        judged = self.judge(case, inputs, run, lambda name: self.allowance(counted, inputs, name))
        return next((f"{o.argument}: {o.problem}" for o in judged if not o.ok), "")


def _only_rounds(judged: OutputError) -> bool:
    """Whether a baseline misses the relative L2 error alone, by no more than rounding can."""
    return judged.error <= judged.allowed and judged.relative_l2 <= ROUNDING_L2
