"""Calls that were checked once: the same again is launched after a look at its addresses.

Whether a call lies within the contract and what it launches follows from a key: types, shapes,
strides and devices of its tensors, its numbers, and the remainders of its addresses by the largest
alignment that a plan can ask for. Whether tensors share memory does not, and is checked every time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch

from . import _gpu
from ._driver import Launch
from ._host import BASE_ALIGNMENT

_MOST = 4096
Kept = TypeVar("Kept")


class Pair(NamedTuple):
    """Two tensors, by their places in a call, that must not share memory; spans are in bytes."""

    one: int
    one_span: int
    other: int
    other_span: int


def sharing(pairs: Sequence[Pair], addresses: Sequence[int]) -> Pair | None:
    """The first pair that shares memory."""
    for pair in pairs:
        one, one_span, other, other_span = pair
        if -other_span < addresses[other] - addresses[one] < one_span:
            return pair
    return None


@dataclass(frozen=True)
class Ready:
    """A call that lacks only its addresses: those of its tensors in order, then of workspaces."""

    device: torch.device
    ordinal: int
    apart: tuple[Pair, ...]
    workspaces: tuple[int, ...]
    launches: tuple[Launch, ...]
    shapes: str = ""
    """Types and shapes of the inputs, under which the call is counted."""

    def launch(self, addresses: Sequence[int]) -> None:
        """Launches on the stream that is current on the device."""
        if _gpu.current_device() == self.ordinal:
            self._launch(addresses)
        else:
            with _gpu.on(self.ordinal):
                self._launch(addresses)

    def _launch(self, addresses: Sequence[int]) -> None:
        if self.workspaces:
            scratch = [
                torch.empty(size, dtype=torch.uint8, device=self.device) for size in self.workspaces
            ]
            addresses = [*addresses, *(t.data_ptr() for t in scratch)]
        stream = _gpu.current_stream(self.ordinal)
        for launch in self.launches:
            launch(addresses, stream)


def key_of(tensors: Sequence[torch.Tensor], numbers: Sequence[float]) -> tuple[Hashable, list[int]]:
    """The key of a call, and the addresses of its tensors."""
    places, addresses = [], []
    try:
        for tensor in tensors:
            address = tensor.data_ptr()
            addresses.append(address)
            alignment = address % BASE_ALIGNMENT
            places.append((tensor.dtype, tensor.shape, tensor.stride(), tensor.device, alignment))
    except RuntimeError:  # Without an address or strides, such as a sparse tensor.
        return object(), []
    # -0.0 equals 0.0, but is another number.
    return (*places, *[n or str(n) for n in numbers]), addresses


class Table(Generic[Kept]):
    """Values by their keys; the oldest go where they become too many."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self.find = self._kept.get
        self.clear = self._kept.clear

    def keep(self, key: Hashable, value: Kept) -> None:
        """Adds a value."""
        self._kept[key] = value
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)
