"""What the emulator counts: exact memory traffic and PTX-level instruction counts, never time."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

_AND = " and "


class AccessCount(msgspec.Struct, frozen=True):
    """Accesses of one width at one source line.

    A request is one warp's instruction; a sector is 32 bytes of global memory that it touches; a
    conflict is a pass over shared memory beyond the fewest that the access needs.
    """

    line: int
    space: str
    """"global" or "shared"."""
    direction: str
    """"load", "store" or "atomic"."""
    width: int
    """Bytes per thread."""
    requests: int
    sectors: int
    bytes: int
    conflicts: int


class LineCount(msgspec.Struct, frozen=True):
    """What was executed at one source line, counted once a warp."""

    line: int
    warp_instructions: int
    thread_instructions: int
    barriers: int
    shuffles: int


class Counters(msgspec.Struct, frozen=True):
    """All counts of one case, or of several added up."""

    accesses: tuple[AccessCount, ...] = ()
    lines: tuple[LineCount, ...] = ()
    compiler: str = ""
    """Instruction counts depend on the compiler that made the PTX."""

    def total(self, field: str, space: str = "global", direction: str = "") -> int:
        """Sum of a field over the accesses of one space, and of one direction if given."""
        return sum(
            getattr(a, field)
            for a in self.accesses
            if a.space == space and direction in ("", a.direction)
        )

    def at(self, *lines: range) -> Counters:
        """The counts of some source lines alone."""
        return Counters(
            accesses=tuple(a for a in self.accesses if any(a.line in part for part in lines)),
            lines=tuple(c for c in self.lines if any(c.line in part for part in lines)),
            compiler=self.compiler,
        )

    @property
    def requests(self) -> int:
        """Requests to global memory."""
        return self.total("requests")

    @property
    def sectors(self) -> int:
        """32-byte sectors of global memory, loads and stores."""
        return self.total("sectors")

    @property
    def bytes(self) -> int:
        """Bytes that threads asked of global memory."""
        return self.total("bytes")

    @property
    def shared_requests(self) -> int:
        """Requests to shared memory."""
        return self.total("requests", "shared")

    @property
    def bank_conflicts(self) -> int:
        """Extra passes over shared memory."""
        return self.total("conflicts", "shared")

    @property
    def warp_instructions(self) -> int:
        """PTX instructions, once a warp: an order between versions, not a hardware count."""
        return sum(line.warp_instructions for line in self.lines)

    @property
    def barriers(self) -> int:
        """Block-wide barriers, counted once a warp."""
        return sum(line.barriers for line in self.lines)

    @property
    def shuffles(self) -> int:
        """Warp shuffles."""
        return sum(line.shuffles for line in self.lines)

    @property
    def sector_efficiency(self) -> float:
        """Bytes asked for over bytes moved, 1.0 when every sector is used in full once."""
        return self.bytes / (32 * self.sectors) if self.sectors else 1.0

    def ranking_key(self) -> tuple[int, int, int]:
        """The order in which the emulator prefers versions: less is better, from left to right.

        Sectors first (traffic), then requests (width of accesses), then warp instructions. It
        cannot see parallelism, so launch geometry is not decided by it.
        """
        return self.sectors, self.requests, self.warp_instructions


def add_counters(several: Iterable[Counters]) -> Counters:
    """The counts of several cases, line by line."""
    accesses: dict[tuple[int, str, str, int], list[int]] = {}
    lines: dict[int, list[int]] = {}
    compilers: set[str] = set()
    for counters in several:
        compilers.update(counters.compiler.split(_AND))
        for access in counters.accesses:
            key = (access.line, access.space, access.direction, access.width)
            _add(
                accesses.setdefault(key, [0, 0, 0, 0]),
                (access.requests, access.sectors, access.bytes, access.conflicts),
            )
        for line in counters.lines:
            _add(
                lines.setdefault(line.line, [0, 0, 0, 0]),
                (line.warp_instructions, line.thread_instructions, line.barriers, line.shuffles),
            )
    return Counters(
        accesses=tuple(AccessCount(*key, *accesses[key]) for key in sorted(accesses)),
        lines=tuple(LineCount(line, *lines[line]) for line in sorted(lines)),
        compiler=_AND.join(sorted(compilers - {""})),
    )


def _add(sums: list[int], values: tuple[int, ...]) -> None:
    for index, value in enumerate(values):
        sums[index] += value
