"""Bytes that the launches of a workload move of each argument: how many, and which in vain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from astra_tui.model.counters import Place

SECTOR = 32
HALF_LINE = 2 * SECTOR


class WasteKind(StrEnum):
    """How bytes come to be moved that need not be."""

    STORED_AGAIN = "stored_again"
    """Stored over what nothing has loaded since it was stored."""
    LOADED_AGAIN = "loaded_again"
    """Loaded by a warp that has loaded them, by another line of a block that has, or by a later
    launch."""
    READ_BACK = "read_back"
    """Loaded after the kernels themselves stored them: a way through memory."""
    HALF_LINE = "half_line"
    """Read with the other sector of a half line, and loaded by no one: L2 reads both."""
    PART_OF_SECTOR = "part_of_sector"
    """The sector of stores that leave a part of it as it was: L2 reads it first."""


class Waste(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes of one argument that a line moves again, each once a request, or moves in vain.

    Lines are those of the kernel itself, and of a function that it calls where they differ only
    there; `header` and `earlier_header` as in `AccessCount`.
    """

    kind: WasteKind
    line: int
    earlier_line: int
    bytes: int
    launch: int = 1
    """The number of the launch in its workload, from 1."""
    earlier_launch: int = 1
    other_block: bool = False
    """Whether another block of the same launch came before."""
    header: str = ""
    earlier_header: str = ""

    @property
    def place(self) -> Place:
        """Line and header."""
        return self.line, self.header

    @property
    def earlier(self) -> Place:
        """Line and header of what came before."""
        return self.earlier_line, self.earlier_header


class ArgumentTraffic(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes that launches moved of one argument or workspace, counted once for each warp's request.

    Bytes loaded are the first load of a byte, `shared`, or among `waste`. Atomics and accesses
    that synchronise are in none of these.
    """

    argument: str
    size: int
    """Bytes that it has."""
    loaded: int = 0
    stored: int = 0
    distinct_loaded: int = 0
    """How many of its bytes were loaded at all."""
    distinct_stored: int = 0
    shared: int = 0
    """Bytes loaded by a warp for itself that another one had loaded for itself: reuse."""
    half_lines: int = 0
    """Aligned pieces of 64 bytes that loads touch: what L2 reads of an input. Not counted for
    what begins undefined, which the launches themselves have written."""
    sectors_stored: int = 0
    """Aligned pieces of 32 bytes that stores touch."""
    waste: tuple[Waste, ...] = ()

    @property
    def compulsory(self) -> int:
        """Bytes that remain when each byte is loaded once and stored once."""
        return self.distinct_loaded + self.distinct_stored

    def share(self, waste: Waste) -> float:
        """The bytes moved in vain over what is moved in that direction: the distinct bytes, the
        other sectors of all half lines, or all sectors that are stored to.
        """
        match waste.kind:
            case WasteKind.STORED_AGAIN:
                whole = self.distinct_stored
            case WasteKind.HALF_LINE:
                whole = SECTOR * self.half_lines
            case WasteKind.PART_OF_SECTOR:
                whole = SECTOR * self.sectors_stored
            case _:
                whole = self.distinct_loaded
        try:
            return waste.bytes / whole if whole else 0.0
        except OverflowError:  # Only a made-up journal has integers beyond all floats.
            return math.inf


class WorkloadTraffic(msgspec.Struct, frozen=True):
    """What one workload moves, with as many rows as stay quick."""

    workload: str
    dims: dict[str, int] = {}
    arguments: tuple[ArgumentTraffic, ...] = ()
    problem: str = ""
    """Why it was not counted to its end; empty where it was."""


class WorkloadShare(msgspec.Struct, frozen=True):
    """How much of an argument one workload moves in vain."""

    workload: str
    bytes: int
    share: float
    """As `ArgumentTraffic.share`; above 1 where bytes are moved several times."""


class WastedTraffic(msgspec.Struct, frozen=True):
    """One way in which a source moves bytes of an argument in vain, on all workloads that do."""

    argument: str
    waste: Waste
    """As on the workload that shows it most."""
    shares: tuple[WorkloadShare, ...]
    """The largest share first."""
    workloads: int
    """How many there are, with those that do not show it."""

    @property
    def lines(self) -> tuple[int, ...]:
        """The source lines that it is about, in order."""
        return tuple(sorted({self.waste.line, self.waste.earlier_line} - {0}))

    def describe(self) -> str:
        """As in "line 31 stores again what line 24 stored: 20 % of out at 32x5120"."""
        most, *others = self.shares
        whole = {
            WasteKind.HALF_LINE: "the half lines of ",
            WasteKind.PART_OF_SECTOR: "the sectors of ",
        }.get(self.waste.kind, "")
        text = f"{waste_words(self.waste)}: {most.share:.0%} of {whole}{self.argument} at "
        text = text.replace("%", " %") + most.workload
        if others:
            least = f"{others[-1].share:.0%}".replace("%", " %")
            text += f"; {least} or more at {len(others)} other"
            text += " workload" if len(others) == 1 else " workloads"
        absent = self.workloads - len(self.shares)
        return f"{text}; none at {absent} of {self.workloads}" if absent else text


def waste_words(waste: Waste) -> str:
    """As in "line 31 stores again what line 24 stored"."""
    place, earlier = _place_words(waste.place), _place_words(waste.earlier)
    file, _, line = waste.earlier_header.rpartition(":")
    if file and waste.header.startswith(f"{file}:"):
        earlier = f"line {line}"
    crosses = waste.launch != waste.earlier_launch
    if crosses:
        place += f" (launch {waste.launch})"
        earlier += f" (launch {waste.earlier_launch})"
    before = earlier
    if waste.place == waste.earlier and not crosses:
        before = "it" if not waste.other_block else f"{earlier} of another block"
    elif waste.other_block:
        before = f"{earlier} of another block"
    match waste.kind:
        case WasteKind.STORED_AGAIN:
            return f"{place} stores again what {before} stored"
        case WasteKind.LOADED_AGAIN:
            return f"{place} loads again what {before} loaded"
        case WasteKind.READ_BACK:
            return f"{place} loads what {before} stored"
        case WasteKind.HALF_LINE:
            return f"{place} loads one sector of a half line, and no one the other"
        case WasteKind.PART_OF_SECTOR:
            return f"{place} stores a part of a sector, and no one the rest"


def _place_words(place: Place) -> str:
    line, header = place
    return f"line {line}" if line else header or "code of no line"


LEAST_SHARE = 0.01
"""What is less than this share on every workload is left out."""


def wasted_traffic(
    workloads: Iterable[tuple[str, tuple[ArgumentTraffic, ...]]],
) -> tuple[WastedTraffic, ...]:
    """What some workloads, given by name, move in vain; what moves most bytes first."""
    counted = list(workloads)
    found: dict[tuple[str, Waste], list[tuple[Waste, WorkloadShare]]] = {}
    for name, arguments in counted:
        for traffic in arguments:
            for waste in traffic.waste:
                key = (traffic.argument, msgspec.structs.replace(waste, bytes=0))
                share = WorkloadShare(name, waste.bytes, traffic.share(waste))
                found.setdefault(key, []).append((waste, share))
    made = []
    for (argument, _), seen in found.items():
        seen.sort(key=lambda s: (-s[1].share, s[1].workload))
        shares = tuple(share for _, share in seen)
        if shares[0].share < LEAST_SHARE:
            continue
        made.append(WastedTraffic(argument, seen[0][0], shares, len(counted)))
    return tuple(
        sorted(made, key=lambda r: (-sum(s.bytes for s in r.shares), r.argument, r.waste.place))
    )
