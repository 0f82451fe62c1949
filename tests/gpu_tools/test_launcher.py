"""The launcher: every buffer alone in its allocation, the undefined ones untouched, limits kept."""

from __future__ import annotations

import contextlib
import select
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.launcher import tools
from astra_tui.gpu.launcher.request import (
    WatchAnswer,
    WatchedCase,
    WatchRequest,
    answer_file,
    read_answer,
    read_request,
    write_answer,
    write_request,
)
from astra_tui.gpu.launcher.tools import find_tool, tool_version, watch
from astra_tui.gpu.messages import CaseBuffer, Failed, Kernel, RunCase
from astra_tui.gpu.process.driver import Launch
from astra_tui.gpu.process.once import Launcher
from tests.gpu.script import FACTS, ILLEGAL_ADDRESS, Script, Scripted
from tests.gpu.scripted_driver import ScriptedDriver
from tests.gpu_tools.conftest import Install
from tests.gpu_tools.stand_in import Behaviour, calls

COUNT = 16
INPUT = np.arange(COUNT, dtype=np.float32).tobytes()


def copying(kernel: Scripted, misalignment: int = 0) -> WatchedCase:
    """copy(out, source, COUNT)."""
    parameters = struct.pack("<QQq", 0, 0, COUNT)
    launch = Kernel("k", (1, 1, 1), (32, 1, 1), 0, parameters, ((0, "out"), (8, "source")))
    buffers = (
        CaseBuffer("out", bytes(4 * COUNT), misalignment),
        CaseBuffer("source", INPUT),
    )
    return WatchedCase("case", RunCase(Script({"k": kernel}).cubin(), (launch,), buffers), ("out",))


class Watching(ScriptedDriver):
    """Keeps what was uploaded and launched."""

    def __init__(self) -> None:
        super().__init__()
        self.uploaded: list[int] = []
        self.seen: list[bytes] = []
        self.sizes: list[int] = []

    def allocate(self, size: int) -> int:
        self.sizes.append(size)
        return super().allocate(size)

    def upload(self, address: int, data: np.ndarray) -> None:
        self.uploaded.append(address)
        super().upload(address, data)

    def launch(self, launch: Launch) -> None:
        super().launch(launch)
        out, _ = struct.unpack_from("<QQ", launch.parameters)
        self.seen.append(self.memory.bytes(out, 4 * COUNT).tobytes())


def test_buffers_have_allocations_of_their_own_size_and_undefined_ones_are_not_written() -> None:
    driver = Watching()
    request = WatchRequest(FACTS.uuid, (copying(Scripted("copy"), misalignment=4),))
    answer = Launcher(driver, request).run()
    assert answer.failed is None
    assert answer.done == 1
    assert driver.sizes == [4 * COUNT + 4, 4 * COUNT]
    assert driver.uploaded == [answer.placed["source"][0]]
    assert answer.placed["out"][0] % 256 == 4
    assert driver.seen == [INPUT]
    assert driver.memory.used == 0


def test_inputs_are_uploaded_for_every_round() -> None:
    driver = Watching()
    answer = Launcher(driver, WatchRequest(FACTS.uuid, (copying(Scripted("copy")),), 3)).run()
    assert driver.uploaded == [answer.placed["source"][0]] * 3
    assert driver.launched["k"] == 3


def test_a_fault_ends_the_run_and_says_in_which_case() -> None:
    good, bad = copying(Scripted("copy")), copying(Scripted("copy", error=ILLEGAL_ADDRESS))
    answer = Launcher(ScriptedDriver(), WatchRequest(FACTS.uuid, (good, bad, good))).run()
    assert answer.done == 1
    assert answer.failed is not None
    assert (answer.failed.code, answer.failed.sticky) == (ILLEGAL_ADDRESS, True)
    assert set(answer.placed) == {"out", "source"}


def test_a_device_that_is_not_there_is_said_to_be_missing() -> None:
    answer = Launcher(ScriptedDriver(), WatchRequest("GPU-other", ())).run()
    assert answer.failed is not None
    assert "GPU-other" in answer.failed.message


ANSWERS = st.builds(
    WatchAnswer,
    st.integers(0, 9),
    st.dictionaries(st.text(), st.tuples(st.integers(0, 2**62), st.integers(0, 2**40))),
    st.none() | st.builds(Failed, st.integers(0, 999), st.text(), st.text(), st.booleans()),
)


@given(ANSWERS, st.integers(0, 40))
def test_an_answer_is_read_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, answer: WatchAnswer, cut: int
) -> None:
    file = tmp_path_factory.mktemp("answers") / "x.request"
    assert read_answer(file) is None
    write_answer(file, answer)
    assert read_answer(file) == answer
    whole = answer_file(file).read_bytes()
    answer_file(file).write_bytes(whole[: -1 - cut])
    assert read_answer(file) is None


def test_a_request_comes_back_as_it_was_written(tmp_path: Path) -> None:
    request = WatchRequest(FACTS.uuid, (copying(Scripted("copy")),), 2, 3.5)
    write_request(tmp_path / "x.request", request)
    assert read_request(tmp_path / "x.request") == request


REQUEST = WatchRequest(FACTS.uuid, (copying(Scripted("copy")),), seconds=20.0)
HURRIED = WatchRequest(FACTS.uuid, REQUEST.cases, seconds=1.0)


def test_the_tool_gets_the_launcher_as_its_program(install: Install) -> None:
    program = install("tool", Behaviour(clean="fine", printed="words"))
    run = watch(program, ["--some", "option"], REQUEST)
    assert (run.log, run.words, run.code, run.problem) == ("fine", "words", 0, "")
    assert run.answer is not None
    assert run.answer.done == 1
    (given_,) = calls(program)
    assert given_[0] == "--log-file"
    assert given_[2:4] == ["--some", "option"]
    assert given_[-2] == "astra_tui.gpu.process.once"
    assert not Path(given_[-1]).exists()


def test_without_a_gpu_the_real_launcher_says_so(install: Install) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")
    run = watch(install("tool", Behaviour(trouble="launch")), [], REQUEST)
    assert run.answer is not None
    assert run.answer.failed is not None
    assert run.answer.done == 0
    assert run.code == 3


def test_a_tool_that_hangs_is_ended_with_all_that_it_started(install: Install) -> None:
    program = install("tool", Behaviour(trouble="hang"))
    run = watch(program, [], HURRIED)
    assert run.problem == "tool was not done after 1 s"
    assert run.answer is None
    _wait_until_gone(program)


def test_a_tool_that_floods_its_output_is_ended(install: Install) -> None:
    run = watch(install("tool", Behaviour(trouble="flood")), [], REQUEST)
    assert run.problem == "tool printed more than 1 MB"
    assert len(run.words) <= 2_000


def test_a_tool_that_dies_is_said_to_have_died(install: Install) -> None:
    run = watch(install("tool", Behaviour(trouble="die")), [], REQUEST)
    assert run.problem == "tool was ended by a signal: Segmentation fault"


def test_a_program_that_does_not_start_is_a_problem_in_words(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text("no program")
    program.chmod(0o755)
    assert watch(program, [], REQUEST).problem.startswith("tool does not start")


def test_children_get_no_secrets(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234")
    program = install("tool", Behaviour())
    program.write_text("#!/bin/sh\n/usr/bin/env\n")
    run = watch(program, [], REQUEST)
    assert "PATH=" in run.words
    assert "sk-1234" not in run.words


def test_programs_are_found_on_path_then_in_toolkits_then_in_their_own_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "TOOLKITS", (tmp_path / "toolkit",))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    own = tmp_path / "own"
    assert find_tool("tool", [own]) is None
    places = (own, tmp_path / "toolkit" / "tool", tmp_path / "toolkit" / "bin", tmp_path / "path")
    for place in places:
        place.mkdir(parents=True)
        program = place / "tool"
        program.write_text("#!/bin/sh\n")
        assert find_tool("tool", [own]) != program
        program.chmod(0o755)
        assert find_tool("tool", [own]) == program


def test_versions_are_read(install: Install) -> None:
    assert tool_version(install("tool", Behaviour(version="2025.3.1.0"))) == "2025.3.1.0"
    assert tool_version(install("mute", Behaviour(trouble="nothing", version=""))) == ""


def _wait_until_gone(program: Path) -> None:
    """Waits until no process has the program on its command line; a killed one lingers a moment."""
    deadline = time.monotonic() + 10
    while _running(program):
        assert time.monotonic() < deadline, _running(program)
        select.select([], [], [], 0.02)


def _running(program: Path) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = file.read_bytes().decode(errors="replace")
            found += [command] if str(program) in command else []
    return found
