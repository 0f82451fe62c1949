"""A child process: deadlines, deaths and what it may see. The children are real processes."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_tui.processes.child import Child, ChildDied, ChildTimeout

LONG = 30.0


@pytest.fixture(autouse=True)
def _children_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.fixture
def child() -> Iterator[Child]:
    with Child("echo_child", name="the echo") as made:
        yield made


def die(child: Child) -> None:
    """Kills the child behind its owner's back, and waits until it is dead."""
    assert child._process is not None
    child._process.kill()
    child._process.wait()


def test_an_answer_comes_back(child: Child) -> None:
    assert child.ask({"n": 1}, LONG)["echo"] == {"n": 1}


def test_one_process_answers_many_messages(child: Child) -> None:
    assert len({child.ask({}, LONG)["pid"] for _ in range(5)}) == 1


def test_a_message_larger_than_a_pipe_holds_is_echoed(child: Child) -> None:
    message = {"source": "x" * (1 << 20)}
    assert child.ask(message, LONG)["echo"] == message


def test_the_child_gets_its_arguments_and_may_greet() -> None:
    with Child("echo_child", ("greet",)) as child:
        greeting = child.receive(LONG)["greeting"]
        assert greeting == child.ask({}, LONG)["pid"]


def test_no_answer_in_time_kills_the_child(child: Child) -> None:
    child.ask({}, LONG)
    with pytest.raises(ChildTimeout, match=r"the echo gave no answer in 0\.2 s"):
        child.ask({"hang": True}, 0.2)
    assert not child.running


def test_a_timeout_kills_what_the_child_started(child: Child, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        child.ask({"fifo": str(fifo)}, LONG)
        assert select.select([held], [], [], LONG)[0]
        assert os.read(held, 1) == b"x", "the grandchild lives and holds the FIFO"
        with pytest.raises(ChildTimeout):
            child.ask({"hang": True}, 0.2)
        assert select.select([held], [], [], LONG)[0]
        assert os.read(held, 1) == b"", "nobody holds the FIFO any more"
    finally:
        os.close(held)


def test_closing_kills_what_a_dead_child_left_behind(child: Child, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        child.ask({"fifo": str(fifo)}, LONG)
        assert select.select([held], [], [], LONG)[0]
        assert os.read(held, 1) == b"x"
        die(child)
        child.close()
        assert select.select([held], [], [], LONG)[0]
        assert os.read(held, 1) == b""
    finally:
        os.close(held)


def test_a_child_that_does_not_read_cannot_hold_up_its_owner() -> None:
    with Child("echo_child", ("deaf",)) as child, pytest.raises(ChildTimeout):
        child.ask({"source": "x" * (4 << 20)}, 1.0)


def test_a_crash_quotes_the_end_of_stderr(child: Child) -> None:
    with pytest.raises(ChildDied) as caught:
        child.ask({"write": "a" * 9_000 + "last words\n", "exit": 3}, LONG)
    message = str(caught.value)
    assert message.startswith("the echo ended with exit code 3: ")
    assert message.endswith("last words")
    assert len(message) < 5_000


def test_a_signal_is_named(child: Child) -> None:
    with pytest.raises(ChildDied, match="ended with SIGSEGV"):
        child.ask({"signal": int(signal.SIGSEGV)}, LONG)


def test_stderr_that_is_no_text_is_quoted_all_the_same(child: Child) -> None:
    child.ask({}, LONG)
    assert child._errors is not None
    os.write(child._errors.fileno(), b"\xff\xfe")
    with pytest.raises(ChildDied, match="exit code 1: ��"):
        child.ask({"exit": 1}, LONG)


def test_a_module_that_does_not_exist_is_a_death() -> None:
    with Child("no_such_module") as child, pytest.raises(ChildDied, match="No module named"):
        child.ask({}, LONG)


def test_an_answer_that_is_no_frame_ends_the_child(child: Child) -> None:
    with pytest.raises(ChildDied, match="was ended: a damaged message"):
        child.ask({"garbage": b"\x01\0\0\0\xc1", "hang": True}, LONG)
    assert not child.running


def test_a_child_comes_back_after_a_crash_and_after_a_timeout(child: Child) -> None:
    first = child.ask({}, LONG)["pid"]
    with pytest.raises(ChildDied):
        child.ask({"exit": 1}, LONG)
    second = child.ask({}, LONG)["pid"]
    with pytest.raises(ChildTimeout):
        child.ask({"hang": True}, 0.1)
    third = child.ask({}, LONG)["pid"]
    assert len({first, second, third}) == 3


def test_a_death_between_two_messages_is_reported_once(child: Child) -> None:
    # Not hidden: the new process may greet, and has lost what the old one was told.
    child.ask({}, LONG)
    die(child)
    with pytest.raises(ChildDied, match="SIGKILL"):
        child.ask({}, LONG)
    assert child.ask({"n": 2}, LONG)["echo"] == {"n": 2}


def test_start_replaces_a_dead_child(child: Child) -> None:
    child.ask({}, LONG)
    die(child)
    child.start()
    assert child.ask({"n": 2}, LONG)["echo"] == {"n": 2}


def test_closing_twice_is_fine(child: Child) -> None:
    child.ask({}, LONG)
    child.close()
    child.close()
    assert not child.running


def test_secrets_in_the_environment_stay_outside(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("CUDA_HOME", "/somewhere")
    monkeypatch.setenv("ASTRA_TUI_CACHE", "/elsewhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    seen = child.ask({"environment": True}, LONG)
    assert "sk-secret" not in seen.values()
    assert {"OPENAI_API_KEY", "LD_PRELOAD", "HOME", "USER"}.isdisjoint(seen)
    assert seen["PATH"] == os.environ["PATH"]
    assert seen["CUDA_HOME"] == "/somewhere"
    assert seen["ASTRA_TUI_CACHE"] == "/elsewhere"
    assert seen["CUDA_VISIBLE_DEVICES"] == "1"


def test_files_of_the_owner_stay_outside(child: Child, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        # Three standard streams, two channels, and the folder that is being listed.
        assert len(child.ask({"descriptors": True}, LONG)) == 6


def test_two_children_do_not_hold_each_others_channels(child: Child) -> None:
    child.ask({}, LONG)
    with Child("echo_child") as other:
        assert len(other.ask({"descriptors": True}, LONG)) == 6


def test_a_file_in_the_current_folder_does_not_replace_a_module(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('the wrong msgspec')")
    (tmp_path / "select.py").write_text("raise SystemExit('the wrong select')")
    monkeypatch.chdir(tmp_path)
    assert child.ask({}, LONG)["folder"] == str(tmp_path)
