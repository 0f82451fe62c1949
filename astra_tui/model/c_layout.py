"""Where C lays the members of a structure, and a kernel its parameters: natural alignment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Extent:
    """Size and alignment of a type, in bytes."""

    size: int
    alignment: int


@dataclass(frozen=True, slots=True)
class Placed:
    """Members at their offsets; `end` is where the last one ends, before padding."""

    offsets: tuple[int, ...]
    end: int
    alignment: int

    @property
    def extent(self) -> Extent:
        """The structure of these members; one without members has a byte, as in C++."""
        return Extent(max(rounded_up(self.end, self.alignment), 1), self.alignment)


def place(members: Iterable[Extent], alignment: int = 1) -> Placed:
    """Members in order, each at the next multiple of its alignment.

    `alignment` is what the structure asks for beyond its members, as `alignas` does.
    """
    offsets: list[int] = []
    end = 0
    for member in members:
        offset = rounded_up(end, member.alignment)
        offsets.append(offset)
        end = offset + member.size
        alignment = max(alignment, member.alignment)
    return Placed(tuple(offsets), end, alignment)


def rounded_up(offset: int, alignment: int) -> int:
    """The next multiple of an alignment."""
    return -(-offset // alignment) * alignment
