"""The messages between an engine and its front ends: one JSON message a line, both ways.

The engine greets with `Welcome`, the front end answers with `Greeting`. A front end that follows
then gets every record of the journal from the first, without a gap, and what passes while it is
there; it may send requests, and each is answered by `Done` or `Refused` with the request's id.
"""

from __future__ import annotations

from typing import Annotated, Union

import msgspec

from astra_tui.model.approval import Answer, AutoMode
from astra_tui.model.author import Author
from astra_tui.model.check import Case
from astra_tui.model.compilation import Diagnostic
from astra_tui.model.events import AnyEvent
from astra_tui.sessions.journal_lines import Record

PROTOCOL = 1

LONGEST_MESSAGE = 16 << 20
"""Bytes of one line; an answer may carry a whole source."""


MAX_QUESTIONS = 10_000
"""That may be accepted without asking by their number."""


class MalformedMessage(ValueError):
    """A line that is no message."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="message"):
    """One line."""


class Welcome(Message, frozen=True, tag="welcome"):
    """The engine's first message: what it works on, and how far it is.

    `session` is the session's name and `folder` its absolute path; `status` is a SessionStatus.
    `question` is the id of what someone has to decide, and `waits_for` says it in words; both are
    empty where nothing is asked.
    """

    protocol: int
    session: str
    folder: str
    pid: int
    host: str
    task: str
    status: str
    question: str = ""
    waits_for: str = ""


class Recorded(Message, frozen=True, tag="recorded"):
    """A record of the journal, as the journal holds it."""

    record: Record


class Passed(Message, frozen=True, tag="passed"):
    """A transient event."""

    event: AnyEvent


class Done(Message, frozen=True, tag="done"):
    """A request was carried out."""

    request: int


class Refused(Message, frozen=True, tag="refused"):
    """A request was not carried out.

    `request` is 0 where it could not be read, and where the engine says why it goes.
    """

    request: int
    reason: str
    hint: str = ""
    errors: tuple[Diagnostic, ...] = ()
    """Of the compiler, at lines of the source that a refused answer would have made."""


class Greeting(Message, frozen=True, tag="greeting"):
    """The front end's first message: its user, and what it is for."""

    protocol: int
    by: Author
    answers: bool = True
    """Whether someone there may answer questions."""
    follows: bool = True
    """Whether it wants records and events."""


class Request(Message, frozen=True):
    """Something that the engine is asked to do; `id` counts from 1 for each connection."""

    id: int


class GiveAnswer(Request, frozen=True, tag="answer"):
    """Decides a question."""

    answer: Answer


class TakeBack(Request, frozen=True, tag="take_back"):
    """Takes back the rejection of a question, which is asked again."""

    question: str


class AddNote(Request, frozen=True, tag="note"):
    """Tells the team something."""

    text: str


class ChooseParent(Request, frozen=True, tag="parent"):
    """Has the next round stand on a candidate, by its hash."""

    candidate: str


class AddCase(Request, frozen=True, tag="case"):
    """Adds a case for every later candidate."""

    case: Case


class SetAutoApproval(Request, frozen=True, tag="auto"):
    """Says which questions of those to come are accepted without asking; `left` of them are,
    at any risk.
    """

    mode: AutoMode
    left: Annotated[int, msgspec.Meta(ge=0, le=MAX_QUESTIONS)] = 0


class Pause(Request, frozen=True, tag="pause"):
    """Stops before the next step."""


class Resume(Request, frozen=True, tag="go_on"):
    """Ends a pause."""


class Interrupt(Request, frozen=True, tag="interrupt"):
    """Drops the running step and pauses."""


class Cancel(Request, frozen=True, tag="cancel"):
    """Ends the run; the session can be resumed."""


FromEngine = Union[Welcome, Recorded, Passed, Done, Refused]  # noqa: UP007 - for msgspec.
FromFrontEnd = Union[  # noqa: UP007
    Greeting, GiveAnswer, TakeBack, AddNote, ChooseParent, AddCase, SetAutoApproval, Pause,
    Resume, Interrupt, Cancel,
]  # fmt: skip

_from_engine = msgspec.json.Decoder(FromEngine, strict=False)
_from_front_end = msgspec.json.Decoder(FromFrontEnd)
_RECORDED = b'{"message":"recorded","record":'


def encode_message(message: Message) -> bytes:
    """One line with its line feed."""
    return msgspec.json.encode(message) + b"\n"


def recorded_line(line: bytes) -> bytes:
    """The message for a line of the journal, which is passed on byte for byte."""
    return _RECORDED + line.rstrip(b"\n") + b"}\n"


def decode_from_engine(line: bytes) -> FromEngine:
    """A message of the engine. Raises MalformedMessage."""
    try:
        message: FromEngine = _from_engine.decode(line)
        return message
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(str(error)) from None


class _Numbered(msgspec.Struct):
    id: int = 0


def request_number(line: bytes) -> int:
    """The number of a request that cannot be read as a whole, 0 where there is none."""
    try:
        return msgspec.json.decode(line, type=_Numbered).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0


def decode_from_front_end(line: bytes) -> FromFrontEnd:
    """A message of a front end. Raises MalformedMessage."""
    try:
        message: FromFrontEnd = _from_front_end.decode(line)
        return message
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(str(error)) from None
