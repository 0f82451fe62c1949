"""The lines of a journal."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec

from astra_tui.model.events import AnyEvent, Event

JOURNAL_NAME = "journal.jsonl"


class Record(msgspec.Struct, frozen=True):
    """One event as the journal holds it.

    `seq` counts from 0. `time` is UTC with milliseconds; `mono` is the writer's monotonic clock
    in seconds, which orders and spaces the events of one engine.
    """

    seq: int
    time: str
    mono: float
    event: AnyEvent


class MalformedRecord(ValueError):
    """A line that is no record."""


_decoder = msgspec.json.Decoder(Record, strict=False)


def timestamp(now: datetime) -> str:
    """As in 2026-11-21T12:00:00.000Z."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode_record(seq: int, time: str, mono: float, event: Event) -> bytes:
    """One line with its line feed.

    JSON has no infinities and no NaN, which errors of outputs can be: they are written as the
    strings "inf", "-inf" and "nan".
    """
    line = {"seq": seq, "time": time, "mono": round(mono, 6), "event": msgspec.to_builtins(event)}
    return msgspec.json.encode(_named_floats(line)) + b"\n"


def decode_record(line: bytes) -> Record:
    """The record of a line. Raises MalformedRecord, with what is wrong and where in the line."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedRecord(str(error)) from None


def _named_floats(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _named_floats(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_named_floats(v) for v in value]
    return value
