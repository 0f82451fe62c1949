"""A process that ends, or a power that goes, at each change of a session's files.

Injected where the C library calls the kernel (`crash_at.c`), so that no layer of Python is trusted.
With ASTRA_TUI_EVERY_CRASH=1 a process ends at each of the changes, in both ways, for minutes.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from astra_tui.model.errors import UserError
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import named_texts
from astra_tui.sessions.journal_reader import JournalContents, read_journal
from tests.conftest import ROOT
from tests.sessions.crash.disk import Change, Disk, read_trace
from tests.sessions.crash.writer import events_to_write

CUT_BY_THE_SHIM = 137
STATES_A_CHANGE = 2
"""States of the disk that are looked at after each change."""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to build what is put between Python and the kernel")
    library = tmp_path_factory.mktemp("shim") / "crash_at.so"
    source = Path(__file__).with_name("crash_at.c")
    flags = ["-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run([compiler, *flags], check=True, capture_output=True)
    return library


def write(place: Path, shim: Path | None = None, **crash: str) -> int:
    """Runs the writer on `place`/session; its exit code."""
    place.mkdir(exist_ok=True)
    added = {"PYTHONPATH": str(ROOT)}
    if shim is not None:
        added |= {"LD_PRELOAD": str(shim), "CRASH_FOLDER": str(place), **crash}
        added["CRASH_TRACE"] = str(trace_of(place))
    command = [sys.executable, "-m", "tests.sessions.crash.writer"]
    ended = subprocess.run(
        [*command, str(place / "session"), str(place / "acknowledged")],
        env={**os.environ, **added},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (0, CUT_BY_THE_SHIM), ended.stderr
    return ended.returncode


def trace_of(place: Path) -> Path:
    return place.with_name(place.name + ".trace")


def acknowledged(place: Path) -> list[tuple[int, bool]]:
    """Numbers of events whose writing returned, and whether they were synced."""
    file = place / "acknowledged"
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [(int(number), synced == b"1") for number, synced in map(bytes.split, lines)]


def require_there(session: Path, count: int) -> JournalContents:
    """The journal, of which the first `count` events and all their texts have to be there."""
    contents = read_journal(session)
    events = events_to_write()
    assert contents.events[:count] == tuple(events[:count])
    for text in named_texts(contents.records[:count]):
        read_blob(session, text)
    return contents


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, shim: Path) -> tuple[Path, list[Change]]:
    """An undisturbed session, and its trace."""
    place = tmp_path_factory.mktemp("crash") / "whole"
    assert write(place, shim) == 0
    return place, read_trace(trace_of(place))


def changes_to_end_at(count: int, chance: random.Random) -> list[int]:
    """A few, since each takes two processes; all of them where the environment says so."""
    every = range(count)
    return list(every) if os.environ.get("ASTRA_TUI_EVERY_CRASH") else chance.sample(every, 4)


def test_a_process_that_ends_at_any_change_keeps_what_it_acknowledged(
    tmp_path: Path, shim: Path, whole: tuple[Path, list[Change]]
) -> None:
    undisturbed = read_journal(whole[0] / "session").events
    chance = random.Random(5)
    for torn in ("", "1"):
        for at in changes_to_end_at(len(whole[1]), chance):
            place = tmp_path / f"{at}-{torn}"
            crash = {"CRASH_AT": str(at), **({"CRASH_TORN": torn} if torn else {})}
            assert write(place, shim, **crash) == CUT_BY_THE_SHIM
            session = place / "session"
            if acknowledged(place):
                require_there(session, acknowledged(place)[-1][0] + 1)
            assert write(place) == 0
            assert require_there(session, len(undisturbed)).events == undisturbed


def test_a_power_cut_at_any_change_keeps_what_was_synced(
    tmp_path: Path, whole: tuple[Path, list[Change]]
) -> None:
    place, trace = whole
    disk, chance = Disk(place), random.Random(7)
    events, kept = events_to_write(), 0
    states = 0
    for number, change in enumerate(trace):
        disk.apply(change)
        if change.path.name == "acknowledged":
            if change.what == "write" and change.data.endswith(b" 1\n"):
                kept = int(change.data.split()[0]) + 1
            continue
        for state in range(STATES_A_CHANGE):
            left = tmp_path / f"{number}.{state}"
            disk.leave(left, chance)
            session = left / "session"
            if kept:
                require_there(session, kept)
            elif (session / "journal.jsonl").exists():
                with suppress(UserError):  # Nothing was promised yet; nothing may crash.
                    read_journal(session)
            states += 1
            shutil.rmtree(left)
    assert kept == len(events)
    assert states > 2 * len(events)
