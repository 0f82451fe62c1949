"""Signatures with keys of ssh-keygen: whose they are, of how much, and when they do not hold."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.model.errors import UserError
from astra_tui.model.events import EngineStarted
from astra_tui.model.fold import apply
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_reader import journal_path, pack
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.sessions.signing import SIGNATURE_NAME, sign, signature_of

from .fuzz_sessions import _write_sealed
from .samples import write_whole


def make_key(file: Path, kind: str = "ed25519") -> tuple[Path, bytes]:
    """A key file and its public part, as ssh-keygen makes them."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", file], check=True)
    return file, file.with_suffix(".pub").read_bytes()


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, bytes]:
    """A signed session and the public key."""
    folder = write_whole(tmp_path / "s")
    key, public = make_key(tmp_path / "key")
    sign(read_session(folder), key, key.read_bytes())
    return folder, public


def test_a_signature_names_its_key_and_stays_with_a_packed_session(signed, tmp_path):
    folder, public = signed
    session = read_session(folder)
    assert session.trust.whole
    found = signature_of(session, b"ssh-ed25519 AAAA other\n" + public)
    shown = subprocess.run(["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True)
    assert found.fingerprint in shown.stdout.decode()
    assert (found.lines, found.problem, found.trusted) == (session.trust.lines, "", True)
    _, other = make_key(tmp_path / "other")
    assert not signature_of(session, other).trusted
    pack(folder)
    assert signature_of(read_session(folder), public) == found


def test_a_forgery_with_all_checksums_computed_again_has_no_signature(signed):
    folder, public = signed
    lines = journal_path(folder).read_bytes().replace(b'"wider"', b'"Wider"').splitlines()
    _write_sealed(folder, lines)
    found = signature_of(read_session(folder), public)
    assert "not of this journal" in found.problem


def test_what_was_added_or_cut_off_afterwards_is_not_signed(signed):
    folder, public = signed
    content = journal_path(folder).read_bytes()
    with Journal.reopen(folder, Redactor(environment={})) as journal:
        state = apply(journal.found.state(), journal.append(EngineStarted("h", 1, 9)).event)
        journal.append(replace(journal.found.records[-1].event, digest=state.digest()))
    assert "2 lines were added" in signature_of(read_session(folder), public).problem
    journal_path(folder).write_bytes(content.rpartition(b"\n{")[0] + b"\n")
    session = read_session(folder)
    assert "shorter" in signature_of(session, public).problem
    with pytest.raises(UserError, match="only a whole session"):
        sign(session, folder, b"")


def test_what_is_no_key_and_no_signature_is_said(signed, tmp_path):
    folder, public = signed
    session = read_session(folder)
    ecdsa, _ = make_key(tmp_path / "ecdsa", "ecdsa")
    for key, problem in ((public, "no private key"), (ecdsa.read_bytes(), "no Ed25519 key")):
        with pytest.raises(UserError, match=problem):
            sign(session, tmp_path / "key", key)
    for content in (b"", b"[" * 9000, b'{"key":"x","bytes":1,"lines":1,"signature":"x"}'):
        (folder / SIGNATURE_NAME).write_bytes(content)
        with pytest.raises(UserError, match="no signature"):
            signature_of(session, public)
    (folder / SIGNATURE_NAME).unlink()
    assert signature_of(session, public) is None
