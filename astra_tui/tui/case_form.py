"""A case by hand, as the fields of a form and back again. The engine checks it against the task."""

from __future__ import annotations

from collections.abc import Mapping

from astra_tui.model.check import Case
from astra_tui.model.dtypes import FLOATS, DType
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.values import ValueKind, Values
from astra_tui.tui.screens.form import Field
from astra_tui.tui.text.numbers import whole_number
from astra_tui.tui.view import View


def case_fields(view: View) -> tuple[Field, ...]:
    """The fields, filled in from a case that the candidate has been checked with."""
    cases = _known_cases(view)
    dtypes = tuple(dict.fromkeys(case.dtype for case in cases)) or tuple(FLOATS.values())
    sizes = ", ".join(f"{name} = {size}" for name, size in _known_dims(cases).items())
    return (
        Field("case_name", "name", ""),
        Field("why", "why", ""),
        Field("dtype", "type", dtypes[0].value, tuple(d.value for d in dtypes)),
        Field("dims", "sizes", sizes),
        Field("values", "inputs", "", long=True),
    )


def case_note(view: View) -> str:
    """How sizes and inputs are written, with the names of the task's sizes."""
    dims = _known_dims(_known_cases(view))
    sizes = ", ".join(f"{name} = {size}" for name, size in dims.items())
    written = f"sizes: {sizes}" if sizes else "sizes, for example: tokens = 16, d = 513"
    return f"{written}; inputs, one a line: NAME: uniform -1 1 nan"


def _known_cases(view: View) -> list[Case]:
    """Cases of the chosen candidate, else of another one that was checked."""
    others = view.state.candidates.values()
    known = (c.results for c in (view.candidate, *others) if c is not None)
    return [result.case for result in next(filter(None, known), ())]


def _known_dims(cases: list[Case]) -> Mapping[str, int]:
    return cases[0].dims if cases else {}


def case_of(values: Mapping[str, str]) -> Case:
    """The case of the fields. Raises UserError that says how a field is written."""
    name = values["case_name"].strip()
    if not name or not name.isprintable():
        raise UserError("the case needs a name")
    return Case(
        name=name,
        why=values["why"].strip() or "added by hand",
        dtype=DType(values["dtype"]),
        dims=_dims(values["dims"]),
        values=dict(_input(line) for line in values["values"].split("\n") if line.strip()),
    )


def _dims(text: str) -> dict[str, int]:
    dims: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, size = (p.strip() for p in part.partition("="))
        number = whole_number(size)
        if not name.isidentifier() or number is None:
            raise UserError(f"sizes: '{part}'", hint="for example: tokens = 16, d = 513")
        dims[name] = number
    return dims


def _input(line: str) -> tuple[str, Values]:
    """As in "input: uniform -1 1 nan": argument, distribution, its numbers, what is planted."""
    name, _, rest = line.partition(":")
    words = rest.split()
    example = "for example: input: uniform -1 1, or input: normal 0 1 nan inf"
    if not words:
        raise UserError(f"inputs: '{line.strip()}'", hint=example)
    kinds = [kind.value for kind in ValueKind]
    if words[0] not in kinds:
        raise UserError(f"inputs: '{words[0]}' is no distribution", hint=nearest(words[0], kinds))
    try:
        low = float(words[1]) if len(words) > 1 else 0.0
        high = float(words[2]) if len(words) > 2 else 1.0
    except ValueError:
        raise UserError(f"inputs: '{line.strip()}'", hint=example) from None
    return name.strip(), Values(ValueKind(words[0]), low, high, tuple(words[3:]))
