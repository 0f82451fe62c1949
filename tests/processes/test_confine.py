"""The limits that a child puts on itself, tried out by a child that does so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astra_tui.processes.confine import landlock_abi

needs_landlock = pytest.mark.skipif(
    landlock_abi() < 1, reason="this kernel has no Landlock (Linux 5.13 or newer has)"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a confined process could do."""
    base = tmp_path_factory.mktemp("confine")
    inside, outside = base / "inside", base / "secret"
    (inside / "folder").mkdir(parents=True)
    (inside / "file").write_text("fine")
    (inside / "folder" / "file").write_text("fine")
    outside.write_text("secret")
    (inside / "link").symlink_to(outside)
    command = [sys.executable, str(Path(__file__).with_name("confined_child.py"))]
    done = subprocess.run(
        [*command, str(inside), str(outside), str(base / "scratch")],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return {**result, "base": base}


@needs_landlock
def test_a_confined_process_says_so(report: dict[str, Any]) -> None:
    assert report["confined"] is True


@needs_landlock
@pytest.mark.parametrize("what", ["read inside", "read below", "list inside"])
def test_reading_inside_works(report: dict[str, Any], what: str) -> None:
    assert report["outcomes"][what] == "done"


@needs_landlock
@pytest.mark.parametrize(
    "what",
    [
        *("write inside", "create inside", "remove inside", "read outside", "list outside"),
        *("read through a link", "read through dots", "write outside", "create outside"),
        *("own environment", "parent's environment"),
    ],
)
def test_everything_else_is_denied(report: dict[str, Any], what: str) -> None:
    assert report["outcomes"][what] == "EACCES"


@needs_landlock
def test_nothing_was_changed(report: dict[str, Any]) -> None:
    base: Path = report["base"]
    assert (base / "secret").read_text() == "secret"
    assert (base / "inside" / "file").read_text() == "fine"
    assert not (base / "inside" / "new").exists()
    assert not (base / "new").exists()


@needs_landlock
def test_that_a_file_exists_can_still_be_found_out(report: dict[str, Any]) -> None:
    # Landlock denies opening, not looking up: the directive scan and the log hide the rest.
    assert report["outcomes"]["read missing"] == "ENOENT"


@pytest.mark.skipif(landlock_abi() < 4, reason="Landlock restricts TCP from ABI 4 (Linux 6.7)")
def test_tcp_is_denied(report: dict[str, Any]) -> None:
    assert report["outcomes"]["listen"] == "EACCES"


@pytest.mark.skipif(landlock_abi() < 6, reason="Landlock restricts signals from ABI 6 (Linux 6.12)")
def test_signals_to_others_are_denied(report: dict[str, Any]) -> None:
    assert report["outcomes"]["signal the parent"] == "EPERM"


def test_memory_files_and_core_dumps_are_bounded(report: dict[str, Any]) -> None:
    assert report["outcomes"]["take too much memory"] == "MemoryError"
    assert report["outcomes"]["write 100 bytes"] == "done"
    assert report["outcomes"]["write 1 byte more"] == "EFBIG"
    assert report["core"] == [0, 0]
