"""The one door to a session's files: what it refuses, and that nothing goes past it."""

from __future__ import annotations

import ast
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.sessions import safe_open
from astra_tui.sessions.journal_reader import pack
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.sessions.safe_open import open_to_write, write_inside
from astra_tui.sessions.store import place_for
from tests.conftest import ROOT

from .samples import write_whole

OUTSIDE = "precious\n"
WRITERS = {"write_bytes", "write_text", "truncate", "mkstemp", "ftruncate", "copy", "copyfile",
           "copytree", "move", "symlink_to", "hardlink_to", "link", "symlink", "touch"}  # fmt: skip
ELSEWHERE = {
    "sessions/safe_open.py": "the door itself",
    "sessions/journal_writer.py": "shortens the journal by the handle that the door gave",
    "sessions/folder.py": "empties the lock by the handle that the door gave",
    "export/exporting.py": "an export, in a new folder of its own",
    "export/checks.py": "scratch copies in a temporary folder",
    "export/host.py": "scratch sources in a temporary folder",
    "engine/process.py": "/dev/null",
    "cli/read_file.py": "only reads",
    "cli/commands/tune.py": "the tuned source, where --out says",
    "sessions/experience.py": "the lock of the memory",
    "cli/drafting.py": "a draft, in a folder of its own",
    "cli/streams.py": "the standard streams",
    "cli/__init__.py": "/dev/null",
}


def writes(file: Path) -> Iterator[str]:
    """Calls that may write a file otherwise than by the door."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        words = {a.value for a in node.args if isinstance(a, ast.Constant)}
        modes = {w for w in words if isinstance(w, str) and len(w) <= 3 and set(w) & set("wax+")}
        if name in WRITERS and ast.unparse(node.func) != "journal.copy":
            yield f"{name} in line {node.lineno}"
        if name == "open" and (modes or ast.unparse(node.func) == "os.open"):
            yield f"open in line {node.lineno}"


def test_nothing_else_writes_files_of_a_session() -> None:
    found = {
        str(file.relative_to(ROOT / "astra_tui")): list(writes(file))
        for room in ("sessions", "engine", "export", "cli")
        for file in (ROOT / "astra_tui" / room).rglob("*.py")
        if "templates" not in file.parts
    }
    past_it = {name: calls for name, calls in found.items() if calls and name not in ELSEWHERE}
    assert past_it == {}
    assert {name for name in ELSEWHERE if not found[name]} == set()


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text(OUTSIDE, encoding="utf-8")
    return write_whole(tmp_path / "s")


def reopen(folder: Path) -> None:
    Journal.reopen(folder, Redactor(environment={})).close()


@pytest.mark.parametrize("write", [pack, reopen])
@pytest.mark.parametrize("name", ["journal.jsonl.gz", "lock", "engine.log", "blobs/00"])
@pytest.mark.parametrize("made", ["link", "dangling", "pipe", "hard link"])
def test_no_link_and_no_pipe_is_written(session: Path, write, name: str, made: str) -> None:
    outside, path = session.parent / "outside", session / name
    path.unlink(missing_ok=True)
    match made:
        case "link":
            path.symlink_to(outside)
        case "dangling":
            path.symlink_to(session.parent / "new")
        case "pipe":
            os.mkfifo(path)
        case "hard link":
            os.link(outside, path)
    if made == "hard link":
        if name == "lock" and write is reopen:
            with pytest.raises(UserError, match="second name"):
                write(session)
        else:
            write(session)
    else:
        with pytest.raises(UserError, match=r"no links|not a plain file"):
            write(session)
    assert outside.read_text(encoding="utf-8") == OUTSIDE
    assert sorted(p.name for p in session.parent.iterdir()) == ["outside", "s"]


def test_an_engine_log_with_a_second_name_is_not_appended_to(session: Path) -> None:
    os.link(session.parent / "outside", session / "engine.log")
    with pytest.raises(UserError, match="second name"):
        open_to_write(session, "engine.log", os.O_APPEND)


def test_names_that_lead_out_are_refused(session: Path) -> None:
    for name in ("../outside", "/etc/passwd", "blobs/../../outside"):
        with pytest.raises(UserError, match="outside of the folder"):
            write_inside(session, name, b"x")
    (session / "made").symlink_to(session.parent)
    with pytest.raises(UserError, match="no links"):
        place_for(session / "made" / "report.html")
    with pytest.raises(UserError, match="no links"):
        write_inside(session, "made/outside", b"x")
    assert (session.parent / "outside").read_text(encoding="utf-8") == OUTSIDE


def test_a_session_is_private(session: Path) -> None:
    for path in (session, *session.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_full_disk_is_no_bad_input(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(safe_open.os, "fsync", full)
    with pytest.raises(OutOfResources, match="No space left"):
        write_inside(session, "blobs/ab/x", b"x" * 100)
    assert not (session / "blobs" / "ab" / "x").exists()
    assert list((session / "blobs" / "ab").iterdir()) == []
