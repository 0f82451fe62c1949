"""A device that processes of one user share: side by side, or one alone."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from astra_tui.processes.shared_device import DeviceBusy, SharedDevice

NAME = "GPU-1"
SLEEPS = [sys.executable, "-c", "import sys; sys.stdin.read()"]
TAKES = """
import sys
from pathlib import Path
from astra_tui.processes.shared_device import SharedDevice
with SharedDevice("GPU-1", Path(sys.argv[1])).alone():
    print("alone", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def another(tmp_path: Path) -> Callable[..., SharedDevice]:
    """Makes what another process would have: locks belong to the opened file."""

    def make(seconds: float = 600.0) -> SharedDevice:
        return SharedDevice(NAME, tmp_path / "devices", seconds)

    return make


def is_free(device: SharedDevice) -> bool:
    """Whether one can have it alone, and at once."""
    try:
        with device.alone():
            return True
    except DeviceBusy:
        return False


def test_many_use_it_side_by_side_and_one_alone(another):
    one, two, impatient = another(), another(), another(0.0)
    with one.together():
        with two.together(), two.together():
            assert not is_free(impatient)
        assert not is_free(impatient)
    assert is_free(impatient)
    with one.alone():
        assert not is_free(impatient)
        with one.together(), one.alone():  # What a timing asks of its own process.
            assert not is_free(impatient)
        assert not is_free(impatient)
    assert is_free(impatient)


def test_who_waits_to_have_it_alone_goes_before_those_who_come_later(another, tmp_path):
    order: list[str] = []

    def take(name: str, use: AbstractContextManager[None]) -> None:
        with use:
            order.append(name)

    with ThreadPoolExecutor() as pool:
        with another().together():
            timing = pool.submit(take, "timing", another().alone())
            while not is_taken(tmp_path / "devices" / NAME / "turn"):
                pass
            checks = [pool.submit(take, "check", another().together()) for _ in range(3)]
            assert not order
        for done in (timing, *checks):
            done.result()
    assert order == ["timing", "check", "check", "check"]


def is_taken(file: Path) -> bool:
    with file.open("wb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_who_waits_too_long_is_told_or_goes_on(another):
    with another().alone():
        with pytest.raises(DeviceBusy, match="other sessions of this user have used GPU-1 for 0 s"):
            another(0.0).alone().__enter__()
        with another(0.0).together():  # It must have stopped; a check is right all the same.
            pass


def test_a_child_that_was_given_a_use_keeps_others_out_until_it_has_closed_it(another):
    device, impatient = another(), another(0.0)
    with device.together():
        given = device.join()
        assert given is not None
        child = subprocess.Popen(SLEEPS, stdin=subprocess.PIPE, pass_fds=(given,))
        os.close(given)
    assert not is_free(impatient)
    child.communicate()
    assert is_free(impatient)
    with device.alone():
        assert device.join() is None, "its own child uses it within its own time alone"


def test_the_kernel_takes_it_from_a_process_that_was_killed(another, tmp_path):
    command = [sys.executable, "-c", TAKES, str(tmp_path / "devices")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"alone\n"
    assert not is_free(another(0.0))
    holder.kill()
    holder.communicate()
    assert is_free(another(0.0))


def test_holders_are_those_that_were_noted_and_live(another, tmp_path):
    child = subprocess.Popen(SLEEPS, stdin=subprocess.PIPE)
    another().note_holder(child.pid)
    another().note_holder(os.getpid())
    assert another().holders() == {child.pid, os.getpid()}
    child.communicate()
    assert another().holders() == {os.getpid()}
    note = tmp_path / "devices" / NAME / f"holder-{os.getpid()}"
    note.write_text("1", encoding="ascii")  # Of one that had this id before.
    assert another().holders() == frozenset()
    assert not note.exists()
    another().note_holder(child.pid)
    assert not note.with_name(f"holder-{child.pid}").exists()


def test_nothing_is_agreed_in_a_folder_that_is_not_this_users_alone(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "devices").symlink_to(tmp_path / "theirs")
    one, two = (SharedDevice(NAME, tmp_path / "devices", 0.0) for _ in range(2))
    with one.alone(), two.alone():
        assert one.join() is None
        one.note_holder(os.getpid())
        assert two.holders() == frozenset()
    assert not list((tmp_path / "theirs").iterdir())
