"""A task whose sources are compiled for real and launched on the scripted device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import kernels_to_compile
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.check import Case
from astra_tui.model.task import KernelTask
from tests.conftest import ROOT
from tests.gpu.script import Script, Scripted
from tests.gpu_tools import stand_in
from tests.gpu_tools.stand_in import Behaviour

Install = Callable[[str, Behaviour], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a stand-in for a tool on PATH, where nothing else is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return lambda name, behaviour: stand_in.install(tmp_path, name, behaviour)


@pytest.fixture(scope="session")
def silu(tasks: dict[str, KernelTask]) -> KernelTask:
    return tasks["silu_and_mul"]


@pytest.fixture(scope="session")
def baseline(silu: KernelTask, compiler: Compiler) -> Compiled:
    """The baseline with a script in the place of its machine code: kernels that do nothing."""
    return with_script(compile_for_suite(silu, silu.baseline_file, compiler), Scripted())


def compile_for_suite(task: KernelTask, file: Path, compiler: Compiler) -> Compiled:
    """A source with all kernels that the suite and the workloads need."""
    text = file.read_text(encoding="utf-8")
    source = read_source(task, text, str(file))
    workloads = tuple(Case(w.name, "", w.dtype, dict(w.dims)) for w in task.workloads)
    names = kernels_to_compile(task, source, (*build_suite(task), *workloads))
    compilation = compiler.compile(text, names)
    assert compilation.ok, compilation.errors
    return Compiled(source, compilation)


def with_script(compiled: Compiled, kernel: Scripted) -> Compiled:
    """The same with kernels that the scripted driver can run."""
    symbols = [k.symbol for k in compiled.compilation.kernels]
    cubin = Script(dict.fromkeys(symbols, kernel)).cubin()
    return Compiled(compiled.source, msgspec.structs.replace(compiled.compilation, cubin=cubin))
