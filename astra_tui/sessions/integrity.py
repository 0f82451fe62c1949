"""What may be believed of a session: every reader of one gets it here, with this verdict.

Each line of the journal carries a checksum over its bytes and the checksum before it, so that the
place of an alteration is known; each text is named by its hash; and each closing holds the digest
of the state that its engine had. Nothing here is secret, so that this is no proof: who alters a
line and computes all that follows again makes another session. The last line's checksum, written
down elsewhere, or a signature (`signing.py`) tells the two apart.
"""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from pathlib import Path

import msgspec

from astra_tui.model.approval import ApprovalGate
from astra_tui.model.digest import content_hash, short
from astra_tui.model.errors import Place, UserError
from astra_tui.model.events import (
    AnalysisGiven,
    CheckStarted,
    CodeWritten,
    DecisionTaken,
    Event,
    ExchangeMade,
    ProfileTaken,
    RoundClosed,
    SessionClosed,
    SessionOpened,
    StepRemembered,
    ToolUsed,
)
from astra_tui.model.state import SessionState
from astra_tui.sessions.folder import read_blob, writer_of
from astra_tui.sessions.journal_lines import LARGEST_TEXT, Record
from astra_tui.sessions.journal_reader import (
    MAX_FLAWS,
    JournalContents,
    journal_path,
    read_journal,
)
from astra_tui.sessions.safe_open import files_inside, read_inside
from astra_tui.sessions.timeline import Timeline

_BLOB = re.compile(r"blobs/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_SOURCE = re.compile(r"sources/([0-9a-f]{12})\.cu")


class FlawKind(StrEnum):
    """What a flaw tells of."""

    ALTERED = "altered"
    CUT = "cut"
    """The end is not there: an engine was killed, still runs, or someone cut it off."""


class Flaw(msgspec.Struct, frozen=True):
    """Something that an engine did not write so; `line` counts from 1, 0 is the whole file."""

    file: str
    line: int
    message: str
    kind: FlawKind = FlawKind.ALTERED

    def describe(self) -> str:
        """As in "sessions/x/journal.jsonl:7: message"."""
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}: {self.message}"


class TrustVerdict(StrEnum):
    """How far a session may be believed."""

    WHOLE = "whole"
    CUT = "cut"
    ALTERED = "altered"


class Trust(msgspec.Struct, frozen=True):
    """The verdict on a session, and the first place where it is not whole.

    `line` counts from 1; 0 is the whole file. `lines` are all of the journal, and `seal` is the
    checksum of the last one. `writer` is the process that still writes a session that is cut.
    """

    verdict: TrustVerdict
    lines: int
    seal: str
    file: str = ""
    line: int = 0
    message: str = ""
    writer: str = ""

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict is TrustVerdict.WHOLE

    @property
    def altered(self) -> bool:
        """Whether something is there that no engine wrote so, or is missing in the middle."""
        return self.verdict is TrustVerdict.ALTERED

    def describe(self) -> str:
        """As in "cut at sessions/x/journal.jsonl:7: message"."""
        if self.whole:
            return f"whole: {self.lines:,} lines, checksum of the last one {self.seal}"
        place = f"{self.file}:{self.line}" if self.line else self.file
        if self.writer and not self.altered:
            return f"not closed yet at {place}: {self.writer} writes it"
        return f"{self.verdict.value} at {place}: {self.message}"


class Integrity(msgspec.Struct, frozen=True):
    """What was looked at, and what is wrong.

    `seal` is the last line's checksum: it stands for the whole journal, and can be written down
    elsewhere. `digest` is of the state before the last closing, or at the end where there is none.
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
        """What is wrong even of a session that was cut off and is to be resumed."""
        return tuple(f for f in self.flaws if f.kind is FlawKind.ALTERED)


@dataclass(frozen=True)
class Session:
    """A session as it was read from its folder; all of it is looked at once it is asked for.

    The timeline ends before the first event that cannot follow the others. `texts` says whether
    stored texts are looked at too.
    """

    folder: Path
    contents: JournalContents
    timeline: Timeline
    texts: bool

    @property
    def integrity(self) -> Integrity:
        """What was looked at, and what is wrong."""
        return self._verdicts[0]

    @property
    def trust(self) -> Trust:
        """How far it may be believed."""
        return self._verdicts[1]

    @cached_property
    def _verdicts(self) -> tuple[Integrity, Trust]:
        with no_search_for_garbage():
            return _looked_at(self.folder, self.contents, self.timeline, self.texts)

    @cached_property
    def state(self) -> SessionState:
        """The state at the end. Raises UserError where it makes no sense, or there is none."""
        path = str(journal_path(self.folder))
        broken = self.timeline.broken
        if broken is not None:
            raise UserError(
                f"the events of this session make no sense: event {broken.seq}: {broken.message}",
                file=path,
                place=Place(self.contents.line_of(broken.position)),
                hint=f"see what can be read of it: astra-tui replay --headless {self.folder}",
            )
        state = self.timeline.final_state()
        if state.opened is None:
            message = "the journal does not begin with the opening of a session"
            raise UserError(message, file=path, place=Place(1))
        return state

    def damage_words(self) -> tuple[str, ...]:
        """What a reader is told: the first place that was altered, and every damaged line."""
        path = journal_path(self.folder)
        damage = tuple(d.describe(path) for d in self.contents.damage)
        first = (self.trust.describe(),) if self.trust.altered else ()
        return (*first, *damage)

    def ending_at(self, seal: str) -> Session | None:
        """The session when this was its last line's checksum; None where no line has it."""
        for number, record in enumerate(self.contents.records, start=1):
            if record.seal == seal:
                return _read(self.folder, self.contents.first(number), texts=False)
        return None

    def refuse_altered(self, hint: str = "") -> None:
        """Raises UserError, which names the first place that was altered."""
        if self.trust.altered:
            raise UserError(
                f"this session was altered: {self.trust.message}",
                file=self.trust.file,
                place=Place(self.trust.line),
                hint=hint or f"see all of it: astra-tui verify {self.folder}",
            )


def read_session(folder: Path, *, texts: bool = True) -> Session:
    """Reads a session; of one without `texts` its journal alone will be looked at.

    Raises UserError where there is no journal, or one that no version so far can have written.
    """
    with no_search_for_garbage():
        return _read(folder, read_journal(folder), texts)


@contextlib.contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """A million objects that stay, none of them in a circle: the search took half of the time."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


def _read(folder: Path, found: JournalContents, texts: bool) -> Session:
    return Session(folder, found, Timeline(found.records, found.damage), texts)


def _looked_at(
    folder: Path, found: JournalContents, timeline: Timeline, texts: bool
) -> tuple[Integrity, Trust]:
    path = journal_path(folder)
    flaws = [*_lines(found, path), *_order(found, timeline, path)]
    digests = _Digests(found, timeline, path)
    flaws += digests.flaws
    named = named_texts(timeline.records)
    if texts:
        flaws += _texts(folder, named)
    flaws.sort(key=lambda f: (f.line == 0, f.line))  # The first lines, where there are many.
    seal = found.records[-1].seal if found.records else ""
    report = Integrity(
        len(found.records), len(named), digests.count, seal, digests.reached,
        tuple(flaws[:MAX_FLAWS]),
    )  # fmt: skip
    return report, _trust(folder, found, flaws)


def check_integrity(folder: Path) -> tuple[Integrity, SessionState]:
    """Looks at all of a session; also returns the state, as far as it can be read.

    Raises UserError as `read_session` does.
    """
    session = read_session(folder)
    return session.integrity, session.timeline.final_state()


def read_unaltered(folder: Path) -> JournalContents:
    """A journal of which no line was altered; the last one may end in the middle.

    Raises UserError, which names the first line that was.
    """
    found = read_journal(folder)
    flaw = min(
        (f for f in _lines(found, journal_path(folder)) if f.kind is FlawKind.ALTERED),
        key=lambda f: f.line,
        default=None,
    )
    if flaw is not None:
        raise cannot_be_resumed(flaw, folder, found.records)
    return found


def cannot_be_resumed(flaw: Flaw, folder: Path, records: Sequence[Record]) -> UserError:
    """What a user reads who wants to resume after a place that was altered, the first one."""
    hint = f"what was altered cannot be resumed; see all of it: astra-tui verify {folder}"
    kept = [r.event for r in records[: max(flaw.line - 1, 0)]]
    closed = [event.round for event in kept if isinstance(event, RoundClosed)]
    if closed:
        hint += f"; branch off before it: astra-tui fork {folder} --at r{closed[-1]}"
    return UserError(flaw.message, file=flaw.file, place=Place(flaw.line), hint=hint)


def _trust(folder: Path, found: JournalContents, flaws: Sequence[Flaw]) -> Trust:
    altered = next((f for f in flaws if f.kind is FlawKind.ALTERED), None)
    first = altered or next(iter(flaws), None)
    seal = found.records[-1].seal if found.records else ""
    if first is None:
        return Trust(TrustVerdict.WHOLE, found.lines, seal)
    verdict = TrustVerdict.ALTERED if altered else TrustVerdict.CUT
    holder = None if altered else writer_of(folder)
    writer = holder.describe() if holder else ""
    return Trust(verdict, found.lines, seal, first.file, first.line, first.message, writer)


def named_texts(records: tuple[Record, ...]) -> tuple[str, ...]:
    """The hashes of all texts that events name, once each, in order of appearance."""
    return tuple(dict.fromkeys(h for r in records for h in _named(r.event) if h))


def _named(event: Event) -> tuple[str, ...]:
    if isinstance(event, AnalysisGiven):
        return tuple(one.answer for one in event.selection.measured) if event.selection else ()
    names = _NAMES.get(type(event))
    if names is None:
        return ()
    if isinstance(event, DecisionTaken) and event.decision.gate is not ApprovalGate.DIFF:
        return ()
    return tuple(attrgetter(name)(event) for name in names)


_NAMES: dict[type[Event], tuple[str, ...]] = {
    SessionOpened: ("baseline",),
    CodeWritten: ("candidate", "base"),
    CheckStarted: ("candidate",),
    DecisionTaken: ("decision.result",),
    ExchangeMade: ("request", "reply"),
    ProfileTaken: ("machine_code",),
    StepRemembered: ("prompt", "answer"),
    ToolUsed: ("draft", "answer"),
}
"""Events that name texts by hash, and where; of decisions, those on a diff."""


def _lines(found: JournalContents, path: Path) -> Iterator[Flaw]:
    """What is wrong with single lines: they cannot be read, or their checksum does not fit."""
    for damage in found.damage:
        kind = FlawKind.CUT if damage.truncated else FlawKind.ALTERED
        yield Flaw(str(path), damage.line, damage.message, kind)
    for line in found.altered:
        message = "this line, or one that stood before it, was altered: its checksum does not fit"
        yield Flaw(str(path), line, message)


def _order(found: JournalContents, timeline: Timeline, path: Path) -> Iterator[Flaw]:
    for number, record in enumerate(timeline.records):
        if record.seq != number:
            message = f"event {number} is missing: event {record.seq} stands in its place"
            yield Flaw(str(path), found.line_of(number), message)
            break
    if timeline.broken is not None:
        broken = timeline.broken
        line = found.line_of(broken.position)
        yield Flaw(str(path), line, f"event {broken.seq}: {broken.message}")
    last = found.records[-1].event if found.records else None
    if not isinstance(last, SessionClosed):
        message = "the session was not closed, so that nothing says whether its end is missing"
        yield Flaw(str(path), found.lines, message, FlawKind.CUT)


class _Digests:
    """Every closing of a session against the state before it."""

    def __init__(self, found: JournalContents, timeline: Timeline, path: Path):
        self.count = 0
        self.flaws: list[Flaw] = []
        self.reached = ""
        for number, record in enumerate(timeline.records):
            if isinstance(record.event, SessionClosed):
                self.count += 1
                self.reached = timeline.state(number).digest()
                if record.event.digest != self.reached:
                    message = (
                        f"the events before make a state with the digest {short(self.reached)}, "
                        f"and the engine wrote {short(record.event.digest)}"
                    )
                    self.flaws.append(Flaw(str(path), found.line_of(number), message))
        if not self.reached:
            self.reached = timeline.final_state().digest()


def _texts(folder: Path, named: Sequence[str]) -> Iterator[Flaw]:
    """Texts that events name and no file holds, then stored files that are not what their names
    say. Each file is read once.
    """
    whole, flaws = _stored(folder)
    for hash_ in named:
        if hash_ not in whole:
            try:
                read_blob(folder, hash_)
            except UserError as error:
                yield Flaw(error.file or str(folder), 0, error.message)
    yield from flaws


def _stored(folder: Path) -> tuple[set[str], list[Flaw]]:
    """The hashes of all texts that are as they were, and what is wrong with other files."""
    try:
        names = files_inside(folder)
    except UserError as error:
        return set(), [Flaw(error.file, 0, error.message)]
    whole: set[str] = set()
    flaws: list[Flaw] = []
    for name in names:
        blob, source = _BLOB.fullmatch(name), _SOURCE.fullmatch(name)
        begin = blob[2] if blob else source[1] if source else ""
        if not begin:
            if name.startswith(("blobs/", "sources/")) and not _is_left_over(name):
                flaws.append(Flaw(str(folder / name), 0, "no engine wrote a file of this name"))
            continue
        try:
            content = read_inside(folder, name, LARGEST_TEXT)
        except (UserError, FileNotFoundError) as error:
            flaws.append(Flaw(str(folder / name), 0, str(error)))
            continue
        if not content_hash(content).startswith(begin):
            message = "this text was altered: its hash is not its name"
            flaws.append(Flaw(str(folder / name), 0, message))
        elif blob and _is_utf8(content):
            whole.add(begin)
    return whole, flaws


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_left_over(name: str) -> bool:
    """Half a file that was not yet renamed when its writer was killed; nothing reads it."""
    return Path(name).name.startswith(".")
