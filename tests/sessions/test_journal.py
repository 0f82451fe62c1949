from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from astra_tui.model import events
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.events import RoundClosed, SessionClosed, StopReason, TextStreamed
from astra_tui.model.fold import ImpossibleEvent, apply, fold
from astra_tui.model.state import SessionState
from astra_tui.sessions.folder import blob_path, source_path, writer_of
from astra_tui.sessions.journal_reader import journal_path, read_journal
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.sessions.store import new_session_folder, settings_of
from astra_tui.sessions.wire import (
    Done,
    MalformedMessage,
    Pause,
    decode_from_engine,
    decode_from_front_end,
    encode_message,
)

from .samples import BASELINE_SOURCE, opened, whole_session

NOTHING_SECRET = Redactor(environment={})

HOLDER = """
import sys
from pathlib import Path
from astra_tui.sessions.journal_writer import Journal
from astra_tui.sessions.journal_writer import Redactor
journal = Journal.reopen(Path(sys.argv[1]), Redactor())
print("open", flush=True)
sys.stdin.read()
"""


def written(folder: Path) -> SessionState:
    """Writes the sample session, and returns the state that its writer has at the end."""
    state = SessionState()
    with Journal.create(folder, NOTHING_SECRET) as journal:
        for event in whole_session():
            state = apply(state, journal.append(event).event)
    return state


@pytest.fixture
def holder(tmp_path):
    """Another process that writes the session in tmp_path / "s"."""
    written(tmp_path / "s")
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "s")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


def test_the_sample_holds_every_durable_event():
    kinds = {info.cls for info in msgspec.inspect.type_info(events.AnyEvent).types}
    durable = {kind for kind in kinds if not issubclass(kind, events.Transient)}
    assert {type(e) for e in whole_session()} == durable


def test_a_replay_reaches_the_state_of_the_writer(tmp_path):
    live = written(tmp_path / "s")
    contents = read_journal(tmp_path / "s")
    assert contents.damage == ()
    assert contents.state() == live
    assert contents.state().digest() == live.digest()
    assert [r.seq for r in contents.records] == list(range(len(whole_session())))
    assert contents.events == tuple(whole_session())


def cuts(content: bytes) -> list[int]:
    """Every byte of the two shortest and the last line, and of others the ends and some between."""
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    lines = list(zip([0, *ends[:-1]], ends, strict=True))
    whole = {*sorted(lines, key=lambda line: line[1] - line[0])[:2], lines[-1]}
    found = {0, len(content)}
    for start, end in lines:
        step = 1 if (start, end) in whole else max(1, (end - start) // 12)
        found |= {*range(start, end, step), end - 1, start + 1}
    return sorted(found)


def test_truncated_anywhere_it_reopens_with_what_was_whole(tmp_path, monkeypatch):
    # Thousands of waits for the disk would say nothing about what is read back.
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    written(tmp_path / "s")
    content = journal_path(tmp_path / "s").read_bytes()
    folder = tmp_path / "cut"
    folder.mkdir()
    events_ = read_journal(tmp_path / "s").events
    digests = [fold(events_[:n]).digest() for n in range(len(events_) + 1)]
    for cut in cuts(content):
        journal_path(folder).write_bytes(content[:cut])
        kept = content[: content.rfind(b"\n", 0, cut) + 1]
        with Journal.reopen(folder, NOTHING_SECRET) as journal:
            assert journal.found.state().digest() == digests[kept.count(b"\n")]
            assert [d.truncated for d in journal.found.damage] == [True] * (len(kept) < cut)
        assert journal_path(folder).read_bytes() == kept
        aside = folder / "journal.damaged-1"
        assert aside.exists() == (len(kept) < cut)
        aside.unlink(missing_ok=True)


def test_a_reopened_journal_goes_on_behind_the_last_whole_line(tmp_path):
    folder = tmp_path / "s"
    written(folder)
    content = journal_path(folder).read_bytes()
    start = content.rindex(b"\n", 0, -1) + 1
    for number, cut in enumerate((start + 1, (start + len(content)) // 2, len(content) - 1), 1):
        journal_path(folder).write_bytes(content[:cut])
        with Journal.reopen(folder, NOTHING_SECRET) as journal:
            assert journal.found.damage[-1].truncated
            record = journal.append(SessionClosed(StopReason.CANCELLED, "", ""))
        assert record.seq == len(whole_session()) - 1
        assert (folder / f"journal.damaged-{number}").read_bytes() == content[start:cut]
        contents = read_journal(folder)
        assert contents.damage == ()
        assert contents.records[-1] == record


def test_a_damaged_line_in_the_middle_is_reported_and_the_rest_is_read(tmp_path):
    written(tmp_path / "s")
    path = journal_path(tmp_path / "s")
    lines = path.read_bytes().splitlines(keepends=True)
    note = next(n for n, line in enumerate(lines) if b"note_added" in line)
    lines[note] = b"\xff" + lines[note][1:]
    path.write_bytes(b"".join(lines))
    contents = read_journal(tmp_path / "s")
    (damage,) = contents.damage
    assert (damage.line, damage.truncated) == (note + 1, False)
    assert damage.offset == sum(len(line) for line in lines[:note])
    assert damage.describe(path).startswith(f"{path}:{note + 1}: this line cannot be read")
    assert len(contents.records) == len(lines) - 1
    assert contents.state().notes == ()
    assert contents.state().closed is not None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [(b"mind", b"mi\0d", "this line cannot be read"), (b"mind", b"mine", "was altered")],
)
def test_damage_in_the_middle_is_not_gone_on_behind(tmp_path, old, new, said):
    """The end is cut as well, as a crash leaves it: that alone would be put aside."""
    folder = tmp_path / "s"
    written(folder)
    path = journal_path(folder)
    content = path.read_bytes()
    number = content.count(b"\n", 0, content.index(old)) + 1
    path.write_bytes(content.replace(old, new, 1)[:-5])
    before = path.read_bytes()
    for open_again in (lambda: Journal.reopen(folder, NOTHING_SECRET), lambda: settings_of(folder)):
        with pytest.raises(UserError, match=said) as caught:
            open_again()
        assert (caught.value.file, caught.value.place.line) == (str(path), number)
        assert f"astra-tui verify {folder}" in caught.value.hint
    assert path.read_bytes() == before
    assert not list(folder.glob("journal.damaged-*"))
    assert writer_of(folder) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"note_added"', b'"note_sung"', "note_sung"),
        (b'"text":"mind the tail"', b'"text":7', "Expected `str`"),
        (b'"seq":', b'"seq":-', "after number"),
        (b'"text":', b'"new":' + b"[" * 5000 + b"]" * 5000 + b',"text":', "recursion"),
    ],
)
def test_lines_that_mean_nothing_are_damage(tmp_path, old, new, said):
    written(tmp_path / "s")
    path = journal_path(tmp_path / "s")
    lines = path.read_bytes().splitlines(keepends=True)
    note = next(n for n, line in enumerate(lines) if b"note_added" in line)
    lines[note] = lines[note].replace(old, new)
    path.write_bytes(b"".join(lines))
    (damage,) = read_journal(tmp_path / "s").damage
    assert damage.line == note + 1
    assert said in damage.message


@pytest.mark.parametrize(
    ("message", "decode"), [(Done(1), decode_from_engine), (Pause(1), decode_from_front_end)]
)
def test_a_message_that_is_nested_deep_is_refused(message, decode):
    line = encode_message(message)
    assert decode(line) == message
    deep = line.replace(b"{", b'{"new":' + b"[" * 5000 + b"]" * 5000 + b",", 1)
    with pytest.raises(MalformedMessage, match="recursion"):
        decode(deep)


def test_a_newer_schema_is_refused(tmp_path):
    with Journal.create(tmp_path, NOTHING_SECRET) as journal:
        journal.append(opened(schema=events.SCHEMA_VERSION + 1))
    with pytest.raises(UserError, match="upgrade astra-tui"):
        read_journal(tmp_path)
    with pytest.raises(UserError, match=r"journal\.jsonl:1: .*schema 2"):
        Journal.reopen(tmp_path, NOTHING_SECRET)


def test_records_that_cannot_follow_each_other_are_no_state(tmp_path):
    with Journal.create(tmp_path, NOTHING_SECRET) as journal:
        journal.append(RoundClosed(3))
    with pytest.raises(ImpossibleEvent):
        read_journal(tmp_path).state()


def test_transient_events_are_refused(tmp_path):
    journal = Journal.create(tmp_path, NOTHING_SECRET)
    with journal, pytest.raises(TypeError, match="TextStreamed"):
        journal.append(TextStreamed("coding", "x"))
    assert journal_path(tmp_path).read_bytes() == b""


def test_a_closed_journal_takes_nothing(tmp_path):
    journal = Journal.create(tmp_path, NOTHING_SECRET)
    journal.close()
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.append(opened())


def test_a_session_is_created_once(tmp_path):
    Journal.create(tmp_path, NOTHING_SECRET).close()
    with pytest.raises(UserError, match="already"):
        Journal.create(tmp_path, NOTHING_SECRET)
    Journal.reopen(tmp_path, NOTHING_SECRET).close()


def test_reopening_nothing_makes_nothing(tmp_path):
    with pytest.raises(UserError, match="holds no session"):
        Journal.reopen(tmp_path / "s", NOTHING_SECRET)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    def half(handle, content, offset):
        os.lseek(handle, offset, os.SEEK_SET)
        os.write(handle, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    with Journal.create(tmp_path, NOTHING_SECRET) as journal:
        journal.append(opened())
        monkeypatch.setattr(os, "pwrite", half)
        with pytest.raises(UserError, match="No space left"):
            journal.append(RoundClosed(0))
        monkeypatch.undo()
        journal.append(whole_session()[1])
    contents = read_journal(tmp_path)
    assert contents.damage == ()
    assert contents.events == tuple(whole_session()[:2])


def test_a_second_writer_is_refused_by_name(tmp_path, holder):
    with pytest.raises(UserError, match=f"process {holder.pid} on .* writes this session"):
        Journal.reopen(tmp_path / "s", NOTHING_SECRET)
    assert writer_of(tmp_path / "s").pid == holder.pid
    assert read_journal(tmp_path / "s").damage == ()


def test_a_killed_writer_holds_nothing(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert writer_of(tmp_path / "s") is None
    with Journal.reopen(tmp_path / "s", NOTHING_SECRET):
        assert writer_of(tmp_path / "s").pid == os.getpid()
    assert writer_of(tmp_path / "s") is None


@pytest.mark.parametrize("text", ["", BASELINE_SOURCE, "naïve\u2028\x0c\n", "no line feed"])
def test_texts_come_back_byte_for_byte(tmp_path, text):
    with Journal.create(tmp_path, NOTHING_SECRET) as journal:
        hash_ = journal.put_source(text)
        assert journal.put(text) == hash_
        assert journal.get(hash_) == text
    assert blob_path(tmp_path, hash_).read_bytes() == text.encode()
    assert source_path(tmp_path, hash_).read_bytes() == text.encode()
    stored = [p for p in (tmp_path / "blobs").rglob("*") if p.is_file()]
    assert stored == [blob_path(tmp_path, hash_)]


def test_every_folder_that_is_made_lasts_and_no_other_is_written_again(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def noted(handle):
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    folder = tmp_path / "new" / "root" / "s"
    with Journal.create(folder, NOTHING_SECRET) as journal:
        assert set(synced) == {tmp_path, tmp_path / "new", folder.parent, folder}
        synced.clear()
        first = blob_path(folder, journal.put("text")).parent
        assert {folder, first.parent, first} <= set(synced)
        beside = next(t for t in map(str, itertools.count()) if content_hash(t)[:2] == first.name)
        synced.clear()
        journal.put(beside)
        assert len(synced) == 2, "the text and its name"
    synced.clear()
    made = new_session_folder(tmp_path / "other", "task", datetime.now())
    assert set(synced) == {tmp_path, made.parent}


def test_missing_and_damaged_texts_are_named(tmp_path):
    with Journal.create(tmp_path, NOTHING_SECRET) as journal:
        hash_ = journal.put("text")
        blob_path(tmp_path, hash_).write_text("other")
        with pytest.raises(UserError, match=f"{hash_}: this text is damaged"):
            journal.get(hash_)
        assert journal.put("text") == hash_
        assert journal.get(hash_) == "text"
        blob_path(tmp_path, hash_).unlink()
        with pytest.raises(UserError, match="is missing"):
            journal.get(hash_)
        with pytest.raises(UserError, match="names no stored text"):
            journal.get("../../etc/passwd")
