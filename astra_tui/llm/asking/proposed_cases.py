"""Cases that a model proposes, held to the task's contract before anything runs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from astra_tui.model.added_cases import LARGEST_SIZE, check_added_case
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, ValueKind, Values


class SizeOf(msgspec.Struct, frozen=True):
    """One dimension's size."""

    name: str
    size: Annotated[int, Meta(ge=0, le=LARGEST_SIZE)]


class ValuesOf(msgspec.Struct, frozen=True):
    """How the elements of one input are drawn."""

    argument: str
    kind: ValueKind
    low: float
    high: float
    planted: Annotated[
        tuple[str, ...], Meta(max_length=5, description='of "nan", "inf", "-inf", "-0", "limit"')
    ]


class ProposedCase(msgspec.Struct, frozen=True):
    """A case that could break the candidate."""

    name: Annotated[str, Meta(description="a few words")]
    why: Annotated[str, Meta(description="what in the code it aims at, in one sentence")]
    dtype: Annotated[str, Meta(description="an element type of the task")]
    dims: Annotated[tuple[SizeOf, ...], Meta(max_length=16, description="every dimension once")]
    values: Annotated[
        tuple[ValuesOf, ...],
        Meta(max_length=16, description="inputs that are not drawn as the task says"),
    ]


class InvalidCase(ValueError):
    """A proposed case that cannot be run or lies outside the contract; the message says why."""


def case_of(proposed: ProposedCase, task: KernelTask, round_: int) -> Case:
    """The case that was meant. Raises InvalidCase."""
    name = " ".join(proposed.name.split())[:60]
    if not name:
        raise InvalidCase("it has no name")
    case = Case(
        # Its round makes the name one that no case of the floor suite has.
        name=f"round {round_}: {name}",
        why=" ".join(proposed.why.split())[:300],
        dtype=_dtype(proposed, task),
        dims=_dims(proposed, task),
        values=_values(proposed),
    )
    try:
        check_added_case(case, task)
    except UserError as error:
        raise InvalidCase(error.message) from None
    return case


def _dtype(proposed: ProposedCase, task: KernelTask) -> DType:
    for dtype in task.dtypes:
        if dtype.value == proposed.dtype:
            return dtype
    raise InvalidCase(f"'{proposed.dtype}' is no element type of the task")


def _dims(proposed: ProposedCase, task: KernelTask) -> dict[str, int]:
    dims = {d.name: d.size for d in proposed.dims}
    if len(dims) < len(proposed.dims):
        raise InvalidCase("a dimension has two sizes")
    # In the order of the task; what does not belong there is reported by what checks the case.
    known = {name: dims.pop(name) for name in task.dims if name in dims}
    return {**known, **dims}


def _values(proposed: ProposedCase) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for wanted in proposed.values:
        if wanted.argument in found:
            raise InvalidCase(f"'{wanted.argument}' is drawn twice")
        found[wanted.argument] = Values(wanted.kind, wanted.low, wanted.high, wanted.planted)
    return found
