"""Reads the text that compute-sanitizer writes: records, the frames in them, and the summary.

The format is that of "Compute Sanitizer" (NVIDIA's user manual, 2024 and 2025): every line begins
with "=========", the first line of a record after one blank and the others further in. Older
versions write a place as "at 0x90 in file.cu:41:kernel(int*)", newer ones as
"at kernel(int *)+0x90 in file.cu:41".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_PREFIX = "========="
_NEW_PLACE = re.compile(r"^(?P<function>.+?)(?:\+(?P<offset>0x[0-9a-f]+))?(?: in (?P<where>.+))?$")
_OLD_PLACE = re.compile(r"^(?P<offset>0x[0-9a-f]+) in (?:(?P<where>.+?:\d+):)?(?P<function>.+)$")
_FILE_LINE = re.compile(r"^(?P<file>.+):(?P<line>\d{1,9})$")
_INDICES = r"\((\d{1,10}),(\d{1,10}),(\d{1,10})\)"
_THREAD = re.compile(rf"^by thread {_INDICES} in block {_INDICES}")
_SUMMARY = re.compile(r"^ERROR SUMMARY: ([\d,]{1,20}) errors?$")
_NOT_PRINTED = re.compile(r"^ERROR SUMMARY: [\d,]+ errors? (?:was|were) not printed")
_RACE_SUMMARY = re.compile(
    r"^RACECHECK SUMMARY: [\d,]+ hazards? displayed "
    r"\(([\d,]{1,20}) errors?, ([\d,]{1,20}) warnings?\)"
)
_MAX_RECORDS = 10_000


@dataclass(frozen=True)
class CodeLocation:
    """Where in the code something happened. `line` is 0 and `file` "" where none is known."""

    function: str
    offset: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Record:
    """One report: its first line and those below it, without indentation."""

    head: str
    details: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[CodeLocation, ...]:
        """The faulting place and then, if the tool gives them, its callers."""
        found = []
        for detail in self.details:
            for word in ("at ", "Device Frame:"):
                if detail.startswith(word):
                    place = read_place(detail.removeprefix(word).strip())
                    found += [place] if place is not None else []
        return tuple(found)

    @property
    def thread(self) -> tuple[tuple[int, int, int], tuple[int, int, int]] | None:
        """Thread and block."""
        for detail in self.details:
            match = _THREAD.match(detail)
            if match:
                x, y, z, a, b, c = map(int, match.groups())
                return (x, y, z), (a, b, c)
        return None


@dataclass(frozen=True)
class Log:
    """A whole log. `errors` is None where the tool did not come to its summary."""

    records: tuple[Record, ...]
    errors: int | None
    warnings: int = 0


@dataclass
class _Open:
    """A record that is being read."""

    head: str
    details: list[str] = field(default_factory=list)


def read_log(text: str) -> Log:
    """Reads a log. Lines that are not the tool's own are passed over."""
    errors: int | None = None
    warnings = 0
    records: list[Record] = []
    for record in _records(text):
        summary = _SUMMARY.match(record.head)
        race_summary = _RACE_SUMMARY.match(record.head)
        if summary is not None:
            errors = (errors or 0) + _number(summary[1])
        elif race_summary is not None:
            errors = (errors or 0) + _number(race_summary[1])
            warnings += _number(race_summary[2])
        elif _NOT_PRINTED.match(record.head):
            continue  # They are in the count.
        elif len(records) < _MAX_RECORDS:
            records.append(record)
    return Log(tuple(records), errors, warnings)


def read_place(text: str) -> CodeLocation | None:
    """A place as the tool writes it, after "at " or "Device Frame:"."""
    match = _OLD_PLACE.match(text) or _NEW_PLACE.match(text)
    if match is None:
        return None
    where = match["where"] or ""
    named = _FILE_LINE.match(where)
    file, line = (named["file"], int(named["line"])) if named else (where, 0)
    return CodeLocation(match["function"].strip(), match["offset"] or "", file, line)


def _records(text: str) -> Iterator[Record]:
    current: _Open | None = None
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        rest = line[len(_PREFIX) :]
        if rest.startswith("  ") and current is not None:
            current.details.append(rest.strip())
            continue
        if current is not None:
            yield Record(current.head, tuple(current.details))
        head = rest.strip()
        current = _Open(head) if head and head != "COMPUTE-SANITIZER" else None
    if current is not None:
        yield Record(current.head, tuple(current.details))


def _number(text: str) -> int:
    return int(text.replace(",", ""))
