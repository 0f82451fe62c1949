"""Finds the dimensions of a call in the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from astra_tui.model.launch.expression import Binary, Expression, Integer, Name, names_in
from astra_tui.model.task.task import Argument, KernelTask


@dataclass(frozen=True)
class DimSource:
    """Where a dimension is read: `value` gives it from the size of one axis, named `size`."""

    dim: str
    tensor: str
    axis: int
    size: str
    value: Expression


def dim_sources(task: KernelTask, tensors: Iterable[Argument]) -> dict[str, DimSource]:
    """Where each dimension can be read in the shapes of some tensors, plain axes first.

    A dimension that no axis gives by itself is left out: the caller has to pass it.
    """
    axes = [
        (tensor, axis, size)
        for tensor in tensors
        for axis, size in enumerate(tensor.shape)
        if len(names_in(size)) == 1
    ]
    axes.sort(key=lambda a: not isinstance(a[2], Name))
    found: dict[str, DimSource] = {}
    for tensor, axis, size in axes:
        (dim,) = names_in(size)
        if dim not in task.dims or dim in found:
            continue
        given = f"{tensor.name}_size_{axis}"
        value = _inverse(size, Name(given))
        if value is not None:
            found[dim] = DimSource(dim, tensor.name, axis, given, value)
    return {name: found[name] for name in task.dims if name in found}


def _inverse(size: Expression, given: Expression) -> Expression | None:
    """The one name in `size` as an expression of its value; None where that is not simple.

    The shapes are computed again from the answer and compared, so that a remainder shows.
    """
    match size:
        case Name():
            return given
        case Binary(operator="*", left=Integer() as factor, right=rest) if factor.value:
            return _inverse(rest, Binary("//", given, factor))
        case Binary(operator="*", left=rest, right=Integer() as factor) if factor.value:
            return _inverse(rest, Binary("//", given, factor))
        case Binary(operator="+", left=Integer() as term, right=rest):
            return _inverse(rest, Binary("-", given, term))
        case Binary(operator="+", left=rest, right=Integer() as term):
            return _inverse(rest, Binary("-", given, term))
        case Binary(operator="-", left=rest, right=Integer() as term):
            return _inverse(rest, Binary("+", given, term))
        case _:
            return None
