"""What headers come to is kept for the next source that begins with them, and for no other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_tui.lab.cache import ContentCache
from astra_tui.lab.compiler import Compiler, worker
from astra_tui.lab.compiler.toolchain import find_toolchain, load_nvrtc
from astra_tui.processes.child import Child
from tests.compiler.helpers import FLOAT, HALF, KERNEL, messages

WITH_HEADER = "__global__ void k(int* out) { out[0] = TIMES; }\n"


@pytest.fixture
def compiler(tmp_path: Path) -> Iterator[Compiler]:
    with Compiler(ContentCache("compile", tmp_path / "cache")) as opened:
        yield opened


def files_of(compiler: Compiler) -> list[Path]:
    assert compiler._scratch is not None
    return sorted(f for f in Path(compiler._scratch.name).rglob("*") if f.is_file())


def test_the_second_source_is_compiled_from_the_file_to_the_same_program(
    compiler: Compiler,
) -> None:
    first = compiler.compile(KERNEL, (FLOAT, HALF))
    (file,) = files_of(compiler)
    again = compiler.compile(f"{KERNEL}\n// Another text.\n", (FLOAT, HALF))
    assert messages(first) == messages(again) == ""
    assert again.ptx == first.ptx
    assert [k.resources for k in again.kernels] == [k.resources for k in first.kernels]
    assert files_of(compiler) == [file]
    compiler.close()
    assert not file.parent.parent.exists()


def test_headers_of_one_name_are_told_from_one_another(compiler: Compiler) -> None:
    """They reach NVRTC in memory, which does not compare what they hold."""
    written = []
    for times in (7, 9, 7):
        text = f"{WITH_HEADER}// {len(written)}\n"
        made = compiler.compile_to_ptx(text, ("k",), f"#define TIMES {times}\n")
        assert messages(made) == ""
        written.append(f", {times};" in made.ptx)
    assert all(written)


def test_a_source_that_begins_otherwise_gets_none_of_it(compiler: Compiler) -> None:
    includes = "#include <cuda_fp16.h>\n"
    kernel = "__global__ void k(half* out) { out[0] = half(1.0f); }\n"
    assert messages(compiler.compile(includes + kernel, ("k",))) == ""
    assert files_of(compiler)
    without = compiler.compile(f"#define CUDA_NO_HALF\n{includes}{kernel}", ("k",))
    assert 'identifier "half" is undefined' in messages(without)
    assert 'identifier "half" is undefined' in messages(compiler.compile(kernel, ("k",)))


def test_without_a_place_for_it_sources_are_compiled_all_the_same(compiler: Compiler) -> None:
    assert messages(compiler.compile(KERNEL, (FLOAT,))) == ""
    (file,) = files_of(compiler)
    assert compiler._scratch is not None
    # A folder of that name is there again, but it is not the one that the process may write to.
    shutil.rmtree(compiler._scratch.name)
    file.parent.mkdir(parents=True)
    assert messages(compiler.compile(f"{KERNEL}\n// 2\n", (FLOAT,))) == ""
    shutil.rmtree(compiler._scratch.name)
    assert messages(compiler.compile(f"{KERNEL}\n// 3\n", (FLOAT,))) == ""


def test_an_error_in_a_source_stays_its_own(compiler: Compiler) -> None:
    wrong = KERNEL.replace("out[i]", "there[i]")
    first, second = (compiler.compile(f"{wrong}\n// {n}\n", (FLOAT,)) for n in (1, 2))
    assert first.diagnostics == second.diagnostics
    assert "out[i]" in KERNEL.splitlines()[first.diagnostics[0].line - 1]


def test_the_process_takes_its_files_along(tmp_path: Path) -> None:
    request = {
        "source": "#include <cuda_fp16.h>\n__global__ void k() {}\n",
        "name": "kernel.cu",
        "expressions": ["k"],
        "headers": {},
        "options": [
            "--gpu-architecture=sm_90",
            *(f"--include-path={folder}" for folder in find_toolchain().include_dirs),
        ],
        "cubin": False,
        "precompile": True,
    }
    with Child("astra_tui.lab.compiler.worker", (str(tmp_path),)) as child:
        child.start()
        child.receive(60)
        assert child.ask(request, 60)["status"] == "NVRTC_SUCCESS"
        assert [f for f in tmp_path.rglob("*") if f.is_file()]
        os.close(child._write_fd)
        child._write_fd = -1
        assert child._process is not None
        child._process.wait()
    assert not [*tmp_path.iterdir()]


def test_the_oldest_files_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_nvrtc(find_toolchain())
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(worker, "HEADERS_BYTES", 2500)
    kept = worker.PrecompiledHeaders(tmp_path)
    for age, name in enumerate("abc"):
        file = tmp_path / name / "kernel_0.pch"
        file.parent.mkdir()
        file.write_bytes(bytes(1000))
        os.utime(file, (1000 - age, 1000 - age))
    kept._make_room()
    assert sorted(f.parent.name for f in tmp_path.glob("*/*")) == ["a", "b"]
    kept.remove()
    assert not [*tmp_path.iterdir()]
