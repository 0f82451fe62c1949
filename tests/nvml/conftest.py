"""The real pynvml on a library of our own, compiled here, whose answers a test sets."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

UUIDS = ("GPU-00000000-1111-2222-3333-444444444444", "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")
PCI_IDS = ("00000000:1B:00.0", "00000000:43:00.0")

Build = Callable[..., Path]


class FakeNvml:
    """What the stand-in library answers, by the names of NVML's functions."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def reset(self) -> None:
        """All answers as at first; whatever hangs continues."""
        self._library.fake_reset()

    def value(self, name: str, value: int) -> None:
        self._library.fake_value(name.encode(), ctypes.c_ulonglong(value))

    def error(self, name: str, code: int) -> None:
        self._library.fake_error(name.encode(), code)

    def hang(self, name: str, hangs: bool = True) -> None:
        self._library.fake_hang(name.encode(), int(hangs))

    def process(self, pid: int, memory: int, kind: int = 0) -> None:
        """Lists a process: 0 compute, 1 graphics, 2 MPS."""
        self._library.fake_process(kind, pid, ctypes.c_ulonglong(memory))

    def no_processes(self) -> None:
        self._library.fake_no_processes()

    @property
    def waiting(self) -> int:
        """Calls that hang now."""
        return int(self._library.fake_waiting())

    @property
    def opened(self) -> int:
        """How often NVML was initialised and not shut down."""
        return int(self._library.fake_opened())


@pytest.fixture(scope="session")
def build_fake(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles the stand-in with the given macros."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here to build the stand-in for NVML")

    def build(*macros: str) -> Path:
        path = tmp_path_factory.mktemp("nvml") / "libfake-nvml.so"
        source = Path(__file__).with_name("fake_nvml.c")
        flags = ["-shared", "-fPIC", "-O1", "-pthread", *(f"-D{macro}" for macro in macros)]
        subprocess.run([compiler, *flags, "-o", str(path), str(source)], check=True)
        return path

    return build


@pytest.fixture(scope="session")
def fake_library(build_fake: Build) -> Path:
    return build_fake()


def install(monkeypatch: pytest.MonkeyPatch, path: Path) -> FakeNvml:
    """Has pynvml call the library at a path instead of the driver's."""
    library = ctypes.CDLL(str(path))
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return FakeNvml(library)


@pytest.fixture
def fake(fake_library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    """The stand-in, with its first answers."""
    installed = install(monkeypatch, fake_library)
    installed.reset()
    yield installed
    installed.reset()
