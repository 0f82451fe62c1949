from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model.errors import UserError
from astra_tui.model.events import EngineStarted
from astra_tui.model.fold import apply
from astra_tui.sessions.integrity import check_integrity
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.sessions.journal_writer import Journal, Redactor

from .samples import whole_session, write_whole


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "s"
    write_whole(folder)
    return folder


def is_whole(folder: Path) -> bool:
    try:
        return check_integrity(folder)[0].whole
    except UserError:
        return False


def lines_with_flaws(folder: Path) -> set[int]:
    try:
        return {flaw.line for flaw in check_integrity(folder)[0].flaws}
    except UserError as error:  # The number was that of the schema, and is none that is known.
        return {error.place.line}


def covered(folder: Path) -> list[Path]:
    """The files that say something about the session."""
    named = [journal_path(folder), *folder.rglob("blobs/*/*"), *folder.rglob("sources/*")]
    return sorted(named)


def test_what_an_engine_wrote_is_whole(original):
    report, state = check_integrity(original)
    assert report.flaws == ()
    assert (report.events, report.texts, report.closings) == (len(whole_session()), 6, 1)
    assert report.digest == state.closed.digest
    assert journal_path(original).read_text().endswith(f'"seal":"{report.seal}"}}\n')


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_altered_byte_is_seen(original, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("altered") / "s"
    shutil.copytree(original, folder)
    path = data.draw(st.sampled_from(covered(folder)))
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert not is_whole(folder)
    shutil.rmtree(folder)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_altered_number_is_seen_at_its_line(original, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("number") / "s"
    shutil.copytree(original, folder)
    text = journal_path(folder).read_text()
    numbers = list(re.finditer(r"(?<=[:,\[])\d+(?=[.,\]}])", text))
    chosen = data.draw(st.sampled_from(numbers))
    other = str(int(chosen[0]) + data.draw(st.integers(1, 9)))
    journal_path(folder).write_text(text[: chosen.start()] + other + text[chosen.end() :])
    assert text.count("\n", 0, chosen.start()) + 1 in lines_with_flaws(folder)
    shutil.rmtree(folder)


def test_numbers_that_the_state_forgets_are_covered(original, tmp_path):
    """The samples of a timing are in no state: the digest alone would not see them."""
    folder = tmp_path / "s"
    shutil.copytree(original, folder)
    text = journal_path(folder).read_text()
    assert text.count("[2.1,1.6]") == 1
    journal_path(folder).write_text(text.replace("[2.1,1.6]", "[2.1,1.5]"))
    report, state = check_integrity(folder)
    assert report.digest == state.closed.digest
    assert [f.line for f in report.flaws] == [text.count("\n", 0, text.index("[2.1")) + 1]


def lines_of(folder: Path) -> list[bytes]:
    return journal_path(folder).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("cut", [1, 2, 10])
def test_a_session_whose_end_was_cut_is_not_whole(original, tmp_path, cut):
    shutil.copytree(original, tmp_path / "s")
    journal_path(tmp_path / "s").write_bytes(b"".join(lines_of(original)[:-cut]))
    (flaw,) = check_integrity(tmp_path / "s")[0].flaws
    assert "was not closed" in flaw.message


def test_lines_that_are_moved_doubled_or_taken_out_are_seen(original, tmp_path):
    lines = lines_of(original)
    for number, changed in enumerate(
        (
            [*lines[:5], *lines[6:]],
            [*lines[:5], lines[6], lines[5], *lines[7:]],
            [*lines[:5], lines[5], *lines[5:]],
        )
    ):
        folder = tmp_path / str(number)
        shutil.copytree(original, folder)
        journal_path(folder).write_bytes(b"".join(changed))
        assert not is_whole(folder)


def test_missing_and_foreign_texts_are_seen(original, tmp_path):
    folder = tmp_path / "s"
    shutil.copytree(original, folder)
    next(folder.glob("blobs/*/*")).unlink()
    (folder / "blobs" / "payload.so").write_bytes(b"\x7fELF")
    messages = " ".join(f.message for f in check_integrity(folder)[0].flaws)
    assert "is missing" in messages
    assert "no engine wrote a file of this name" in messages


def test_a_journal_that_is_computed_anew_is_told_by_its_last_seal_alone(original, tmp_path):
    write_whole(tmp_path / "again")
    again, _ = check_integrity(tmp_path / "again")
    assert again.whole
    assert again.seal != check_integrity(original)[0].seal, "other times make other seals"


def test_an_engine_that_went_on_is_sealed_behind_the_one_before(original, tmp_path):
    folder = tmp_path / "s"
    shutil.copytree(original, folder)
    with Journal.reopen(folder, Redactor(environment={})) as journal:
        state = apply(journal.found.state(), journal.append(EngineStarted("h", 1, 9)).event)
        closed = journal.found.records[-1].event
        journal.append(replace(closed, digest=state.digest()))
    report, _ = check_integrity(folder)
    assert (report.flaws, report.closings) == ((), 2)


def test_links_out_of_the_folder_are_not_followed(original, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "s"
    shutil.copytree(original, folder)
    blob = next(folder.glob("blobs/*/*"))
    shutil.move(blob, outside / "text")
    blob.symlink_to(outside / "text")
    assert "holds no links" in check_integrity(folder)[0].flaws[0].message
    with pytest.raises(UserError, match="holds no links"):
        Journal.reopen(folder, Redactor(environment={}))
    journal_path(folder).unlink()
    journal_path(folder).symlink_to(journal_path(original))
    with pytest.raises(UserError, match="holds no links"):
        check_integrity(folder)


def test_a_pipe_in_the_place_of_a_journal_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "journal.jsonl")
    with pytest.raises(UserError, match="not a plain file"):
        check_integrity(tmp_path)
