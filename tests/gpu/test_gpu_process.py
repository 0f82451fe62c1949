"""The judge's side of a GPU process, the search for devices, and what can be wrong with both."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from astra_tui.gpu import gpu_process
from astra_tui.gpu.gpu_process import (
    CudaFailed,
    GpuHung,
    GpuProcess,
    GpuProcessDied,
    list_devices,
)
from astra_tui.gpu.messages import Drop, Dropped, Kernel, Opened, RunCase, Spin, Spun
from astra_tui.gpu.tools import EXPRESSIONS, ToolKernels
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu import opening
from astra_tui.model.errors import UserError
from astra_tui.processes.confine import landlock_abi
from astra_tui.processes.shared_device import DeviceBusy, SharedDevice
from tests.conftest import ROOT
from tests.gpu.kernels import LONG, MODULE
from tests.gpu.script import FACTS, Script, Scripted


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose text is the module `made_up`, which children find."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    return tmp_path / "made_up.py"


def gpu_kernel(symbol: str) -> Kernel:
    return Kernel(symbol, (1, 1, 1), (1, 1, 1), 0, b"", ())


def test_the_first_question_opens_the_device(process: GpuProcess) -> None:
    assert process.ask(Drop(), Dropped, LONG) == Dropped()
    assert process.opened is not None
    assert process.opened.facts == FACTS
    assert process.opened.confined is (landlock_abi() > 0)
    assert process.opened.pid != os.getpid()
    assert process.is_running


def refuse(*_: object, **__: object) -> None:
    raise OSError("no more processes")


def test_a_request_waits_for_who_has_the_device_alone(
    tools: ToolKernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It takes hold of the device in its own time, and what it is asked for as well."""

    def device(seconds: float = LONG) -> SharedDevice:
        return SharedDevice(FACTS.uuid, tmp_path / "devices", seconds)

    def others_may() -> bool:
        with suppress(DeviceBusy), device(0.0).alone():
            return True
        return False

    monkeypatch.setattr(gpu_process, "shared_device", lambda _: device())
    process = GpuProcess(FACTS.uuid, tools, MODULE)
    try:
        with ThreadPoolExecutor() as pool:
            with device().alone():
                asked = pool.submit(process.ask, Drop(), Dropped, LONG)
                assert not asked.done()
                assert process.opened is None
            assert asked.result() == Dropped()
        assert others_may()
        process.close()
        process.start()
        with device().alone():  # It has hold of the device by then, and its judge was not asked.
            pass
        with process.device.alone():
            assert process.ask(Drop(), Dropped, LONG) == Dropped()
            assert not others_may()
        assert process.opened is not None
        assert process.opened.pid in device().holders()
        process.close()
        assert process.ask(Drop(), Dropped, LONG) == Dropped(), "it was started by its request"
        process.close()
        with monkeypatch.context() as patch:
            patch.setattr("subprocess.Popen", refuse)
            with pytest.raises(OSError, match="no more processes"):
                process.start()
        assert others_may()
    finally:
        process.close()


def test_a_device_that_is_not_there(tools: ToolKernels) -> None:
    process = GpuProcess("GPU-other", tools, MODULE)
    try:
        for _ in range(2):
            with pytest.raises(CudaFailed, match="there is no device GPU-other") as caught:
                process.ask(Drop(), Dropped, LONG)
            assert not caught.value.is_fatal
    finally:
        process.close()


def test_tools_that_the_driver_does_not_load() -> None:
    process = GpuProcess(FACTS.uuid, ToolKernels(b"no script", {}), MODULE)
    with pytest.raises(CudaFailed) as caught:
        process.ask(Drop(), Dropped, LONG)
    assert (caught.value.code, caught.value.name) == (0, "DecodeError")
    process.close()


def test_opening_that_never_ends(
    made_up: Path, tools: ToolKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up.write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(gpu_process, "START_SECONDS", 0.5)
    process = GpuProcess(FACTS.uuid, tools, "made_up")
    with pytest.raises(GpuHung, match=r"no answer in 0\.5 s"):
        process.ask(Drop(), Dropped, LONG)
    assert not process.is_running


def test_a_process_that_cannot_start(made_up: Path, tools: ToolKernels) -> None:
    made_up.write_text("raise SystemExit('libcuda.so.1: no such file')\n")
    process = GpuProcess(FACTS.uuid, tools, "made_up")
    with pytest.raises(GpuProcessDied, match=r"exit code 1: libcuda\.so\.1: no such file"):
        process.ask(Drop(), Dropped, LONG)


def test_questions_out_of_order_are_answered_all_the_same(process: GpuProcess) -> None:
    with pytest.raises(CudaFailed, match="nothing was prepared") as caught:
        process.ask(Spin(0, 1.0), Spun, LONG)
    assert not caught.value.is_fatal
    assert process.ask(Drop(), Dropped, LONG) == Dropped()


def test_an_answer_of_another_kind_closes_the_process(process: GpuProcess) -> None:
    with pytest.raises(GpuProcessDied, match="answered Dropped"):
        process.ask(Drop(), Opened, LONG)
    assert not process.is_running


def test_a_closed_process_starts_anew(process: GpuProcess) -> None:
    process.ask(Drop(), Dropped, LONG)
    assert process.opened is not None
    first = process.opened.pid
    process.close()
    process.ask(Drop(), Dropped, LONG)
    assert process.opened is not None
    assert process.opened.pid != first


def test_a_killed_process_is_a_death(process: GpuProcess) -> None:
    process.ask(Drop(), Dropped, LONG)
    process.kill()
    with pytest.raises(GpuProcessDied, match="SIGKILL"):
        process.ask(Drop(), Dropped, LONG)
    assert process.ask(Drop(), Dropped, LONG) == Dropped()


def test_the_process_leaves_after_a_fatal_error(process: GpuProcess) -> None:
    script = Script({"k": Scripted(error=700)})
    with pytest.raises(CudaFailed, match=r"\(700\)") as caught:
        process.ask(RunCase(script.cubin(), (gpu_kernel("k"),), ()), Opened, LONG)
    assert caught.value.is_fatal
    assert not process.is_running


def test_a_kernel_that_is_not_in_the_module(process: GpuProcess) -> None:
    with pytest.raises(CudaFailed, match="NOT_FOUND") as caught:
        process.ask(RunCase(Script({}).cubin(), (gpu_kernel("k"),), ()), Opened, LONG)
    assert not caught.value.is_fatal


def test_devices_are_listed() -> None:
    assert list_devices(MODULE) == (FACTS,)


@pytest.fixture
def driver_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has the driver's device file."""
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(gpu_process, "_DEVICE_FILES", (str(tmp_path / "nvidiactl"),))


def found_by(module: str, monkeypatch: pytest.MonkeyPatch) -> gpu_process.Found:
    monkeypatch.setattr(gpu_process, "list_devices", lambda: list_devices(module))
    return gpu_process.find_devices()


def test_without_a_driver_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_process, "_DEVICE_FILES", (str(tmp_path / "nothing"),))
    found = found_by("no_such_module", monkeypatch)
    assert found == gpu_process.Found((), "no NVIDIA driver is loaded", has_driver=False)


@pytest.mark.usefixtures("driver_file")
def test_a_driver_that_shows_nothing(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up.write_text("from tests.gpu.scripted_process import main\nmain(())\n")
    found = found_by("made_up", monkeypatch)
    assert found == gpu_process.Found((), "the driver shows no device")


@pytest.mark.usefixtures("driver_file")
def test_a_driver_that_fails(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up.write_text("raise SystemExit('cuInit: CUDA_ERROR_NO_DEVICE (100)')\n")
    found = found_by("made_up", monkeypatch)
    assert found.devices == ()
    assert found.problem.endswith("cuInit: CUDA_ERROR_NO_DEVICE (100)")


@pytest.mark.usefixtures("driver_file")
def test_a_driver_that_hangs(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up.write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(gpu_process, "START_SECONDS", 0.5)
    found = found_by("made_up", monkeypatch)
    assert found == gpu_process.Found((), "the GPU process gave no answer in 0.5 s")


def find(name: str, monkeypatch: pytest.MonkeyPatch, *capabilities: tuple[int, int]) -> str:
    devices = tuple(
        msgspec.structs.replace(FACTS, ordinal=i, capability=c) for i, c in enumerate(capabilities)
    )
    found = gpu_process.Found(devices, "" if devices else "no NVIDIA driver is loaded")
    monkeypatch.setattr(opening, "find_devices", lambda: found)
    return f"cuda:{opening.find_gpu(name).ordinal}"


def test_a_gpu_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("cuda", monkeypatch, (9, 0), (8, 0)) == "cuda:0"
    assert find("cuda:1", monkeypatch, (9, 0), (8, 0)) == "cuda:1"


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="'cuda:2'") as caught:
        find("cuda:2", monkeypatch, (9, 0), (8, 0))
    assert caught.value.hint == "there is cuda:0, cuda:1"
    with pytest.raises(UserError, match="no NVIDIA driver is loaded") as caught:
        find("cuda", monkeypatch)
    assert "--device emulator" in str(caught.value.hint)


def test_a_gpu_too_old_for_the_compiler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"compute capability 7\.0; NVRTC 13 compiles for 7\.5"):
        find("cuda", monkeypatch, (7, 0))


@pytest.mark.parametrize(("capability", "arch"), [((7, 5), "sm_75"), ((9, 0), "sm_90a")])
def test_our_own_kernels_compile(
    compiler: Compiler, capability: tuple[int, int], arch: str
) -> None:
    before = compiler.arch
    try:
        gpu = opening.open_gpu(msgspec.structs.replace(FACTS, capability=capability), compiler)
        assert compiler.arch == gpu.facts.arch == arch
    finally:
        compiler.arch = before
    assert gpu.tools.cubin.startswith(b"\x7fELF")
    assert set(gpu.tools.symbols) == set(EXPRESSIONS)
    assert len(set(gpu.tools.symbols.values())) == len(EXPRESSIONS)
