"""One workload as the GPU process wants it: buffers that it draws itself, and bound versions.

The sources of versions are compiled for all workloads on which they are to be timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from astra_tui.gpu import drawing
from astra_tui.gpu.device import kernels_of
from astra_tui.gpu.messages import SetBuffer, Version
from astra_tui.lab.check.binding import bind_launch
from astra_tui.lab.check.bulk import BulkInput
from astra_tui.lab.check.execution import Source, read_source, resolve_case
from astra_tui.lab.check.inputs import fill_of, scalars_of
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.layout import layouts_of
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import ArgumentRole
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place, UserError
from astra_tui.model.launch import Refused
from astra_tui.model.launch.expression import names_in
from astra_tui.model.task import Argument, KernelTask, Workload


@dataclass(frozen=True)
class Compiled:
    """A source that compiled, ready to be bound to a workload."""

    source: Source
    compilation: Compilation


class WorkloadBuffers:
    """The tensors of a workload, and their values wherever someone needs them."""

    def __init__(self, task: KernelTask, workload: Workload, seed: int):
        self.task = task
        self.workload = workload
        self.seed = seed
        self.case = Case(workload.name, "", workload.dtype, dict(workload.dims))
        self._layouts = layouts_of(task, self.case)
        self.buffers = tuple(self._buffer(a) for a in task.tensors)

    @property
    def set_bytes(self) -> int:
        """Bytes of one set, what is changed in place counted twice."""
        return sum(b.size * (2 if b.use is ArgumentRole.INOUT else 1) for b in self.buffers)

    def bind(self, compiled: Compiled, attributes: Mapping[str, int]) -> Version:
        """A version's launches on this workload. Raises UserError when its plan refuses it."""
        scalars = scalars_of(self.task, self.case)
        resolved = resolve_case(self.task, compiled.source, self.case, scalars, attributes)
        if isinstance(resolved, Refused):
            raise UserError(
                f"the launch plan refuses workload {self.workload.name}: {resolved.reason}",
                file=compiled.source.file,
                place=resolved.place,
            )
        types = {name: layout.dtype for name, layout in self._layouts.items()}
        types.update({w.name: w.dtype for w in resolved.workspaces})
        launches = tuple(
            bind_launch(
                compiled.compilation.kernel(launch.kernel), launch, types, compiled.source.file
            )
            for launch in resolved.launches
        )
        return Version(
            compiled.compilation.cubin,
            kernels_of(launches),
            tuple((w.name, prod(w.shape) * w.dtype.size) for w in resolved.workspaces),
        )

    def rows(self) -> int:
        """Independent rows of the workload; 0 where the task names none."""
        return self.workload.dims[self.task.rows] if self.task.rows else 0

    @property
    def has_independent_rows(self) -> bool:
        """Whether some rows of the outputs follow from the same rows of the inputs."""
        named = {name for a in self.task.tensors for size in a.shape[1:] for name in names_in(size)}
        return bool(self.task.rows) and self.task.rows not in named

    def inputs(self) -> tuple[BulkInput, ...]:
        """What the reference is given, and how it is drawn."""
        return tuple(
            BulkInput(
                b.name,
                b.fill,
                drawing.seed_of(self.seed, b.name),
                self._layouts[b.name].element_shape,
                self.task.has_rows(self.task.args[b.name]),
            )
            for b in self.buffers
            if b.fill is not None
        )

    def arguments(self, rows: int) -> dict[str, int | float]:
        """Scalars, and dimensions with so many rows."""
        dims = dict(self.workload.dims)
        if self.task.rows:
            dims[self.task.rows] = rows
        return {**scalars_of(self.task, self.case), **dims}

    def outputs(self) -> tuple[tuple[str, DType, tuple[int, ...]], ...]:
        """Name, type and shape of every output."""
        layouts = (self._layouts[a.name] for a in self.task.outputs)
        return tuple((t.argument.name, t.dtype, t.element_shape) for t in layouts)

    def _buffer(self, argument: Argument) -> SetBuffer:
        layout = self._layouts[argument.name]
        fill = None
        if argument.is_read:
            fill = fill_of(self.task, self.case, argument.name)
        return SetBuffer(
            argument.name,
            argument.role,
            layout.elements * layout.dtype.size,
            layout.elements * layout.dtype.per_item,
            fill,
            argument.stable,
        )


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
