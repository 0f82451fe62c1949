"""Versions of silu_and_mul whose source and plan are real and whose kernels are scripted."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import kernels_to_compile
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.task import KernelTask, Workload
from tests.conftest import ROOT
from tests.gpu.script import FACTS, Script, Scripted

BASELINE = ROOT / "kernels" / "silu_and_mul" / "baseline.cu"
US = 100.0

WIDE = Workload("wide", {"tokens": 16, "d": 128}, DType.FLOAT16)
TALL = Workload("tall", {"tokens": 96, "d": 32}, DType.FLOAT16)

MakeVersion = Callable[[Scripted], Compiled]


def version_maker(task: KernelTask, compiler: Compiler) -> MakeVersion:
    """Makes versions of baseline.cu that do what a script says."""
    text = BASELINE.read_text(encoding="utf-8")
    source = read_source(task, text, str(BASELINE))
    cases = tuple(Case(w.name, "", w.dtype, dict(w.dims)) for w in (WIDE, TALL))
    names = kernels_to_compile(task, source, cases, FACTS.attributes)
    compilation = compiler.compile(text, names)
    assert compilation.ok, compilation.errors
    symbol = compilation.kernels[0].symbol

    def make(kernel: Scripted) -> Compiled:
        return Compiled(source, replace(compilation, cubin=Script({symbol: kernel}).cubin()))

    return make
