"""What a model cites as evidence: sentences, the numbers in them, and lines of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from astra_tui.llm.asking.prompts import clipped
from astra_tui.model.citations import METRICS
from astra_tui.model.plan import Citation, CodePlace, Observation

MAX_NUMBERS = 4
"""That one sentence may cite."""
MAX_NAME = 100
"""Characters of the name of a metric, workload or kernel."""
MAX_SENTENCE = 600
"""Characters of one sentence or field."""


class LineRange(msgspec.Struct, frozen=True):
    """Lines of the source, counted from 1, both ends included."""

    first: Annotated[int, Meta(ge=1, le=100_000)]
    last: Annotated[int, Meta(ge=1, le=100_000)]


class CitedNumber(msgspec.Struct, frozen=True):
    """One number of the measurements."""

    metric: Annotated[str, Meta(description=f"a hardware counter, or one of {', '.join(METRICS)}")]
    value: Annotated[float, Meta(description="as it was measured")]
    of: Annotated[
        str, Meta(description="the workload or kernel; empty for all workloads together")
    ] = ""
    line: Annotated[int, Meta(ge=0, description="its source line; 0 for the whole source")] = 0


class CitedSentence(msgspec.Struct, frozen=True):
    """A sentence and the measured numbers in it, which are looked up in the measurements."""

    sentence: str
    numbers: Annotated[tuple[CitedNumber, ...], Meta(max_length=MAX_NUMBERS)] = ()


def cited(said: str | CitedSentence) -> str | Observation:
    """A sentence with the numbers that it cites, within bounds."""
    if isinstance(said, str):
        return one_line(said)
    cites = tuple(_citation(number) for number in said.numbers)
    return Observation(one_line(said.sentence), cites) if cites else one_line(said.sentence)


def _citation(number: CitedNumber) -> Citation:
    metric = clipped("_".join(number.metric.split()), MAX_NAME)
    of = clipped(" ".join(number.of.split()), MAX_NAME)
    lines = (CodePlace(number.line, number.line),) if number.line else ()
    return Citation(metric, number.value, of, lines)


def places_of(ranges: Sequence[LineRange], source: str) -> tuple[CodePlace, ...]:
    """The ranges that begin in the source, cut where it ends."""
    lines = source.count("\n") + 1
    ordered = (sorted((p.first, p.last)) for p in ranges)
    return tuple(CodePlace(first, min(last, lines)) for first, last in ordered if first <= lines)


def one_line(text: str) -> str:
    """A text on one line, of bounded length."""
    return clipped(" ".join(text.split()), MAX_SENTENCE)
