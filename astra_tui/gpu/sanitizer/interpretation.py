"""What compute-sanitizer's records say about a candidate, as findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from astra_tui.gpu.sanitizer.records import CodeLocation, Log, Record, read_place
from astra_tui.model.compilation import is_own, upstream_place
from astra_tui.model.findings import Finding, FindingKind

_INVALID = re.compile(r"^Invalid __(\w+)__ (.+?) of size ([\d,]+)")
_UNINITIALISED = re.compile(r"^Uninitialized __(\w+)__ memory (.+?) of size ([\d,]+)")
_BARRIER = re.compile(r"^Barrier error detected\.?\s*(.*?)\.?$")
_RACE = re.compile(r"^(?:(Error|Warning): )?Race reported between (\w+) access at (.+)$")
_RACE_END = re.compile(r"^and (\w+) access at (.+?)(?: \[[\d,]+ hazards?\])?$")
_ADDRESS = re.compile(r"^(?:Address|Access to|Access at) (0x[0-9a-f]+)(?: (.*))?$", re.IGNORECASE)

_SECONDARY = ("Program hit ", "Target application returned an error")
"""What follows from the fault that was reported before, or is in the launcher's own answer."""

_SPACES = {
    "global": FindingKind.GLOBAL_OUT_OF_BOUNDS,
    "shared": FindingKind.SHARED_OUT_OF_BOUNDS,
    "local": FindingKind.LOCAL_OUT_OF_BOUNDS,
}
_UNWRITTEN = {
    "global": FindingKind.UNINITIALISED_GLOBAL,
    "shared": FindingKind.UNINITIALISED_SHARED,
}

Placed = Mapping[str, tuple[int, int]]
"""Address and size of buffers by name."""


@dataclass(frozen=True)
class Interpretation:
    """A log, understood. `unread` are first lines of records that have no kind here."""

    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    unread: tuple[str, ...]


def interpret(log: Log, placed: Placed) -> Interpretation:
    """The findings of a log; reports of several threads about one line are one finding."""
    findings: list[Finding] = []
    warnings: list[Finding] = []
    unread: dict[str, None] = {}
    secondary: dict[str, None] = {}
    for record in log.records:
        finding = _finding(record, placed)
        if finding is not None:
            (warnings if record.head.startswith("Warning:") else findings).append(finding)
        elif record.head.startswith(_SECONDARY):
            secondary[record.head] = None
        else:
            unread[record.head] = None
    if not findings:
        unread |= {head: None for head in secondary if head.startswith("Program hit ")}
    return Interpretation(_merged(findings), _merged(warnings), tuple(unread))


def _finding(record: Record, placed: Placed) -> Finding | None:
    for read in (_invalid, _uninitialised, _barrier):
        finding = read(record, placed)
        if finding is not None:
            return _with_place(finding, record)
    return _race(record)


def _invalid(record: Record, placed: Placed) -> Finding | None:
    match = _INVALID.match(record.head)
    if match is None:
        return None
    address, words = _address(record)
    kind = _SPACES.get(match[1], FindingKind.GLOBAL_OUT_OF_BOUNDS)
    if "misaligned" in words:
        kind = FindingKind.MISALIGNED
    what = f"{match[2]} of {match[3]} bytes in {match[1]} memory"
    where = _in_buffer(address, placed) if match[1] == "global" else ""
    return Finding(kind, ", ".join(part for part in (what, words, where) if part))


def _uninitialised(record: Record, placed: Placed) -> Finding | None:
    match = _UNINITIALISED.match(record.head)
    if match is None or match[1] not in _UNWRITTEN:
        return None
    address, _ = _address(record)
    what = f"{match[2]} of {match[3]} bytes that nothing has written"
    where = _in_buffer(address, placed) if match[1] == "global" else ""
    return Finding(_UNWRITTEN[match[1]], ", ".join(part for part in (what, where) if part))


def _barrier(record: Record, _placed: Placed) -> Finding | None:
    match = _BARRIER.match(record.head)
    if match is None:
        return None
    words = match[1].lower()
    if "divergent" in words:
        return Finding(FindingKind.DIVERGENT_BARRIER, words)
    if "invalid arguments" in words:
        return Finding(FindingKind.BAD_MASK, f"a barrier with {words}")
    return None


def _race(record: Record) -> Finding | None:
    """A race names two places or more; the finding is at the first in the candidate's file."""
    match = _RACE.match(record.head)
    first = read_place(match[3]) if match is not None else None
    if match is None or first is None:
        return None
    sides = [(match[2], first)]
    for detail in record.details:
        end = _RACE_END.match(detail)
        place = read_place(end[2]) if end is not None else None
        if end is not None and place is not None:
            sides.append((end[1], place))
    words = " and ".join(f"{side.lower()} {_where(place)}" for side, place in sides)
    own = [place for _, place in sides if _is_own(place)]
    return Finding(
        FindingKind.SHARED_RACE,
        f"{words}, nothing between",
        line=own[0].line if own else 0,
        header="" if own else _header(place for _, place in sides),
        kernel=_name(sides[0][1].function),
        instruction=sides[0][1].offset,
    )


def _with_place(finding: Finding, record: Record) -> Finding:
    """The innermost place in the candidate's file, and the lines that called it."""
    places = record.places
    own = [place.line for place in places if _is_own(place)]
    thread, block = record.thread or (None, None)
    return Finding(
        finding.kind,
        finding.message,
        line=own[0] if own else 0,
        callers=tuple(own[1:]),
        header=_header(takewhile(lambda place: not _is_own(place), places)),
        kernel=_name(places[-1].function) if places else "",
        block=block,
        thread=thread,
        lanes=1 if thread is not None else 0,
        instruction=places[0].offset if places else "",
    )


def _is_own(place: CodeLocation) -> bool:
    return bool(place.line) and is_own(place.file)


def _header(places: Iterable[CodeLocation]) -> str:
    """The first place in an upstream file of the task."""
    return next(filter(None, (upstream_place(p.file, p.line) for p in places)), "")


def _where(place: CodeLocation) -> str:
    if _is_own(place):
        return f"in line {place.line}"
    if place.line:
        return f"in {_header((place,)) or f'{place.file}:{place.line}'}"
    return f"at {_name(place.function)}{'+' + place.offset if place.offset else ''}"


def _name(function: str) -> str:
    """A function's name without its parameters, as far as it is one."""
    depth = 0
    for at in range(len(function) - 1, -1, -1):
        depth += (function[at] == ")") - (function[at] == "(")
        if depth == 0:
            return function[:at].strip() if function[at] == "(" else function
    return function


def _address(record: Record) -> tuple[int | None, str]:
    for detail in record.details:
        match = _ADDRESS.match(detail)
        if match:
            return int(match[1], 16), (match[2] or "").removeprefix("is ").strip()
    return None, ""


def _in_buffer(address: int | None, placed: Placed) -> str:
    """Where an address is, seen from the nearest buffer."""
    if address is None or not placed:
        return ""
    name, (start, size) = min(placed.items(), key=lambda item: _distance(address, *item[1]))
    if address < start:
        return f"{start - address} bytes before {name}"
    if address >= start + size:
        return f"{address - start - size} bytes past the end of {name}"
    return f"at byte {address - start} of {name}"


def _distance(address: int, start: int, size: int) -> int:
    return max(start - address, address - (start + size - 1), 0)


def _merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for every kind, line and kernel: the first, with the number of them all."""
    first: dict[tuple[object, ...], Finding] = {}
    counts: dict[tuple[object, ...], int] = {}
    for finding in findings:
        # A race is known by all its places, which are in the message.
        words = finding.message if finding.kind is FindingKind.SHARED_RACE else ""
        place = finding.line, finding.header, finding.callers
        key = (finding.kind, *place, finding.kernel, words)
        first.setdefault(key, finding)
        counts[key] = counts.get(key, 0) + finding.lanes
    replace = msgspec.structs.replace
    return tuple(replace(finding, lanes=counts[key]) for key, finding in first.items())
