"""Subjects of the three tasks with their tuned kernels, and a host compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from astra_tui.export import Subject
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.toolchain import find_toolchain
from astra_tui.model.task import KernelTask
from tests.export.sessions import compiled_subject, made_up, tuned


@pytest.fixture(scope="session")
def subjects(compiler: Compiler, tasks: dict[str, KernelTask]) -> dict[str, Subject]:
    """Each task's tuned kernel as a winner, compiled."""
    return {
        name: compiled_subject(made_up(task, tuned(task)), task, compiler)
        for name, task in tasks.items()
    }


@pytest.fixture(scope="session")
def host_compiler() -> str:
    """A C++ compiler of the host."""
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no C++ compiler on this machine")
    return found


@pytest.fixture(scope="session")
def cuda_headers() -> list[str]:
    """Options with which a compiler of the host finds NVIDIA's headers."""
    return [f"-isystem{folder}" for folder in find_toolchain().include_dirs]


@pytest.fixture(scope="session")
def scripted_driver(
    tmp_path_factory: pytest.TempPathFactory, host_compiler: str, cuda_headers: list[str]
) -> Path:
    """A folder with the scripted driver as libcuda.so.1."""
    folder = tmp_path_factory.mktemp("driver")
    here = Path(__file__)
    sources = [str(here.with_name(f"scripted_{part}.cpp")) for part in ("cuda", "launch")]
    options = ["-shared", "-fPIC", *cuda_headers, "-o", str(folder / "libcuda.so.1")]
    subprocess.run([host_compiler, *options, *sources], check=True)
    return folder
