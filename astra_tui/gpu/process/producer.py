"""The judge's own kernel before a dependent launch: it writes part of what the call reads.

A launch with the attribute of programmatic dependent launch may begin before this kernel has
ended. In a late run the producer triggers first and writes after a delay, outputs and workspaces
included, so that a call that does not wait computes with stale values, or finds what it stored too
early gone; and it notes what was stored meanwhile.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from astra_tui.gpu.process.driver import Driver, Launch
from astra_tui.gpu.process.tools import Tools

PIECE_BYTES = 32
"""One sector: writing less of it would have the rest fetched first."""
TIMED_PIECES = 2048
"""Pieces that are written before a timed call, 64 KiB: its own time stays about a microsecond."""
TIMED_BYTES = TIMED_PIECES * PIECE_BYTES
"""What a producer leaves in L2 of the inputs of a timed launch."""
CHECKED_PIECES = 1 << 18
"""Pieces that are written where no one looks at the time: all of any case, in sparse rows else."""
MAX_BUFFERS = 6
"""How many buffers one producer writes; tools.cu has the same number."""
_THREADS = 256
_MAX_BLOCKS = 64
"""Of a producer: the launch that it precedes has to find room while it is late."""
_SPAN = struct.Struct("<QQQQQ")
_OUTPUT = 1 << 63


@dataclass(frozen=True)
class ProducedBuffer:
    """A buffer that a producer writes: its address in set 0, bytes, bytes from a set to the next.

    An output is written in late runs alone.
    """

    address: int
    size: int
    stride: int
    is_output: bool


class Producer:
    """Kernels that write pieces of buffers, evenly spread, from a copy taken before."""

    def __init__(
        self,
        driver: Driver,
        tools: Tools,
        buffers: Sequence[ProducedBuffer],
        sets: int,
        most_pieces: int,
    ):
        """Takes the copy: the buffers have to hold now what their calls are to read."""
        self._driver = driver
        self._tools = tools
        largest = sorted((b for b in buffers if b.size), key=lambda b: (b.is_output, -b.size))
        self._spans, self._pieces = _spans(largest[:MAX_BUFFERS], most_pieces)
        self._stash = self._control = 0
        try:
            # One more than there are: a producer fetches the copy of the set after its own.
            self._stash = driver.allocate(max(1, self._pieces * (sets + 1)) * PIECE_BYTES)
            self._control = driver.allocate(16)
            driver.fill(self._control, 0, 16)
            self._run("stash", self._parameters(0, self._stash, 0), sets)
        except BaseException:
            self.free()
            raise

    def delay(self, cycles: int) -> None:
        """How late the producers write from now on, after they have triggered; 0: at once, then
        they trigger. In stream order.
        """
        self._run("set_word", struct.pack("<QQ", self._control, cycles), 1, blocks=1)

    def touched(self) -> bool:
        """Whether a late producer has seen that something it was to write changed before.

        A call stored there before it waited. Waits for the stream.
        """
        return bool(self._driver.download(self._control + 8, 8).any())

    def spoil(self, byte: int, sets: int) -> None:
        """Overwrites what the producers of the first sets write, in stream order.

        Each of them has to run after it: what is spoiled stays so.
        """
        self._run("spoil", self._parameters(0, 0, byte), sets)

    def before(self, number: int) -> Launch:
        """The launch that writes one set."""
        stash = self._stash + number * self._pieces * PIECE_BYTES
        return self._launch("produce", self._parameters(number, stash, self._control), 1)

    def free(self) -> None:
        """Gives the memory back."""
        for address in (self._stash, self._control):
            if address:
                self._driver.free(address)
        self._stash = self._control = 0

    def _parameters(self, first_set: int, stash: int, last: int) -> bytes:
        return self._spans + struct.pack("<QQQQ", self._pieces, first_set, stash, last)

    def _run(self, name: str, parameters: bytes, sets: int, blocks: int = 0) -> None:
        self._driver.launch(self._launch(name, parameters, sets, blocks))

    def _launch(self, name: str, parameters: bytes, sets: int, blocks: int = 0) -> Launch:
        blocks = blocks or max(1, -(-self._pieces // _THREADS))
        grid = (min(blocks, _MAX_BLOCKS) if name == "produce" else blocks, sets, 1)
        return Launch(self._tools.function(name), grid, (_THREADS, 1, 1), 0, parameters)


def _spans(buffers: Sequence[ProducedBuffer], most: int) -> tuple[bytes, int]:
    """The table that tools.cu reads, and how many pieces it has.

    Of a buffer every `group`th piece is written, or all of a small one; where in its group a piece
    lies is drawn, so that every stretch of a few groups has one.
    """
    rows, first = [], 0
    share = max(1, most // max(len(buffers), 1))
    for buffer in buffers:
        pieces = -(-buffer.size // PIECE_BYTES)
        group = -(-pieces // share)
        kind = _OUTPUT if buffer.is_output else 0
        rows.append((buffer.address, buffer.stride, buffer.size, first, group | kind))
        first += -(-pieces // group)
    rows += [(0, 0, 0, first, 1)] * (MAX_BUFFERS - len(rows))
    return b"".join(_SPAN.pack(*row) for row in rows), first
