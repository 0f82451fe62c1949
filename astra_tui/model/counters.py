"""Counters of two sources: those of the emulator are exact for memory traffic and instructions of
PTX, and never a time; those of a GPU were read by NVIDIA's Nsight Compute (ncu), or were not.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

_AND = " and "

Place = tuple[int, str]
"""A line of the source, 0 for none, and then the place in an upstream file."""


class AccessCount(msgspec.Struct, frozen=True, omit_defaults=True):
    """Accesses of one width at one source line.

    Code of an upstream file counts at the line of the source that led there. Where none did, as in
    a kernel that such a file holds, `line` is 0 and `header` the place, as in
    `upstream/a/b.cuh:12`.

    A request is one warp's instruction; a sector is 32 bytes of global memory that it touches; a
    conflict is a pass over shared memory beyond the fewest that the access needs.
    """

    line: int
    space: str
    """"global" or "shared"; "bulk" for bulk copies from and to global memory, "cluster" for shared
    memory of other blocks: neither goes through L1, and a request of the first is a copy.
    """
    direction: str
    """"load", "store" or "atomic"."""
    width: int
    """Bytes per thread."""
    requests: int
    sectors: int
    bytes: int
    conflicts: int
    header: str = ""

    @property
    def place(self) -> Place:
        """Line and header."""
        return self.line, self.header

    @property
    def in_global(self) -> bool:
        """Whether it is about global memory."""
        return self.space in ("global", "bulk")


class LineCount(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was executed at one source line, counted once a warp; `header` as in `AccessCount`."""

    line: int
    warp_instructions: int
    thread_instructions: int
    barriers: int
    shuffles: int
    header: str = ""

    @property
    def place(self) -> Place:
        """Line and header."""
        return self.line, self.header


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

    def at(self, *lines: range, file: str = "") -> Counters:
        """The counts of some lines alone: of the source, or of an upstream file's kernels."""

        def line_of(place: Place) -> int:
            line, header = place
            if not file:
                return line
            name, _, number = header.rpartition(":")
            return int(number) if not line and name == file else 0

        return Counters(
            accesses=tuple(a for a in self.accesses if any(line_of(a.place) in p for p in lines)),
            lines=tuple(c for c in self.lines if any(line_of(c.place) in p for p in lines)),
            compiler=self.compiler,
        )

    def by_place(self) -> dict[Place, tuple[int, int, int, int, int]]:
        """Requests, sectors, bytes of global memory, conflicts and instructions of warps, place by
        place.
        """
        found: dict[Place, list[int]] = {}
        for a in self.accesses:
            moved = a.bytes if a.in_global else 0
            sums = found.setdefault(a.place, [0] * 5)
            for at, n in enumerate((a.requests, a.sectors, moved, a.conflicts)):
                sums[at] += n
        for line in self.lines:
            found.setdefault(line.place, [0] * 5)[4] += line.warp_instructions
        return {place: (r, s, b, c, i) for place, (r, s, b, c, i) in found.items()}

    @property
    def requests(self) -> int:
        """Requests to global memory."""
        return self.total("requests")

    @property
    def sectors(self) -> int:
        """32-byte sectors of global memory, loads, stores and bulk copies."""
        return self.total("sectors") + self.total("sectors", "bulk")

    @property
    def bytes(self) -> int:
        """Bytes that threads, and their bulk copies, asked of global memory."""
        return self.total("bytes") + self.total("bytes", "bulk")

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
    sums = CounterSums()
    compilers: set[str] = set()
    for counters in several:
        compilers.update(counters.compiler.split(_AND))
        for a in counters.accesses:
            key = (a.space, a.direction, a.width)
            sums.add_access(a.line, a.header, key, (a.requests, a.sectors, a.bytes, a.conflicts))
        for c in counters.lines:
            values = (c.warp_instructions, c.thread_instructions, c.barriers, c.shuffles)
            sums.add_line(c.line, c.header, values)
    return sums.counters(_AND.join(sorted(compilers - {""})))


_Four = tuple[int, int, int, int]


class CounterSums:
    """Counts that are added up by place."""

    def __init__(self) -> None:
        self._accesses: dict[tuple[int, str, str, str, int], _Four] = {}
        self._lines: dict[tuple[int, str], _Four] = {}

    def add_access(self, line: int, header: str, kind: tuple[str, str, int], values: _Four) -> None:
        """Adds requests, sectors, bytes and conflicts of a kind: space, direction, width."""
        key = (line, "" if line else header, *kind)
        self._accesses[key] = _sum(self._accesses.get(key, _NONE), values)

    def add_line(self, line: int, header: str, values: _Four) -> None:
        """Adds instructions of warps, instructions of threads, barriers and shuffles."""
        key = (line, "" if line else header)
        self._lines[key] = _sum(self._lines.get(key, _NONE), values)

    def counters(self, compiler: str) -> Counters:
        """The sums, in the order of places."""
        return Counters(
            accesses=tuple(
                AccessCount(line, space, direction, width, *sums, header=header)
                for (line, header, space, direction, width), sums in sorted(self._accesses.items())
            ),
            lines=tuple(
                LineCount(line, *sums, header=header)
                for (line, header), sums in sorted(self._lines.items())
            ),
            compiler=compiler,
        )


_NONE: _Four = (0, 0, 0, 0)


def _sum(a: _Four, b: _Four) -> _Four:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


DURATION = "gpu__time_duration.sum"
"""Of a launch as ncu runs it: never a time of the candidate."""

SHARED_WAVEFRONTS = "memory_l1_wavefronts_shared"
SHARED_WAVEFRONTS_IDEAL = "memory_l1_wavefronts_shared_ideal"


class Metric(msgspec.Struct, frozen=True):
    """One value in ncu's base unit, such as byte, ns or %; "" where it has none."""

    value: float
    unit: str = ""


class LaunchCounters(msgspec.Struct, frozen=True):
    """The counters of one launch. Every metric asked for is in `metrics` or in `missing`.

    ncu serialises launches, flushes caches and replays: its durations are not times of the
    candidate and give no speedup.
    """

    kernel: str
    """The C++ name that the launch plan asked for."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: dict[str, Metric]
    missing: dict[str, str]
    """Why a metric was not returned, by its name."""

    @property
    def excess_shared_wavefronts(self) -> float | None:
        """Passes over shared memory that bank conflicts cost: those made less the ideal ones.

        Exact and repeatable, unlike ncu's own counter of bank conflicts, which is noisy.
        """
        made = self.metrics.get(SHARED_WAVEFRONTS)
        ideal = self.metrics.get(SHARED_WAVEFRONTS_IDEAL)
        return made.value - ideal.value if made is not None and ideal is not None else None


class NcuReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The counters of all launches of one workload, or why there are none."""

    workload: str
    launches: tuple[LaunchCounters, ...] = ()
    problem: str = ""
    """Why there are no counters; empty when there are some."""
    remedy: str = ""
    """What to do about the problem, where something can be done."""
    version: str = ""
    seconds: float = 0.0

    @property
    def available(self) -> bool:
        """Whether counters were read."""
        return not self.problem

    @property
    def outcome(self) -> str:
        """How many counters were read and on what, or why none."""
        if not self.available:
            return f"not available: {self.problem}"
        read = sum(len(launch.metrics) for launch in self.launches)
        missing = sum(len(launch.missing) for launch in self.launches)
        short = f", {missing} could not be read" if missing else ""
        return f"{read} read on workload {self.workload}{short}"


class ComparedCounter(msgspec.Struct, frozen=True):
    """One counter of the emulator and the GPU's; `gpu` and `difference` are None where ncu did
    not read it.
    """

    counter: str
    emulator: int
    gpu: float | None

    @property
    def difference(self) -> float | None:
        """GPU less emulator."""
        return None if self.gpu is None else self.gpu - self.emulator


def total(launches: tuple[LaunchCounters, ...], names: tuple[str, ...]) -> float | None:
    """Metrics added up over launches; None where one is missing."""
    found = [launch.metrics.get(name) for launch in launches for name in names]
    if not found or any(metric is None for metric in found):
        return None
    return sum(metric.value for metric in found if metric is not None)
