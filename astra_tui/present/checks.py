"""Failures of a check: those of one cause together, and what is wrong with an output in words."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

from astra_tui.model.check import CaseResult, FullSizeResult, OutputError
from astra_tui.present.numbers import significant

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


def output_words(output: OutputError) -> str:
    """As in "out[3, 7] is 2, should be 1: not close (error 1e+03, allowed 1)"."""
    place = f"{output.argument}[{', '.join(map(str, output.at))}]"
    words = f"{place} is {output.got:g}, should be {output.expected:g}: {output.problem}"
    if math.isinf(output.error):  # There is no bound on what may not differ at all.
        return words
    return f"{words} (error {significant(output.error)}, allowed {significant(output.allowed)})"
