"""Special registers such as %tid.x, as vectors over the threads of a chunk of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from astra_tui.lab.emulator.lanes import Chunk

_U32 = np.uint32


def _axis(values: Any, sizes: tuple[int, int, int], axis: int) -> Any:
    below = int(np.prod(sizes[:axis], dtype=np.int64))
    return (values // below % sizes[axis]).astype(_U32)


_READ: dict[str, Any] = {
    **{f"%tid.{a}": lambda c, i=i: _axis(c.thread, c.block, i) for i, a in enumerate("xyz")},
    **{f"%ctaid.{a}": lambda c, i=i: _axis(c.block_index, c.grid, i) for i, a in enumerate("xyz")},
    **{f"%ntid.{a}": lambda c, i=i: _U32(c.block[i]) for i, a in enumerate("xyz")},
    **{f"%nctaid.{a}": lambda c, i=i: _U32(c.grid[i]) for i, a in enumerate("xyz")},
    "%laneid": lambda c: c.lane.astype(_U32),
    "%warpid": lambda c: (c.thread // 32).astype(_U32),
    "%nwarpid": lambda c: _U32(64),
    "%smid": lambda c: (c.block_index % 132).astype(_U32),
    "%nsmid": lambda c: _U32(132),
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

DTYPES: dict[str, str] = {name: "u64" if name in _WIDE else "u32" for name in _READ}
"""The special registers that are emulated, with their PTX types. Clocks stand still at zero."""


def value(name: str, chunk: Chunk) -> Any:
    """The value of a special register for every thread of a chunk."""
    return _READ[name](chunk)
