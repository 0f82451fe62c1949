"""What an export says of its session, and what `verify FILE` finds: the commands, in process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_tui.cli import main
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.export import Format, export_files
from astra_tui.export.formats import format_of
from astra_tui.model.task import KernelTask
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_reader import journal_path
from tests.export.sessions import tuned
from tests.export.test_host_code import compiled_to_nothing, subject
from tests.sessions.fuzz_commands import originals
from tests.sessions.fuzz_sessions import _write_sealed


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return originals(tmp_path_factory.mktemp("originals"))[0]


@pytest.fixture
def place(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with sessions/session, in which commands run."""
    shutil.copytree(original, tmp_path / "sessions" / "session")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def export(to: str, *flags: str) -> int:
    return main(["export", "session", "--to", to, "--no-check", "--out", to, *flags])


def alter(old: str, new: str) -> None:
    path = journal_path(Path("sessions/session"))
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize("name", ["cu/silu_and_mul.cu", "patch/silu_and_mul.patch"])
def test_an_export_is_what_its_session_makes(place: Path, name: str, capsys) -> None:
    assert export(name.partition("/")[0]) == ExitCode.OK
    assert main(["verify", name]) == ExitCode.OK
    file, seal = place / name, read_session(Path("sessions/session")).trust.seal
    text = file.read_text(encoding="utf-8")
    assert f"whole, 24 lines, checksum of the last one {seal}" in " ".join(text.split())
    for old, new, problem in (
        ("3 of 3 cases", "9 of 9 cases", "verdict: the file says"),
        ("fewer requests", "much faster", "verdict: the file says"),
        ("engineer ada", "engineer eve", "author: the file says"),
        (seal, "0" * 32, "no line of the session has the checksum"),
        ("out", "in", "is not what the session makes"),
    ):
        head, mark, body = text.partition("\n\n")
        body = body.replace(old, new, 1) if old == "out" else body
        head = head if old == "out" else head.replace(old, new, 1)
        file.write_text(head + mark + body, encoding="utf-8")
        assert file.read_text(encoding="utf-8") != text
        capsys.readouterr()
        assert main(["verify", name]) == ExitCode.FAILED
        assert problem in " ".join(capsys.readouterr().out.split())


def test_an_altered_session_is_exported_only_where_that_is_allowed(place: Path, capsys) -> None:
    alter("fewer requests", "9.5 times faster")
    assert export("cu") == ExitCode.BAD_INPUT
    assert "journal.jsonl:21: this session was altered" in capsys.readouterr().err
    assert not (place / "cu").exists()
    assert export("cu", "--allow-altered") == ExitCode.OK
    assert "ALTERED at line 21" in (place / "cu" / "silu_and_mul.cu").read_text(encoding="utf-8")
    assert main(["verify", "cu/silu_and_mul.cu"]) == ExitCode.FAILED


def test_a_cut_session_is_exported_with_a_mark(place: Path, capsys) -> None:
    path = journal_path(Path("sessions/session"))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert export("cu") == ExitCode.OK
    assert "the session is cut at" in capsys.readouterr().err
    assert "CUT at line 23" in (place / "cu" / "silu_and_mul.cu").read_text(encoding="utf-8")
    assert main(["verify", "cu/silu_and_mul.cu"]) == ExitCode.OK


def test_a_session_that_was_computed_again_is_not_that_of_the_file(place: Path, capsys) -> None:
    assert export("cu") == ExitCode.OK
    alter("fewer requests", "9.5 times faster")
    session = Path("sessions/session")
    _write_sealed(session, journal_path(session).read_bytes().splitlines())
    assert main(["verify", "cu/silu_and_mul.cu"]) == ExitCode.FAILED
    assert "not what its session makes" in capsys.readouterr().err


def test_a_file_that_is_no_export_is_refused(place: Path, capsys) -> None:
    (place / "x.cu").write_text("__global__ void k() {}\n", encoding="utf-8")
    assert main(["verify", "x.cu"]) == ExitCode.BAD_INPUT
    assert "it has no header" in capsys.readouterr().err


def test_a_file_of_no_form_is_refused(place: Path, capsys) -> None:
    assert export("cu") == ExitCode.OK
    file = place / "cu" / "silu_and_mul.cu"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("kernels and launch plan.", "a kernel.", 1), encoding="utf-8")
    assert main(["verify", "cu/silu_and_mul.cu"]) == ExitCode.BAD_INPUT
    assert "'silu_and_mul: a kernel' is what no file of an export says" in capsys.readouterr().err


@pytest.mark.parametrize("to", Format)
def test_files_say_of_which_form_they_are(tasks: dict[str, KernelTask], to: Format) -> None:
    found = compiled_to_nothing(subject(tasks["silu_and_mul"], tuned(tasks["silu_and_mul"])))
    first = [str(text).partition("\n")[0] for text in export_files(found, to).values()]
    marked = [line.lstrip("/# ").split(". Written by ")[0] for line in first if " Written " in line]
    forms = {format_of(what) for what in marked}
    assert forms == ({Format.CPP, to} if to is Format.TVM_FFI else {to})
