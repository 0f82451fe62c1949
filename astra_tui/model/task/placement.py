"""Where the tensors of a call lie: bases and row strides, within what a contract asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from astra_tui.model.device import BASE_ALIGNMENT
from astra_tui.model.launch.resolve import contiguous_strides
from astra_tui.model.launch.scope import Layout

_UNITS = tuple(1 << k for k in range(BASE_ALIGNMENT.bit_length()))


@dataclass(frozen=True, slots=True)
class Placement:
    """A tensor's shape, strides and how far its base is shifted, all in items of memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    shift: int = 0

    def layout(self, size: int) -> Layout:
        """What a launch plan sees of it; elements have `size` bytes."""
        return Layout(alignment_of(self.shift * size), self.strides)


def alignment_of(shift: int) -> int:
    """The largest power of two, up to BASE_ALIGNMENT, that divides an address shifted by bytes."""
    return BASE_ALIGNMENT if shift == 0 else min(shift & -shift, BASE_ALIGNMENT)


def placed(shape: tuple[int, ...], shift: int = 0, padding: int = 0) -> Placement:
    """A tensor whose rows are `padding` elements further apart than they are long."""
    strides = contiguous_strides(shape)
    if padding and len(shape) > 1:
        row = strides[-2] + padding
        outer = [s // max(strides[-2], 1) * row for s in strides[:-1]]
        strides = (*outer, 1)
    return Placement(shape, strides, shift)


def rounded(placement: Placement, unit: int, strided: bool) -> Placement:
    """The base, and the rows where they may lie apart, at the next multiples of `unit` elements."""
    shape, strides = placement.shape, placement.strides
    shift = -(-placement.shift // unit) * unit
    if not strided or len(shape) < 2:
        return Placement(shape, strides, shift)
    row = -(-strides[-2] // unit) * unit
    return placed(shape, shift, row - contiguous_strides(shape)[-2])


def attempts(
    placements: Mapping[str, Placement], bound: Mapping[str, bool]
) -> Iterator[Mapping[str, Placement]]:
    """Placements, the tensors of `bound` ever more aligned; its values say whose rows may move."""
    for unit in _UNITS if bound else _UNITS[:1]:
        yield {
            name: rounded(one, unit, bound[name]) if name in bound and unit > 1 else one
            for name, one in placements.items()
        }
