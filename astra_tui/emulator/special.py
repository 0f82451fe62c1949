"""Special registers such as %tid.x, as vectors over the threads of a chunk of blocks."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from astra_tui.model.device import PLAIN, Variation
from astra_tui.model.occupancy import H100_MULTIPROCESSORS, MULTIPROCESSORS, NO_CLUSTER, WARP

_U32 = np.uint32


def _axis(values: Any, sizes: tuple[int, int, int], axis: int) -> Any:
    below, above = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
    if below > 1:
        values = values // below
    return (values % sizes[axis] if above > 1 else values).astype(_U32)


def _of_clusters(c: Any, axis: int) -> Any:
    return _axis(c.block_index, c.grid, axis) // _U32(c.cluster[axis])


def _in_cluster(c: Any, axis: int) -> Any:
    return _axis(c.block_index, c.grid, axis) % _U32(c.cluster[axis])


_TICK = 64
_TODAY = 1_764_000_000_000_000_000
TIMERS = ("%clock", "%clock64", "%globaltimer")

_READ: dict[str, Any] = {
    **{f"%tid.{a}": lambda c, i=i: _axis(c.thread, c.block, i) for i, a in enumerate("xyz")},
    **{f"%ctaid.{a}": lambda c, i=i: _axis(c.block_index, c.grid, i) for i, a in enumerate("xyz")},
    **{f"%ntid.{a}": lambda c, i=i: _U32(c.block[i]) for i, a in enumerate("xyz")},
    **{f"%nctaid.{a}": lambda c, i=i: _U32(c.grid[i]) for i, a in enumerate("xyz")},
    **{f"%clusterid.{a}": lambda c, i=i: _of_clusters(c, i) for i, a in enumerate("xyz")},
    **{
        f"%nclusterid.{a}": lambda c, i=i: _U32(c.grid[i] // c.cluster[i])
        for i, a in enumerate("xyz")
    },
    **{f"%cluster_ctaid.{a}": lambda c, i=i: _in_cluster(c, i) for i, a in enumerate("xyz")},
    **{f"%cluster_nctaid.{a}": lambda c, i=i: _U32(c.cluster[i]) for i, a in enumerate("xyz")},
    "%cluster_ctarank": lambda c: cluster_of(c.block_index, c.grid, c.cluster)[1].astype(_U32),
    "%cluster_nctarank": lambda c: _U32(c.cluster[0] * c.cluster[1] * c.cluster[2]),
    "%is_explicit_cluster": lambda c: np.bool_(c.cluster != NO_CLUSTER),
    "%laneid": lambda c: c.lane.astype(_U32),
    "%warpid": lambda c: (c.thread // WARP).astype(_U32),
    "%nwarpid": lambda c: _U32(MULTIPROCESSORS["sm_90"].warps),
    "%smid": lambda c: (c.block_index % H100_MULTIPROCESSORS).astype(_U32),
    "%nsmid": lambda c: _U32(H100_MULTIPROCESSORS),
    "%gridid": lambda c: np.uint64(0),
    "%clock": lambda c: _U32(0),
    "%clock_hi": lambda c: _U32(0),
    "%clock64": lambda c: np.uint64(0),
    "%globaltimer": lambda c: np.uint64(0),
    "%lanemask_eq": lambda c: _U32(1) << c.lane.astype(_U32),
    "%lanemask_lt": lambda c: (_U32(1) << c.lane.astype(_U32)) - _U32(1),
    "%lanemask_le": lambda c: (_U32(2) << c.lane.astype(_U32)) - _U32(1),
    "%lanemask_gt": lambda c: ~((_U32(2) << c.lane.astype(_U32)) - _U32(1)),
    "%lanemask_ge": lambda c: ~((_U32(1) << c.lane.astype(_U32)) - _U32(1)),
    "%dynamic_smem_size": lambda c: _U32(c.dynamic_shared),
    "%total_smem_size": lambda c: _U32(c.shared_size),
}

_WIDE = ("%clock64", "%globaltimer", "%gridid")

_OTHERWISE: dict[str, Any] = {
    "%warpid": lambda c, s: ((c.thread // 32 + 5 * c.block_index + s) % 64).astype(_U32),
    "%smid": lambda c, s: ((c.block_index * (2 * (s % 50) + 5) + s) % 114).astype(_U32),
    "%nsmid": lambda c, s: _U32(114),
    "%gridid": lambda c, s: np.uint64(1 + s % 0xFF_FFFF),
    "%clock": lambda c, s: (s + 977 * c.block_index).astype(_U32),
    "%clock_hi": lambda c, s: _U32(1 + s % 4099),
    "%clock64": lambda c, s: (s * 4099 + 977 * c.block_index).astype(np.uint64),
    "%globaltimer": lambda c, s: (_TODAY + s * 4099 + 448 * c.block_index).astype(np.uint64),
}
"""Other values that the registers of a machine may have, by a seed: those of a GPU with 114
multiprocessors that has been running for a while."""

MACHINE_DEPENDENT = frozenset(_OTHERWISE)
"""The registers that say nothing of the launch, only of where and when it runs."""

DTYPES: dict[str, str] = {
    **{name: "u64" if name in _WIDE else "u32" for name in _READ},
    "%is_explicit_cluster": "pred",
}
"""The special registers that are emulated, with their PTX types. Timers advance when read."""


def indices(linear: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    """The x, y and z of a block or thread from its number."""
    x, y, _ = sizes
    return linear % x, linear // x % y, linear // (x * y)


def cluster_of(
    block: Any, grid: tuple[int, int, int], cluster: tuple[int, int, int]
) -> tuple[Any, Any]:
    """The cluster of blocks by their linear indices, and their rank in it."""
    x, y, z = block % grid[0], block // grid[0] % grid[1], block // (grid[0] * grid[1])
    cx, cy, cz = cluster
    wide, high = grid[0] // cx, grid[1] // cy
    number = x // cx + wide * (y // cy + high * (z // cz))
    return number, x % cx + cx * (y % cy + cy * (z % cz))


def blocks_of(
    number: Any, ranks: Any, grid: tuple[int, int, int], cluster: tuple[int, int, int]
) -> Any:
    """The linear indices of the blocks with some ranks, a row for each cluster."""
    cx, cy, _ = cluster
    wide, high = grid[0] // cx, grid[1] // cy
    number, ranks = number[:, None], ranks[None, :]
    x = number % wide * cx + ranks % cx
    y = number // wide % high * cy + ranks // cx % cy
    z = number // (wide * high) * cluster[2] + ranks // (cx * cy)
    return x + grid[0] * (y + grid[1] * z)


class Threads(Protocol):
    """Some threads of a launch: arrays of any shape that broadcast to one another."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    thread: Any
    block_index: Any
    lane: Any
    dynamic_shared: int
    shared_size: int


def value(name: str, chunk: Threads, variation: Variation = PLAIN) -> Any:
    """The value of a special register for every thread of a chunk."""
    if name not in variation.registers:
        return _READ[name](chunk)
    return _OTHERWISE[name](chunk, 1 + variation.seed % 0xFFFF_FFFF)


def advanced(timer: Any) -> Any:
    """What a timer shows when a thread reads it again: some cycles later, never twice the same."""
    dtype = timer.dtype.type
    return timer + dtype(_TICK) + (timer >> dtype(5)) % dtype(89)
