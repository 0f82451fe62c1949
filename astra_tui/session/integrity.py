"""Whether a session is what its engine wrote: every line, every stored text, every digest.

What makes a number tamper-evident: each line of the journal carries a seal over its bytes and the
seal before it, so that the place of an alteration is known; each text is named by its hash; and
each closing holds the digest of the state that its engine had. Nothing here is secret: who alters
a line and computes all that follows anew makes another session, which only the seal of the
original's last line, if it was written down elsewhere, tells from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path

import msgspec

from astra_tui.model.approval import Gate
from astra_tui.model.contents import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    CheckStarted,
    CodeWritten,
    DecisionTaken,
    Event,
    ExchangeMade,
    ProfileTaken,
    SessionClosed,
    SessionOpened,
    StepRemembered,
)
from astra_tui.model.state import SessionState
from astra_tui.session.blobs import read_blob
from astra_tui.session.inside import LARGEST_TEXT, files_inside, read_inside
from astra_tui.session.reading import Damage, journal_bytes, journal_path, parse_journal
from astra_tui.session.records import Record, decode_record, seal_holds
from astra_tui.session.timeline import Timeline

_BLOB = re.compile(r"blobs/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_SOURCE = re.compile(r"sources/([0-9a-f]{12})\.cu")
MOST_FLAWS = 100
"""Of a session that is damaged all over, the first ones say enough."""


class FlawKind(StrEnum):
    """What a flaw tells of."""

    ALTERED = "altered"
    CUT = "cut"
    """The end is not there: an engine was killed, still runs, or somebody cut it off."""


class Flaw(msgspec.Struct, frozen=True):
    """Something that an engine did not write so; `line` counts from 1, 0 is the whole file."""

    file: str
    line: int
    message: str
    kind: FlawKind = FlawKind.ALTERED

    def describe(self) -> str:
        """As in "sessions/x/journal.jsonl:7: message"."""
        return f"{self.file}:{self.line}: {self.message}" if self.line else _whole(self)


class Integrity(msgspec.Struct, frozen=True):
    """What was looked at, and what is wrong.

    `seal` is the last line's: it stands for the whole journal, and can be written down elsewhere.
    `digest` is of the state before the last closing, or at the end where there is none.
    """

    events: int
    texts: int
    closings: int
    seal: str
    digest: str
    flaws: tuple[Flaw, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.flaws

    @property
    def altered(self) -> tuple[Flaw, ...]:
        """What is wrong even of a session that was cut off and is to go on."""
        return tuple(f for f in self.flaws if f.kind is FlawKind.ALTERED)


def check_integrity(folder: Path) -> tuple[Integrity, SessionState]:
    """Looks at all of a session; also returns the state, as far as it can be read.

    Raises UserError where there is no journal, or one that no version so far can have written.
    """
    path = journal_path(folder)
    content = journal_bytes(folder)
    found = parse_journal(content, path)
    timeline = Timeline(found.records, found.damage)
    flaws = [_damaged(path, d) for d in found.damage]
    flaws += _seals(content, path)
    flaws += _order(timeline, path)
    digests = _Digests(timeline, path)
    flaws += digests.flaws
    texts, missing = _texts(folder, timeline.records)
    flaws += missing
    flaws += _strangers(folder)
    flaws.sort(key=lambda f: (f.line == 0, f.line))  # The first lines, where there are many.
    last = found.records[-1].seal if found.records else ""
    state = timeline.final_state()
    report = Integrity(
        len(found.records), texts, digests.count, last, digests.reached, tuple(flaws[:MOST_FLAWS])
    )
    return report, state


def first_altered_line(content: bytes, damage: Sequence[Damage], path: Path) -> Flaw | None:
    """The first line of a journal that is not what was written there, its cut end apart."""
    unreadable = (_damaged(path, d) for d in damage if not d.truncated)
    firsts = (*islice(unreadable, 1), *islice(_seals(content, path), 1))
    return min(firsts, key=lambda f: f.line, default=None)


def broken_seal(folder: Path, damage: Sequence[Damage]) -> Flaw | None:
    """The first line of a session's journal whose seal does not fit, though it can be read."""
    path, damaged = journal_path(folder), {d.line for d in damage}
    flaw = first_altered_line(journal_bytes(folder), (), path)
    return None if flaw is None or flaw.line in damaged else flaw


def named_texts(records: tuple[Record, ...]) -> tuple[str, ...]:
    """The hashes of all texts that events name, once each, in order of appearance."""
    return tuple(dict.fromkeys(h for r in records for h in _named(r.event) if h))


def _named(event: Event) -> tuple[str, ...]:
    match event:
        case SessionOpened():
            return (event.baseline,)
        case CodeWritten():
            return (event.candidate, event.base)
        case CheckStarted():
            return (event.candidate,)
        case DecisionTaken() if event.decision.gate is Gate.DIFF:
            return (event.decision.result,)
        case ExchangeMade():
            return (event.request, event.reply)
        case ProfileTaken():
            return (event.machine_code,)
        case StepRemembered():
            return (event.prompt, event.answer)
    return ()


def _damaged(path: Path, damage: Damage) -> Flaw:
    kind = FlawKind.CUT if damage.truncated else FlawKind.ALTERED
    return Flaw(str(path), damage.line, damage.message, kind)


def _seals(content: bytes, path: Path) -> Iterator[Flaw]:
    before, lines = "", content.split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        if not seal_holds(line, before):
            message = "this line, or one that stood before it, was altered: its seal does not fit"
            yield Flaw(str(path), number, message)
        before = _seal_in(line)


def _seal_in(line: bytes) -> str:
    try:
        return decode_record(line).seal
    except ValueError:
        return ""


def _order(timeline: Timeline, path: Path) -> Iterator[Flaw]:
    for number, record in enumerate(timeline.records):
        if record.seq != number:
            message = f"event {number} is missing: event {record.seq} stands in its place"
            yield Flaw(str(path), number + 1, message)
            break
    if timeline.broken is not None:
        seq = timeline.broken.seq
        yield Flaw(
            str(path), timeline.broken.position + 1, f"event {seq}: {timeline.broken.message}"
        )
    last = timeline.records[-1].event if len(timeline) else None
    if not isinstance(last, SessionClosed):
        message = "the session was not closed, so that nothing says whether its end is missing"
        yield Flaw(str(path), len(timeline), message, FlawKind.CUT)


class _Digests:
    """Every closing of a session against the state before it."""

    def __init__(self, timeline: Timeline, path: Path):
        self.count = 0
        self.flaws: list[Flaw] = []
        self.reached = ""
        for number, record in enumerate(timeline.records):
            if isinstance(record.event, SessionClosed):
                self.count += 1
                self.reached = timeline.state(number).digest()
                if record.event.digest != self.reached:
                    message = (
                        f"the events before make a state with the digest {self.reached[:12]}, "
                        f"and the engine wrote {record.event.digest[:12]}"
                    )
                    self.flaws.append(Flaw(str(path), number + 1, message))
        if not self.reached:
            self.reached = timeline.final_state().digest()


def _texts(folder: Path, records: tuple[Record, ...]) -> tuple[int, list[Flaw]]:
    names, flaws = named_texts(records), []
    for hash_ in names:
        try:
            read_blob(folder, hash_)
        except UserError as error:
            flaws.append(Flaw(error.file or str(folder), 0, error.message))
    return len(names), flaws


def _strangers(folder: Path) -> Iterator[Flaw]:
    """Stored files that are not what their names say, whether an event names them or not."""
    try:
        names = files_inside(folder)
    except UserError as error:
        yield Flaw(error.file, 0, error.message)
        return
    for name in names:
        blob, source = _BLOB.fullmatch(name), _SOURCE.fullmatch(name)
        if not (blob or source):
            if name.startswith(("blobs/", "sources/")) and not _is_left_over(name):
                yield Flaw(str(folder / name), 0, "no engine wrote a file of this name")
            continue
        begin = blob[2] if blob else source[1] if source else ""
        try:
            content = read_inside(folder, name, LARGEST_TEXT)
        except (UserError, FileNotFoundError) as error:
            yield Flaw(str(folder / name), 0, str(error))
            continue
        if not content_hash(content).startswith(begin):
            yield Flaw(str(folder / name), 0, "this text was altered: its hash is not its name")


def _is_left_over(name: str) -> bool:
    """Half a file that was not yet renamed when its writer was killed; nothing reads it."""
    return Path(name).name.startswith(".")


def _whole(flaw: Flaw) -> str:
    return f"{flaw.file}: {flaw.message}"
