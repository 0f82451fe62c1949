"""Whole outputs compared with the reference in the oracle's process: the request and its answer.

A workload's outputs have hundreds of millions of elements. They stay out of the judge's process:
a shared window brings their bytes to the oracle's, which draws the inputs itself, computes what
they give, and compares by the rules of judge.py. Parts of one output are added up here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from astra_tui.gpu.messages import Fill
from astra_tui.lab.check.judge import Allowance, absolute_slack, overflow_words
from astra_tui.model.check import OutputError
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Tolerance


class BulkInput(msgspec.Struct, frozen=True):
    """An input that is drawn where it is needed: set n has the generator's set n of `seed`."""

    name: str
    fill: Fill
    seed: int
    shape: tuple[int, ...]
    has_rows: bool
    """Whether its first dimension is that of the rows."""


class BulkOutput(msgspec.Struct, frozen=True):
    """An output of some sets and rows, as it lies in the window: a set after the other."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    """Of the part of one set that is there."""
    at: int
    """Where in the window the first set begins."""
    atol: float
    rtol: float
    allowed: float = 1.0
    """Errors above this fraction of the tolerance are counted as wrong."""


class BulkJob(msgspec.Struct, frozen=True):
    """Compares some rows of some sets. `arguments` are scalars and dimensions, rows as here."""

    window: int
    inputs: tuple[BulkInput, ...]
    outputs: tuple[BulkOutput, ...]
    arguments: dict[str, float | int]
    first_set: int
    sets: int
    first_row: int
    rows: int


class BulkPart(msgspec.Struct, frozen=True):
    """The result of one output of a job. Places are (set, flat index), counted within the job."""

    elements: int
    worst: float
    """The largest error of an element that is finite on both sides, as judge.py has it."""
    worst_at: tuple[int, int]
    got: float
    expected: float
    wrong: int
    mismatched: int
    """Elements whose NaN or infinity stands in the wrong place, the first of them below."""
    mismatch_at: tuple[int, int]
    mismatch_got: float
    mismatch_expected: float
    max_abs: float
    squared_errors: tuple[float, ...]
    """A sum for each set, as is the next."""
    squared: tuple[float, ...]


class BulkAnswer(msgspec.Struct, frozen=True):
    """One part an output; where the reference ran, and why not on the GPU."""

    parts: tuple[BulkPart, ...]
    where: str
    note: str = ""


class BulkOutputJudge:
    """Adds up the parts of one output of all sets and says what is wrong with it, if anything."""

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: tuple[int, ...],
        tolerance: Tolerance | None,
        baseline: Allowance | None = None,
    ):
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.tolerance = tolerance or Tolerance(0.0, 0.0, 0.0, "")
        self.baseline = baseline or Allowance()
        self.allowed = max(1.0, 2 * self.baseline.error)
        self._parts: list[tuple[BulkPart, int, int]] = []

    def add(self, part: BulkPart, first_set: int, first_element: int) -> None:
        """A part whose first element is the `first_element`-th of each set from `first_set` on."""
        self._parts.append((part, first_set, first_element))

    def result(self) -> OutputError:
        """The verdict on all parts; the relative L2 error is that of the worst set."""
        elements = sum(p.elements for p, _, _ in self._parts)
        if not elements:
            return OutputError(self.name, 0.0)
        for part, first_set, first in self._parts:
            if part.mismatched:
                return self._mismatch(part, first_set, first, elements)
        part, first_set, first = max(self._parts, key=lambda entry: entry[0].worst)
        wrong = sum(p.wrong for p, _, _ in self._parts)
        relative, slack = self._relative_l2()
        relative_allowed = max(self.tolerance.relative_l2, 2 * self.baseline.relative_l2)
        number, index = part.worst_at
        problem = ""
        if part.worst > self.allowed:
            problem = f"{wrong} of {elements} elements are off by more than is allowed"
        elif self.dtype.is_float and relative > relative_allowed + slack:
            problem = f"the relative L2 error {relative:.2e} is above {relative_allowed:.2e}"
        return OutputError(
            self.name,
            part.worst,
            allowed=self.allowed,
            max_abs=max(p.max_abs for p, _, _ in self._parts),
            relative_l2=relative,
            relative_l2_allowed=relative_allowed + slack,
            at=self._place(first_set + number, first + index),
            got=part.got,
            expected=part.expected,
            problem=problem,
        )

    def _mismatch(self, part: BulkPart, first_set: int, first: int, elements: int) -> OutputError:
        number, index = part.mismatch_at
        count = sum(p.mismatched for p, _, _ in self._parts)
        got, expected = part.mismatch_got, part.mismatch_expected
        word = overflow_words(self.dtype)
        if math.isnan(got):
            word = "NaN where the reference is a number"
        if math.isnan(expected):
            word = "a number where the reference is NaN"
        return OutputError(
            self.name,
            math.inf,
            at=self._place(first_set + number, first + index),
            got=got,
            expected=expected,
            problem=f"{word}, at {count} of {elements} elements",
        )

    def _relative_l2(self) -> tuple[float, float]:
        errors: dict[int, float] = {}
        squares: dict[int, float] = {}
        for part, first_set, _ in self._parts:
            _add(errors, part.squared_errors, first_set)
            _add(squares, part.squared, first_set)
        if not self.dtype.is_float:
            return 0.0, 0.0
        size = math.prod(self.shape)
        found = [
            (
                math.sqrt(errors[number] / square),
                absolute_slack(self.dtype, self.tolerance, size) / math.sqrt(square),
            )
            for number, square in squares.items()
            if square > 0
        ]
        return max(found, key=lambda pair: pair[0] - pair[1], default=(0.0, 0.0))

    def _place(self, number: int, index: int) -> tuple[int, ...]:
        """The set where there are several, and the index in the tensor's shape."""
        place = []
        for size in reversed(self.shape):
            place.append(index % size)
            index //= size
        several = any(f or len(p.squared) > 1 for p, f, _ in self._parts)
        return (*((number,) if several else ()), *reversed(place))


def _add(sums: dict[int, float], values: Iterable[float], first: int) -> None:
    for number, value in enumerate(values, first):
        sums[number] = sums.get(number, 0.0) + value
