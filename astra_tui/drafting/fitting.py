"""Sizes that keep a draft's contract: those that are tried, and those of a workload."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from astra_tui.drafting.expressions import plan_expression
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import PlanError
from astra_tui.model.launch.evaluate import Evaluator
from astra_tui.model.launch.expression import (
    Binary,
    Compare,
    Expression,
    Integer,
    names_in,
)
from astra_tui.model.launch.scope import Bindings

_STEPS = 40
_LARGEST = 1 << 20
_USUAL = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    12,
    16,
    24,
    32,
    48,
    64,
    96,
    128,
    192,
    256,
    384,
    512,
    1024,
    2048,
    4096,
)


@dataclass(frozen=True)
class Contract:
    """Conditions on dimensions, with the values that some dimensions are limited to.

    Conditions on addresses are left to the task: no size breaks them. Strides are written as those
    of rows without gaps.
    """

    conditions: tuple[Expression, ...]
    fixed: Mapping[str, tuple[int, ...]]
    dtypes: tuple[DType, ...]

    @staticmethod
    def of(
        texts: Sequence[str],
        dims: Sequence[str],
        fixed: Mapping[str, tuple[int, ...]],
        dtypes: tuple[DType, ...],
    ) -> Contract:
        """The contract of conditions in the plan's language over these dimensions."""
        found = (plan_expression(text) for text in texts)
        known = {*dims, "T", *(d.value for d in DType)}
        over = tuple(c for c in found if c is not None and names_in(c) <= known)
        return Contract(over, fixed, dtypes)

    def broken(self, dims: Mapping[str, int]) -> list[Expression]:
        """The conditions that sizes break, for one of the element types."""
        evaluators = [Evaluator(Bindings(dtype, dims, {})) for dtype in self.dtypes]
        return [c for c in self.conditions if not all(_holds(c, e) for e in evaluators)]

    def fitted(self, wished: Mapping[str, int]) -> dict[str, int]:
        """Sizes that keep the contract, near to those that are wished for.

        Where none are found, those that break least.
        """
        dims = dict(wished)
        tried = [dims]
        for _ in range(_STEPS):
            broken = self.broken(dims)
            if not broken:
                return dims
            changed = [c for c in self._changes(dims, broken[0]) if c not in tried]
            if not changed:
                break
            dims = min(changed, key=lambda c: (len(self.broken(c)), _distance(c, wished)))
            tried.append(dims)
        return min(tried, key=lambda c: len(self.broken(c)))

    def _changes(self, dims: Mapping[str, int], condition: Expression) -> Iterator[dict[str, int]]:
        """Sizes with another value for one of those that a condition is about."""
        names = names_in(condition) & dims.keys()
        numbers = {*self._numbers(condition, dims), *(dims[name] for name in names)} - {0}
        asked = {n // m for n in numbers for m in numbers} | {
            n * f + 1 for n in numbers for f in (0, 1)
        }
        asked |= {f * n for n in numbers for f in (1, 2)}
        for name in sorted(names):
            near = {-(-dims[name] // n) * n for n in numbers if n > 0}
            for value in self.fixed.get(name) or sorted({*_USUAL, *asked, *near}):
                if value != dims[name] and 0 <= value <= _LARGEST:
                    yield {**dims, name: value}

    def _numbers(self, expression: Expression, dims: Mapping[str, int]) -> Iterator[int]:
        """The numbers in a condition, and the values of its sides."""
        match expression:
            case Integer(value=value):
                yield value
            case Compare(first=a, links=links):
                for side in (a, *(b for _, b in links)):
                    yield from self._numbers(side, dims)
                    yield from self._values(side, dims)
            case Binary(left=a, right=b):
                yield from self._numbers(a, dims)
                yield from self._numbers(b, dims)

    def _values(self, expression: Expression, dims: Mapping[str, int]) -> Iterator[int]:
        for dtype in self.dtypes:
            with suppress(PlanError, AssertionError):
                yield Evaluator(Bindings(dtype, dims, {})).integer(expression)


def _holds(condition: Expression, evaluator: Evaluator) -> bool:
    try:
        return evaluator.truth(condition)
    except (PlanError, AssertionError):
        return False


def _distance(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    return sum(abs(math.log2(max(size, 0.5) / max(b[name], 0.5))) for name, size in a.items())
