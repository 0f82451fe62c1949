"""Which bytes of each argument the launches of a workload moved more than once, and where."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from astra_tui.model.counters import Place


class RepeatKind(StrEnum):
    """How bytes come to be moved again."""

    STORED_AGAIN = "stored_again"
    """Stored over what nothing has loaded since it was stored."""
    LOADED_AGAIN = "loaded_again"
    """Loaded by a warp that has loaded them, by another line of a block that has, or by a later
    launch."""
    READ_BACK = "read_back"
    """Loaded after the kernels themselves stored them: a way through memory."""


class Repeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes of one argument that a line moved after an earlier one, each byte once a request.

    Lines are those of the kernel itself, not of functions that it calls; `header` and
    `earlier_header` as in `AccessCount`.
    """

    kind: RepeatKind
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

    Bytes loaded are the first load of a byte, `shared`, or among `repeats`. Atomics and accesses
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
    repeats: tuple[Repeat, ...] = ()

    @property
    def compulsory(self) -> int:
        """Bytes that remain when each byte is loaded once and stored once."""
        return self.distinct_loaded + self.distinct_stored

    def share(self, repeat: Repeat) -> float:
        """The repeated bytes over the distinct ones that are moved in that direction."""
        is_store = repeat.kind is RepeatKind.STORED_AGAIN
        distinct = self.distinct_stored if is_store else self.distinct_loaded
        return repeat.bytes / distinct if distinct else 0.0


class WorkloadTraffic(msgspec.Struct, frozen=True):
    """What one workload moves, with as many rows as stay quick."""

    workload: str
    dims: dict[str, int] = {}
    arguments: tuple[ArgumentTraffic, ...] = ()
    problem: str = ""
    """Why it was not counted to its end; empty where it was."""


class WorkloadShare(msgspec.Struct, frozen=True):
    """How much of an argument one workload moves again."""

    workload: str
    bytes: int
    share: float
    """Over the argument's distinct bytes; above 1 where they are moved several times."""


class RedundantTraffic(msgspec.Struct, frozen=True):
    """One way in which a source moves bytes of an argument again, on all workloads that show it."""

    argument: str
    repeat: Repeat
    """As on the workload that shows it most."""
    shares: tuple[WorkloadShare, ...]
    """The largest share first."""
    workloads: int
    """How many there are, with those that do not show it."""

    @property
    def lines(self) -> tuple[int, ...]:
        """The source lines that it is about, in order."""
        return tuple(sorted({self.repeat.line, self.repeat.earlier_line} - {0}))

    def describe(self) -> str:
        """As in "line 31 stores again what line 24 stored: 20 % of out at 32x5120"."""
        most, *others = self.shares
        text = f"{repeat_words(self.repeat)}: {most.share:.0%} of {self.argument} at "
        text = text.replace("%", " %") + most.workload
        if others:
            least = f"{others[-1].share:.0%}".replace("%", " %")
            text += f"; {least} or more at {len(others)} other"
            text += " workload" if len(others) == 1 else " workloads"
        absent = self.workloads - len(self.shares)
        return f"{text}; none at {absent} of {self.workloads}" if absent else text


def repeat_words(repeat: Repeat) -> str:
    """As in "line 31 stores again what line 24 stored"."""
    place, earlier = _place_words(repeat.place), _place_words(repeat.earlier)
    crosses = repeat.launch != repeat.earlier_launch
    if crosses:
        place += f" (launch {repeat.launch})"
        earlier += f" (launch {repeat.earlier_launch})"
    before = earlier
    if repeat.place == repeat.earlier and not crosses:
        before = "it" if not repeat.other_block else f"{earlier} of another block"
    elif repeat.other_block:
        before = f"{earlier} of another block"
    match repeat.kind:
        case RepeatKind.STORED_AGAIN:
            return f"{place} stores again what {before} stored"
        case RepeatKind.LOADED_AGAIN:
            return f"{place} loads again what {before} loaded"
        case RepeatKind.READ_BACK:
            return f"{place} loads what {before} stored"


def _place_words(place: Place) -> str:
    line, header = place
    return f"line {line}" if line else header or "code of no line"


LEAST_SHARE = 0.01
"""Of an argument's distinct bytes: what is moved again less than this on every workload is left
out."""


def redundant_traffic(
    workloads: Iterable[tuple[str, tuple[ArgumentTraffic, ...]]],
) -> tuple[RedundantTraffic, ...]:
    """What some workloads, given by name, move again; what moves most bytes first."""
    counted = list(workloads)
    found: dict[tuple[str, Repeat], list[tuple[Repeat, WorkloadShare]]] = {}
    for name, arguments in counted:
        for traffic in arguments:
            for repeat in traffic.repeats:
                key = (traffic.argument, msgspec.structs.replace(repeat, bytes=0))
                share = WorkloadShare(name, repeat.bytes, traffic.share(repeat))
                found.setdefault(key, []).append((repeat, share))
    made = []
    for (argument, _), seen in found.items():
        seen.sort(key=lambda s: (-s[1].share, s[1].workload))
        shares = tuple(share for _, share in seen)
        if shares[0].share < LEAST_SHARE:
            continue
        made.append(RedundantTraffic(argument, seen[0][0], shares, len(counted)))
    return tuple(
        sorted(made, key=lambda r: (-sum(s.bytes for s in r.shares), r.argument, r.repeat.place))
    )
