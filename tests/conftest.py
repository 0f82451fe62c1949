"""Shared fixtures: a real compiler, the real emulator, and a cache that lives beside the tests."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A suite that runs in the background ignores these, and what it starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(_number, signal.SIG_DFL)

# The same cases every time, so that expected values are computed once; tests of seeds choose some.
os.environ.setdefault("ASTRA_TUI_SEED", "0")
os.environ.setdefault("ASTRA_TUI_CACHE", str(ROOT / ".astra" / "test-cache"))

from astra_tui.lab.compiler import Compiler  # noqa: E402
from astra_tui.model.task import KernelTask, load_task  # noqa: E402


@pytest.fixture(scope="session")
def compiler() -> Iterator[Compiler]:
    """One real NVRTC process for the whole session."""
    with Compiler() as opened:
        yield opened


@pytest.fixture(scope="session")
def tasks() -> dict[str, KernelTask]:
    """The bundled kernel tasks by name."""
    return {p.parent.name: load_task(p.parent) for p in sorted(ROOT.glob("kernels/*/task.toml"))}


@pytest.fixture(scope="session")
def quick_task(
    tasks: dict[str, KernelTask], tmp_path_factory: pytest.TempPathFactory
) -> KernelTask:
    """silu_and_mul with fewer sizes and one element type, for whatever is not about checking."""
    folder = tmp_path_factory.mktemp("kernels") / "silu_and_mul"
    shutil.copytree(tasks["silu_and_mul"].folder, folder)
    file = folder / "task.toml"
    text = file.read_text(encoding="utf-8")
    for whole, part in _SMALLER.items():
        assert whole in text
        text = text.replace(whole, part)
    file.write_text(text, encoding="utf-8")
    return load_task(folder)


_SMALLER = {
    'accepts = ["d >= 1"]': 'accepts = ["d >= 1", "d <= 5120", "tokens <= 1024"]',
    'dtypes = ["float16", "bfloat16"]': 'dtypes = ["float16"]',
    "sizes = [0, 1, 2, 7, 19, 83, 613]": "sizes = [0, 1, 83]",
    "sizes = [1, 2, 3, 7, 8, 16, 31, 64, 111, 500, 769, 1031, 4096, 5125, 11008]": (
        "sizes = [1, 8, 111, 1031]"
    ),
    "[[workloads]]\ndims = { tokens = 64, d = 8192 }\n": "",
    "[[workloads]]\ndims = { tokens = 256, d = 11008 }\n": "",
    "[[workloads]]\ndims = { tokens = 16, d = 12288 }\n": "",
    "dims = { tokens = 1024, d = 13824 }": "dims = { tokens = 1024, d = 4096 }",
    "[[workloads]]\ndims = { tokens = 4096, d = 14336 }\n": "",
}


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ASTRA_TUI_CACHE", str(folder))
    return folder
