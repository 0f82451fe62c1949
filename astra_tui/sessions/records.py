"""The lines of a journal, and the seals that bind each to all before it."""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from astra_tui.model.events import AnyEvent, Event

JOURNAL_NAME = "journal.jsonl"


class Record(msgspec.Struct, frozen=True):
    """One event as the journal holds it.

    `seq` counts from 0. `time` is UTC with milliseconds; `mono` is the writer's monotonic clock
    in seconds, which orders and spaces the events of one engine. `seal` is a hash of the line and
    of the seal before it.
    """

    seq: int
    time: str
    mono: float
    event: AnyEvent
    seal: str = ""


class MalformedRecord(ValueError):
    """A line that is no record."""


SEAL_DIGITS = 32
_SEALED = re.compile(rb'(.*),"seal":"([0-9a-f]{%d})"\}' % SEAL_DIGITS, re.DOTALL)
_decoder = msgspec.json.Decoder(Record, strict=False)


def timestamp(now: datetime) -> str:
    """As in 2026-11-21T12:00:00.000Z."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode_record(seq: int, time: str, mono: float, event: Event, seal: str = "") -> bytes:
    """One line with its line feed; `sealed` gives it a seal, and `seal` one that it had before.

    JSON has no infinities and no NaN, which errors of outputs can be: they are written as the
    strings "inf", "-inf" and "nan".
    """
    line = {"seq": seq, "time": time, "mono": round(mono, 6), "event": msgspec.to_builtins(event)}
    if seal:
        line["seal"] = seal
    return msgspec.json.encode(_named_floats(line)) + b"\n"


def sealed(line: bytes, before: str) -> bytes:
    """A line of `encode_record` with its seal, which covers the line and the seal `before` it.

    A line that is altered, moved, added or taken out breaks the chain at its place.
    """
    body = line.removesuffix(b"}\n")
    return b'%s,"seal":"%s"}\n' % (body, _seal(body, before).encode())


def seal_holds(line: bytes, before: str) -> bool:
    """Whether a line of a journal, without its line feed, is the one that was sealed."""
    parts = _SEALED.fullmatch(line)
    return parts is not None and _seal(parts[1], before).encode() == parts[2]


def _seal(body: bytes, before: str) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()[:SEAL_DIGITS]


def decode_record(line: bytes) -> Record:
    """The record of a line. Raises MalformedRecord, with what is wrong and where in the line."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRecord(str(error)) from None


def _named_floats(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _named_floats(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_named_floats(v) for v in value]
    return value
