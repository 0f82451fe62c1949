"""Compiles a source for the workloads on which it is to be timed."""

from __future__ import annotations

from collections.abc import Mapping

from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.errors import Place, UserError
from astra_tui.model.task import KernelTask


def compile_source(
    task: KernelTask,
    compiler: Compiler,
    attributes: Mapping[str, int],
    text: str,
    file: str,
    *,
    whole: bool = True,
) -> Compiled:
    """A source with the kernels of all workloads, and of its suite unless not `whole`, on a device
    with `attributes`.

    Raises PlanError for a bad launch plan, UserError with the first error of the compiler.
    """
    source = read_source(task, text, file)
    cases = (*(build_suite(task) if whole else ()), *workload_cases(task))
    names = kernels_to_compile(task, source, cases, attributes)
    compilation = compiler.compile(text, names)
    if not compilation.ok:
        first = compilation.errors[0]
        place = Place(first.line, first.column)
        raise UserError(f"it does not compile: {first.message}", file=file, place=place)
    return Compiled(source, compilation)
