"""nvdisasm that is missing, wrong or slow, or that is given no cubin: a problem in words."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.sass import disassemble, find_nvdisasm
from astra_tui.lab.explain.sass import nvdisasm as tool
from astra_tui.model.compilation import Compilation
from astra_tui.processes import tool as limited

VERSION = 'if [ "$1" = --version ]; then echo "release 13.5, V13.5.0"; exit; fi\n'

pytestmark = pytest.mark.usefixtures("private_cache")


def _compilation(cubin: bytes) -> Compilation:
    return Compilation((), (), "ptx", cubin, "sm_90a", "NVRTC", 0.0)


def _script(folder: Path, body: str) -> Path:
    path = folder / "nvdisasm"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_it_is_found_in_the_wheel() -> None:
    path = find_nvdisasm()
    assert path is not None
    assert path.parts[-4:] == ("nvidia", "cu13", "bin", "nvdisasm")


def test_without_the_wheel_it_is_looked_for_on_the_path_then_in_a_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool.importlib.util, "find_spec", lambda name: None)
    toolkit, on_path = tmp_path / "cuda", tmp_path / "path"
    for folder in (toolkit / "bin", on_path):
        folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(on_path))
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    in_toolkit = _script(toolkit / "bin", "true")
    assert find_nvdisasm() == in_toolkit
    on_the_path = _script(on_path, "true")
    assert find_nvdisasm() == on_the_path


def test_missing() -> None:
    output = tool.run_nvdisasm(b"", None)
    assert output.problem == "nvdisasm was not found"
    assert output.remedy == "pip install nvidia-cuda-nvdisasm"


def test_no_cubin_and_no_elf_file() -> None:
    assert disassemble(_compilation(b"")).problem == "there is no cubin to disassemble"
    found = disassemble(_compilation(b"garbage"))
    assert (found.available, found.kernels) == (False, ())
    assert found.problem.startswith("nvdisasm failed: ")
    assert "the cubin" in found.problem


def test_half_a_cubin(compiler: Compiler) -> None:
    whole = compiler.compile("__global__ void k(int* p) { *p = 1; }", ("k",)).cubin
    found = disassemble(_compilation(whole[: len(whole) // 2]))
    assert found.problem.startswith("nvdisasm failed: ")


def test_no_room_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool.tempfile, "tempdir", str(tmp_path / "missing"))
    found = disassemble(_compilation(b"x"))
    assert found.problem == "no temporary file can be written: No such file or directory"


def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    hanging = _script(tmp_path, VERSION + "exec sleep 600")
    started = time.monotonic()
    found = disassemble(_compilation(b"x"), hanging, seconds=0.5)
    assert found.problem == "nvdisasm was not done after 0.5 s"
    assert time.monotonic() - started < 60


def test_one_that_floods_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "OUTPUT_LIMIT", 1 << 16)
    flooding = _script(tmp_path, VERSION + "exec yes")
    assert disassemble(_compilation(b"x"), flooding).problem.startswith("nvdisasm failed: ")


def test_one_that_prints_something_else(tmp_path: Path) -> None:
    other = _script(tmp_path, "echo hello")
    assert disassemble(_compilation(b"x"), other).problem == f"{other} is no nvdisasm of NVIDIA's"
    silent = _script(tmp_path, VERSION + "echo hello")
    assert disassemble(_compilation(b"x"), silent).problem == "the listing has no code"


def test_the_second_time_the_listing_comes_from_the_cache(
    tmp_path: Path, compiler: Compiler
) -> None:
    compilation = compiler.compile("__global__ void k(int* p) { *p = 1; }", ("k",))
    runs = tmp_path / "runs"
    counted = _script(
        tmp_path,
        f'[ "$1" = --version ] || echo run >>{runs}\nexec {find_nvdisasm()} "$@"',
    )
    first, second = (disassemble(compilation, counted) for _ in range(2))
    assert first.available
    assert first == second
    assert runs.read_text(encoding="utf-8") == "run\n"
