"""Writes a whole session, or what is missing of it, and says what was acknowledged.

    python -m tests.sessions.crash.writer SESSION ACKNOWLEDGED

Every text goes to the session before the event that names it, as the engine does it. A line of
ACKNOWLEDGED is the number of an event whose writing has returned, and whether it was synced.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msgspec.structs import replace

from astra_tui.model.digest import content_hash
from astra_tui.model.events import SYNCED, Event, ExchangeMade, StepRemembered, ToolUsed
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.sessions.journal_writer import Journal, Redactor
from tests.sessions.samples import BASELINE_SOURCE, BETTER_SOURCE, TEXTS, whole_session


def events_to_write() -> list[Event]:
    """The sample session, its texts named by their hash."""
    hashes = {name: content_hash(text) for name, text in TEXTS.items()}

    def named(event: Event) -> Event:
        if not isinstance(event, ExchangeMade | StepRemembered | ToolUsed):
            return event
        return replace(event, **{n: h for n, h in hashes.items() if hasattr(event, n)})

    return [named(event) for event in whole_session()]


def main() -> None:
    """Writes on from where the journal ends."""
    folder, acknowledged = Path(sys.argv[1]), sys.argv[2]
    begun = journal_path(folder).exists()
    journal = (Journal.reopen if begun else Journal.create)(folder, Redactor([]))
    handle = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    events = events_to_write()
    with journal:
        journal.put_source(BASELINE_SOURCE)
        for number in range(len(journal.found.records), len(events)):
            if number == 3:
                journal.put_source(BETTER_SOURCE)
                for text in TEXTS.values():
                    journal.put(text)
            event = events[number]
            journal.append(event)
            os.write(handle, f"{number} {int(isinstance(event, SYNCED))}\n".encode())


if __name__ == "__main__":
    main()
