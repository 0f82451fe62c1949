"""What one candidate's check found, read again from the journal that an engine is writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from astra_tui.model.check import CaseResult
from astra_tui.model.events import CaseChecked, CheckStarted, Event
from astra_tui.model.fold import fold
from astra_tui.sessions.limits import LONGEST_LINE
from astra_tui.sessions.records import JOURNAL_NAME, MalformedRecord, decode_record
from astra_tui.sessions.safe_open import lines_inside

_OF_CHECKS = (b'"check_started"', b'"case_checked"')


def recorded_cases(folder: Path, candidate: str, last: int) -> tuple[CaseResult, ...]:
    """The cases of a candidate as a state has them after event `last`.

    Holds no more of the journal than one line and what it returns. Lines that cannot be read are
    passed over, as the reader of a journal does. Raises UserError when there is no plain journal.
    """
    return fold(_events(folder, candidate, last)).candidate(candidate).results


def _events(folder: Path, candidate: str, last: int) -> Iterator[Event]:
    name = candidate.encode()
    for line in lines_inside(folder, JOURNAL_NAME, LONGEST_LINE):
        if name not in line or not any(tag in line for tag in _OF_CHECKS):
            continue  # Decoding every line would take seconds where this takes milliseconds.
        try:
            record = decode_record(line)
        except MalformedRecord:
            continue
        if record.seq > last:
            return
        event = record.event
        if isinstance(event, CheckStarted | CaseChecked) and event.candidate == candidate:
            yield event
