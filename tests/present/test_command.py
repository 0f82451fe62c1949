"""`astra-tui report`, and sessions that are not whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.json_answers import ReportAnswer
from astra_tui.model.errors import UserError
from astra_tui.present.report import write_report
from astra_tui.sessions.folder import blob_path
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_reader import journal_path
from tests.cli.command import Shell
from tests.present.conftest import html_of, markdown_of, timed_session
from tests.present.page import Page, markdown_tables
from tests.sessions.samples import BASELINE, BETTER, write_whole


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "home").mkdir()
    return Shell(tmp_path)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """In the folder where the shell looks names up."""
    return write_whole(tmp_path / "sessions" / "sample", timed_session())


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_both_files_are_named_after_the_session(shell: Shell, session: Path) -> None:
    before = files(session)
    outcome = shell.run("report", "sample")
    assert (outcome.code, outcome.err) == (ExitCode.OK, "")
    assert outcome.out == "html      sample.html\nmarkdown  sample.md\n"
    assert (shell.folder / "sample.html").read_text(encoding="utf-8") == html_of(session)
    assert (shell.folder / "sample.md").read_text(encoding="utf-8") == markdown_of(session)
    assert files(session) == before


@pytest.mark.parametrize(("flag", "name"), [("--html-only", "html"), ("--markdown-only", "md")])
def test_one_of_them(shell: Shell, session: Path, flag: str, name: str) -> None:
    outcome = shell.run("report", str(session), "--out", "made/here", flag, "--json")
    answer = msgspec.json.decode(outcome.out, type=ReportAnswer)
    assert [p.name for p in (shell.folder / "made" / "here").iterdir()] == [f"sample.{name}"]
    path = f"made/here/sample.{name}"
    html, markdown = (path if name == kind else None for kind in ("html", "md"))
    trust = read_session(session).trust
    assert trust.whole
    assert answer == ReportAnswer(str(session), html, markdown, (), trust)


def test_a_session_that_comes_with_the_program_needs_no_folder(shell: Shell) -> None:
    outcome = shell.run("report", "h100-playbook-silu", "--markdown-only")
    assert (outcome.code, outcome.out) == (ExitCode.OK, "markdown  h100-playbook-silu.md\n")


def test_a_session_that_is_not_there(shell: Shell, session: Path) -> None:
    outcome = shell.run("report", "sampel", "--json")
    assert outcome.code == ExitCode.BAD_INPUT
    assert "there is no session 'sampel'" in outcome.err
    assert "sample" in outcome.err.splitlines()[1]


def test_damage_is_said_and_the_rest_is_reported(shell: Shell, session: Path) -> None:
    journal = journal_path(session)
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[14] = b'{"seq": 14, "nonsense\n'
    journal.write_bytes(b"".join(lines))
    outcome = shell.run("report", "sample")
    assert outcome.code == ExitCode.OK
    assert "journal.jsonl:15: this line cannot be read" in outcome.err
    (header,) = Page((shell.folder / "sample.html").read_text(encoding="utf-8")).all("header")
    assert "1 part of the journal cannot be read" in header.text


def test_an_altered_journal_is_said_at_the_top_of_both_files(shell: Shell, session: Path) -> None:
    journal = journal_path(session)
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[14] = lines[14].replace('"mono":', '"mono":1', 1)
    journal.write_text("".join(lines), encoding="utf-8")
    outcome = shell.run("report", "sample")
    assert outcome.code == ExitCode.OK
    assert "journal.jsonl:15: this line, or one that stood before it, was altered" in outcome.err
    said = "This session was altered, so that nothing in this report can be relied on: line 15"
    (header,) = Page((shell.folder / "sample.html").read_text(encoding="utf-8")).all("header")
    assert said in header.text
    markdown = (shell.folder / "sample.md").read_text(encoding="utf-8")
    assert said in markdown.partition("## ")[0].replace("**", "")


def test_every_beginning_of_a_session_has_a_report(session: Path, tmp_path: Path) -> None:
    lines = journal_path(session).read_bytes().splitlines(keepends=True)
    for count in range(1, len(lines)):
        journal_path(session).write_bytes(b"".join(lines[:count]))
        assert Page(html_of(session)).tables
        assert markdown_tables(markdown_of(session))


def test_a_journal_that_no_engine_wrote_is_refused(session: Path, tmp_path: Path) -> None:
    lines = journal_path(session).read_bytes().splitlines(keepends=True)
    journal_path(session).write_bytes(b"".join(lines[1:]))
    with pytest.raises(UserError, match="does not begin with the opening"):
        write_report(read_session(session), tmp_path)
    journal_path(session).write_bytes(b"".join([lines[0], *lines[11:]]))
    with pytest.raises(UserError, match="make no sense: event 11"):
        write_report(read_session(session), tmp_path)


def test_lost_and_altered_sources_are_said_to_be_so(session: Path) -> None:
    blob_path(session, BASELINE).write_bytes(b"something else")
    blob_path(session, BETTER).unlink()
    text = Page(html_of(session)).text
    assert "this text is damaged: its hash is not its name" in text
    assert "of this session is missing" in text


def test_an_altered_journal_does_not_agree_with_its_digest(emulated: Path, tmp_path: Path) -> None:
    assert " agrees with the events before it" in html_of(emulated)
    copy = shutil.copytree(emulated, tmp_path / "copy")
    journal = journal_path(copy)
    journal.write_bytes(journal.read_bytes().replace(b'"wide loads"', b'"Wide loads"'))
    assert "is not what this version makes of the events" in html_of(copy)


def test_a_link_in_the_place_of_a_report_is_replaced(session: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("mine", encoding="utf-8")
    (tmp_path / "sample.html").symlink_to(other)
    write_report(read_session(session), tmp_path)
    assert other.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "sample.html").is_symlink()


def test_a_folder_that_cannot_be_written_is_named(session: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=r"cannot be written") as caught:
        write_report(read_session(session), tmp_path / "file")
    assert caught.value.file.endswith("sample.html")
    assert "--out" in caught.value.hint
