"""The only writer of a session.

All writing goes through one `Redactor`: the strings of events, sources, prompts and replies.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.model.events import SYNCED, AnyEvent, Event, Transient
from astra_tui.sessions.folder import WriterLock, read_blob, write_blob, write_source
from astra_tui.sessions.integrity import read_unaltered
from astra_tui.sessions.journal_lines import (
    JOURNAL_NAME,
    LARGEST_JOURNAL,
    LONGEST_LINE,
    MAX_EVENTS,
    Record,
    decode_record,
    encode_record,
    sealed,
    timestamp,
)
from astra_tui.sessions.journal_reader import JournalContents, is_packed, journal_path
from astra_tui.sessions.safe_open import (
    files_inside,
    make_folder,
    open_to_write,
    sync_folder,
    write_inside,
)

REDACTED = "[redacted]"
SHORTEST_SECRET = 8
"""Shorter values are words that would be cut out of ordinary text."""
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_KEY_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[a-z]_[A-Za-z0-9]{16,}"
    r"|github_pat_[A-Za-z0-9_]{16,})"
)
_NAMED_SECRET = re.compile(
    r"""(?i)(\bbearer\s+|\bapi[_-]?key(?:\\*["'])?\s*[=:]\s*(?:\\*["'])?)([A-Za-z0-9._~+/=-]{8,})"""
)
_Value = TypeVar("_Value")


class Redactor:
    """Replaces secrets with `[redacted]`: the given ones, and all that has the shape of a key.

    Given are `secrets` and the values of environment variables named like a key, a token or a
    password. They are also found as JSON and URLs escape them, so that text which quotes a request
    or a reply is covered. Secrets shorter than `SHORTEST_SECRET` are ignored.
    """

    def __init__(self, secrets: Iterable[str] = (), environment: Mapping[str, str] | None = None):
        variables = os.environ if environment is None else environment
        known = [*secrets, *_secrets_of(variables)]
        long = (secret for secret in known if len(secret.strip()) >= SHORTEST_SECRET)
        spellings = {s for secret in long for s in _spellings(secret)}
        # Longest first: a secret that begins with another one must go as a whole.
        longest_first = sorted(spellings, key=lambda s: (-len(s), s))
        self._given = re.compile("|".join(map(re.escape, longest_first))) if spellings else None

    def text(self, text: str) -> str:
        """The text without secrets, and without lone surrogates, which no file could hold."""
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")
        if self._given is not None:
            text = self._given.sub(REDACTED, text)
        text = _KEY_SHAPES.sub(REDACTED, text)
        return _NAMED_SECRET.sub(lambda match: match[1] + REDACTED, text)

    def clean(self, value: _Value) -> _Value:
        """The same structure with every string in it redacted; enumerations stay as they are."""
        cleaned: _Value = self._cleaned(value)
        return cleaned

    def _cleaned(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            return replace(value, **{name: self._cleaned(v) for name, v in fields.items()})
        if isinstance(value, Mapping):
            return {self._cleaned(k): self._cleaned(v) for k, v in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self._cleaned(v) for v in value)
        return value


def _secrets_of(variables: Mapping[str, str]) -> list[str]:
    return [
        value
        for name, value in variables.items()
        if any(word in name.upper() for word in _SECRET_NAMES)
    ]


def _spellings(secret: str) -> set[str]:
    plain = secret.strip()
    spellings = {plain, quote(plain, safe="")}
    for ascii_only in (False, True):
        once = json.dumps(plain, ensure_ascii=ascii_only)[1:-1]
        spellings |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    return spellings


_EMPTY = JournalContents((), (), 0)


class Journal:
    """Appends events to a session's journal and stores the texts that they name.

    Everything written goes through the redactor. `found` is what the journal held when it was
    opened. One writer a session: `create` and `reopen` raise UserError while another one is open.
    """

    def __init__(self, folder: Path, redactor: Redactor, lock: WriterLock, found: JournalContents):
        self.folder = folder
        self.found = found
        self._redactor = redactor
        self._lock = lock
        self._next = found.records[-1].seq + 1 if found.records else 0
        self._seal = found.records[-1].seal if found.records else ""
        self._end = found.whole_bytes
        self._handle = open_to_write(folder, JOURNAL_NAME)

    @classmethod
    def create(cls, folder: Path, redactor: Redactor) -> Journal:
        """A new session in a folder that has none; the folder is made where it is missing."""
        try:
            make_folder(folder)
        except OSError as error:
            raise OutOfResources.or_bad_input(error, "cannot be made", folder) from None
        lock = WriterLock(folder)
        try:
            if journal_path(folder).exists():
                raise UserError("there is a session in this folder already", file=str(folder))
            journal = cls(folder, redactor, lock, _EMPTY)
            sync_folder(folder)
        except BaseException:
            lock.release()
            raise
        return journal

    @classmethod
    def reopen(cls, folder: Path, redactor: Redactor) -> Journal:
        """A session that continues. An incomplete last line is put aside as `journal.damaged-N`.

        Raises UserError where another line cannot be read or was altered, for a part of the state
        would be missing; and for a folder with links in it, through which it would write elsewhere.
        """
        _refuse_packed(folder)
        read_unaltered(folder)
        files_inside(folder)
        lock = WriterLock(folder)
        try:
            found = read_unaltered(folder)
            journal = cls(folder, redactor, lock, found)
            journal._set_tail_aside()
            return journal
        except BaseException:
            lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the writing; a second call does nothing."""
        if self._handle >= 0:
            try:
                os.fsync(self._handle)
            finally:
                os.close(self._handle)
                self._handle = -1
                self._lock.release()

    def append(self, event: Event, sync: bool | None = None) -> Record:
        """Writes one event; it is on the disk afterwards if `sync`, by default as `SYNCED` says.

        Returns the record as a reader will see it: redacted, and with the types of the model.
        Live folding takes `record.event`, so that a replay reaches the same state. Raises
        TypeError for a transient event and UserError when the disk does not take it.
        """
        if isinstance(event, Transient):
            raise TypeError(f"{type(event).__name__} is transient and not kept")
        now = timestamp(datetime.now(UTC))
        return self._append(
            event, now, time.monotonic(), type(event) in SYNCED if sync is None else sync
        )

    def copy(self, record: Record) -> Record:
        """Writes an event of another session, with the time at which it happened there."""
        return self._append(record.event, record.time, record.mono, sync=False)

    def put(self, text: str) -> str:
        """Stores a text once and returns the hash of what is stored.

        That is the text itself, byte for byte, unless it holds a secret.
        """
        return write_blob(self.folder, self._redactor.text(text))

    def put_source(self, text: str) -> str:
        """Like `put`; the source also gets a file of its own, at `source_path`."""
        return write_source(self.folder, self._redactor.text(text))

    def get(self, hash_: str) -> str:
        """A stored text. Raises UserError when it is missing or damaged."""
        return read_blob(self.folder, hash_)

    def _append(self, event: Event, time: str, mono: float, sync: bool) -> Record:
        clean = cast(AnyEvent, self._redactor.clean(event))
        line = encode_record(Record(self._next, time, mono, clean))
        line = sealed(line, self._seal)
        record = decode_record(line)
        self._write(line, sync)
        self._next, self._seal = record.seq + 1, record.seal
        return record

    def _write(self, line: bytes, sync: bool) -> None:
        if self._handle < 0:
            raise ValueError("the journal is closed")
        self._refuse_too_large(line)
        try:
            _write_all(self._handle, line, self._end)
            if sync:
                os.fsync(self._handle)
        except OSError as error:
            # Half a line in the middle would damage the journal once the disk has room again.
            os.ftruncate(self._handle, self._end)
            path, what = self.folder / JOURNAL_NAME, "the journal cannot be written"
            raise OutOfResources.or_bad_input(error, what, path) from None
        self._end += len(line)

    def _refuse_too_large(self, line: bytes) -> None:
        """What no reader would take is not written."""
        path = str(self.folder / JOURNAL_NAME)
        if len(line) > LONGEST_LINE:
            message = f"an event of {len(line):,} bytes: {LONGEST_LINE:,} are the most"
            raise UserError(message, file=path)
        if self._end + len(line) > LARGEST_JOURNAL or self._next >= MAX_EVENTS:
            message = (
                f"this journal is as large as one may be: {MAX_EVENTS:,} events, "
                f"{LARGEST_JOURNAL:,} bytes"
            )
            hint = "start a new session from its best candidate"
            raise UserError(message, file=path, hint=hint)

    def _set_tail_aside(self) -> None:
        """Half a line at the end goes to a file of its own before the journal loses it."""
        tail = os.pread(self._handle, LARGEST_JOURNAL, self._end)
        if not tail:
            return
        number = 1
        while os.path.lexists(self.folder / f"journal.damaged-{number}"):
            number += 1
        write_inside(self.folder, f"journal.damaged-{number}", tail)
        os.ftruncate(self._handle, self._end)


def _refuse_packed(folder: Path) -> None:
    if is_packed(folder):
        path = journal_path(folder)
        raise UserError(
            "this session is packed, and nothing can be added to it",
            file=str(path),
            hint=f"gunzip {path}, or branch off: astra-tui fork {folder} --at ...",
        )


def _write_all(handle: int, content: bytes, offset: int) -> None:
    done = 0
    while done < len(content):
        done += os.pwrite(handle, content[done:], offset + done)
