"""The numbers that a kernel takes by value and that are no sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from astra_tui.cuda_source.functions import Variable
from astra_tui.cuda_source.syntax import text_of, without_wrapping
from astra_tui.drafting.answers import Ask
from astra_tui.drafting.elements import ElementTypes
from astra_tui.drafting.expressions import free_name
from astra_tui.drafting.host_launches import HostLaunch, local_values
from astra_tui.drafting.reading import KernelFunction, SourceText
from astra_tui.drafting.task_file import ScalarDraft
from astra_tui.drafting.types import dtype_of, is_size_type
from astra_tui.model.dtypes import DType

_EPSILON = re.compile(r"(?i)eps(ilon)?")
_LITERAL = re.compile(r"(-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFlL]?")


def read_scalars(
    source: SourceText,
    kernel: KernelFunction,
    launch: HostLaunch | None,
    elements: ElementTypes,
    ask: Ask,
) -> Iterator[ScalarDraft]:
    """The scalars of a kernel; a parameter that no launch plan can pass becomes a point."""
    given = launch.arguments if launch is not None else ()
    values = local_values(launch) if launch is not None else {}
    for place, parameter in enumerate(kernel.parameters):
        if parameter.is_pointer or is_size_type(parameter, source.aliases):
            continue
        dtype = _dtype(parameter, elements)
        if dtype is None:
            shown = parameter.type + "*" * parameter.pointers
            ask(f"{parameter.name} is a {shown}, which a draft cannot read: pass it in the plan")
            continue
        node = without_wrapping(given[place]) if place < len(given) else None
        text = text_of(values.get(text_of(node), node)) or parameter.default
        choices = _choices(parameter, dtype, text)
        name = free_name(parameter.name)
        yield ScalarDraft(name, dtype, choices)


def _dtype(parameter: Variable, elements: ElementTypes) -> DType | None:
    if parameter.pointers:
        return None
    if parameter.type in elements.generic:
        return DType.FLOAT32  # The kernel's own type decides how it is passed.
    return elements.fixed.get(parameter.type) or dtype_of(parameter.type, dict(elements.aliases))


def _choices(parameter: Variable, dtype: DType, text: str) -> tuple[float, ...]:
    """The value that the source passes, else common ones."""
    if dtype is DType.BOOL:
        return (0, 1)
    literal = _LITERAL.fullmatch(text)
    if literal:
        return (float(literal[1]),)
    if _EPSILON.search(parameter.name):
        return (1e-6, 1e-5)
    return (1.0, 0.5) if dtype.is_float else (1, 2)
