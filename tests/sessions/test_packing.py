"""Packed journals: the same session, which nothing can be added to."""

from __future__ import annotations

import contextlib
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.errors import UserError
from astra_tui.present.sessions import session_entry
from astra_tui.sessions import journal_reader
from astra_tui.sessions.journal_reader import PACKED_NAME, is_packed, pack, read_journal, unpacked
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.sessions.store import find_session, list_sessions
from tests.sessions.samples import whole_session


@pytest.fixture
def session(tmp_path):
    folder = tmp_path / "s"
    with Journal.create(folder, Redactor()) as journal:
        for event in whole_session():
            journal.append(event)
    return folder


def test_a_packed_session_reads_as_before(session):
    before = read_journal(session)
    packed = pack(session)
    assert is_packed(session)
    assert not (session / "journal.jsonl").exists()
    assert packed.stat().st_size < len(gzip.decompress(packed.read_bytes()))
    assert read_journal(session) == before


def test_it_is_found_and_listed(session):
    pack(session)
    assert find_session("s", session.parent) == session
    assert find_session(str(session / PACKED_NAME), session.parent) == session
    assert [s.name for s in list_sessions(session.parent, session_entry)] == ["s"]


def test_nothing_can_be_added(session):
    pack(session)
    with pytest.raises(UserError, match="packed") as refused:
        Journal.reopen(session, Redactor())
    assert "gunzip" in refused.value.hint
    with pytest.raises(UserError, match="already"):
        Journal.create(session, Redactor())


def test_packing_twice_gives_the_same_bytes(session):
    plain = (session / "journal.jsonl").read_bytes()
    first = pack(session).read_bytes()
    (session / "journal.jsonl").write_bytes(plain)
    assert pack(session).read_bytes() == first


def test_there_has_to_be_a_journal(tmp_path):
    with pytest.raises(UserError, match="no journal"):
        pack(tmp_path)


def test_what_unpacks_to_too_much_is_refused(session, monkeypatch):
    (session / "journal.jsonl").unlink()
    (session / PACKED_NAME).write_bytes(gzip.compress(bytes(1 << 20)))
    monkeypatch.setattr(journal_reader, "LARGEST_JOURNAL", 1 << 16)
    with pytest.raises(UserError, match="too large"):
        unpacked(session)


@given(data=st.data())
def test_a_damaged_one_is_an_error_or_what_can_be_read(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("s")
    whole = b'{"a":1}\n' * 200
    packed = bytearray(gzip.compress(whole, mtime=0))
    cut = data.draw(st.integers(0, len(packed)))
    flip = data.draw(st.integers(0, len(packed) - 1))
    packed[flip] ^= data.draw(st.integers(0, 255))
    (folder / PACKED_NAME).write_bytes(bytes(packed[:cut]))
    found = b""
    with contextlib.suppress(UserError):
        found = unpacked(folder)
    assert len(found) <= journal_reader.LARGEST_JOURNAL
