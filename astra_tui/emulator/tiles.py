"""Threads of a grid at one instruction, kept together: some blocks by some threads of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.emulator.registers import HomeRegisters

_MAX_TILES = 8
"""Tiles at one instruction; more of them are put together as single threads."""


@dataclass
class Sample:
    """A thread that took a side, and where it stored next, if it did."""

    block: int
    thread: int
    buffer: str = ""
    offset: int = -1


class Tile:
    """Threads at one instruction: rows of blocks by columns of threads.

    `block` is a column (R, 1). `thread` is a row (1, C), or a column of R where the tile is flat:
    one thread in each row. Registers are scalars, or arrays that broadcast to (R, C).
    """

    def __init__(self, block: Any, thread: Any, registers: HomeRegisters, until: int = -1):
        self.block, self.thread, self.registers = block, thread, registers
        self.until = until
        """The instruction at which the tile ends, for copies that follow another side."""
        self.shape = (len(block), thread.shape[1])
        self.n = self.shape[0] * self.shape[1]

    @property
    def flat(self) -> bool:
        return len(self.thread) == self.shape[0] and self.shape[1] == 1

    def blocks(self) -> Any:
        """The block of each thread, row by row."""
        return np.broadcast_to(self.block, self.shape).reshape(-1)

    def spread(self, value: Any) -> Any:
        """A value for each thread, row by row."""
        return np.broadcast_to(value, self.shape).reshape(-1)

    def place(self, position: int) -> tuple[int, int]:
        """Block and thread at a position, counted row by row."""
        row, column = divmod(position, self.shape[1])
        return int(self.block[row, 0]), int(self.thread[row if self.flat else 0, column])

    def position(self, sample: Sample) -> int | None:
        """Where a thread is, counted row by row; None where it is not in the tile."""
        at = np.flatnonzero((self.block == sample.block) & (self.thread == sample.thread))
        return int(at[0]) if len(at) else None

    def rows(self, which: Any) -> Tile:
        """The tile with some of its rows."""
        thread = self.thread[which] if self.flat else self.thread
        registers = self._changed(lambda v: v[which] if v.ndim and len(v) > 1 else v)
        return Tile(self.block[which], thread, registers, self.until)

    def columns(self, which: Any) -> Tile:
        """The tile with some of its columns."""
        registers = self._changed(lambda v: v[:, which] if v.ndim and v.shape[1] > 1 else v)
        return Tile(self.block, self.thread[:, which], registers, self.until)

    def flattened(self, which: Any) -> Tile:
        """Some threads, by position, as rows of their own."""
        registers = self._changed(lambda v: self.spread(v)[which][:, None] if v.ndim else v)
        thread = self.spread(self.thread)[which][:, None]
        return Tile(self.blocks()[which][:, None], thread, registers, self.until)

    def copy(self, until: int) -> Tile:
        """The same threads, up to an instruction."""
        return Tile(self.block, self.thread, self._changed(lambda v: v), until)

    def keep(self, live: frozenset[int]) -> None:
        """Forgets the registers that nothing reads any more."""
        for slot in self.registers.keys() - live:
            del self.registers[slot]

    def _changed(self, change: Callable[[Any], Any]) -> HomeRegisters:
        changed = HomeRegisters(0, self.registers.dtypes)
        changed.update((slot, change(value)) for slot, value in self.registers.items())
        return changed

    def split(self, mask: Any) -> tuple[list[Tile], list[Tile]]:
        """The threads where a mask holds, and the others."""
        if mask.shape[0] == 1:
            return [self.columns(np.flatnonzero(mask))], [self.columns(np.flatnonzero(~mask))]
        if mask.shape[1] == 1:
            return [self.rows(np.flatnonzero(mask))], [self.rows(np.flatnonzero(~mask))]
        if (mask == mask[0]).all():
            return self.split(mask[:1])
        count = mask.sum(axis=1)
        yes, no = np.flatnonzero(count == mask.shape[1]), np.flatnonzero(count == 0)
        mixed = np.flatnonzero((count > 0) & (count < mask.shape[1]))
        rest, of_rest = self.rows(mixed), mask[mixed].reshape(-1)
        taken = [self.rows(yes), rest.flattened(np.flatnonzero(of_rest))]
        others = [self.rows(no), rest.flattened(np.flatnonzero(~of_rest))]
        return [t for t in taken if t.n], [t for t in others if t.n]


def joined(tiles: list[Tile], live: frozenset[int]) -> list[Tile]:
    """The same threads in fewer tiles, with the registers that matter from here on."""
    for tile in tiles:
        tile.keep(live)
    joined: list[Tile] = []
    for tile in tiles:
        for number, other in enumerate(joined):
            axis = _axis(other, tile)
            if axis is not None:
                joined[number] = _concatenated([other, tile], axis)
                break
        else:
            joined.append(tile)
    if len(joined) > _MAX_TILES:
        flat = [t if t.flat else t.flattened(slice(None)) for t in joined]
        ends = dict.fromkeys(t.until for t in flat)
        return [_concatenated([t for t in flat if t.until == end], 0) for end in ends]
    return joined


def _axis(a: Tile, b: Tile) -> int | None:
    """The axis along which two tiles continue each other."""
    if a.until != b.until:
        return None
    if a.flat and b.flat:
        return 0
    if a.flat or b.flat:
        return None
    if a.block is b.block or np.array_equal(a.block, b.block):
        return 1
    if a.thread is b.thread or np.array_equal(a.thread, b.thread):
        return 0
    return None


def _concatenated(tiles: list[Tile], axis: int) -> Tile:
    registers = HomeRegisters(0, tiles[0].registers.dtypes)
    slots = dict.fromkeys(s for t in tiles for s in t.registers)
    for slot in slots:
        values = [t.registers[slot] for t in tiles]
        first = values[0]
        if all(v is first for v in values) and (not first.ndim or first.shape[axis] == 1):
            registers[slot] = first
            continue
        across = 1 - axis
        parts = []
        width = max((v.shape[across] if v.ndim else 1) for v in values)
        for tile, value in zip(tiles, values, strict=True):
            shape = [0, 0]
            shape[axis], shape[across] = tile.shape[axis], width
            parts.append(np.broadcast_to(value, tuple(shape)))
        registers[slot] = np.concatenate([p.view(parts[0].dtype) for p in parts], axis)
    until = tiles[0].until
    if axis == 1:
        thread = np.concatenate([t.thread for t in tiles], 1)
        return Tile(tiles[0].block, thread, registers, until)
    thread = np.concatenate([t.thread for t in tiles], 0) if tiles[0].flat else tiles[0].thread
    return Tile(np.concatenate([t.block for t in tiles], 0), thread, registers, until)
